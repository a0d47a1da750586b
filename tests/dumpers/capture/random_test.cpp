// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>

#include "tests/dumpers/capture/recording.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

using core::DumpDepth;

/// Ends the program when a test hangs.
class TimeLimit {
 public:
  explicit TimeLimit(unsigned seconds) {
    std::signal(SIGALRM, [](int) { std::abort(); });
    ::alarm(seconds);
  }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  TimeLimit(TimeLimit&&) = delete;
  TimeLimit& operator=(TimeLimit&&) = delete;
  ~TimeLimit() { ::alarm(0); }
};

/// The movement one call makes, from a fresh seed.
std::optional<core::GeneratorUse> movement(const std::function<void()>& body) {
  at::manual_seed(5);
  const Trace sink = record(options_for(DumpDepth::kTop), body);
  return sink.records.back().generator;
}

std::int64_t draws(const std::function<void()>& body) {
  const auto use = movement(body);
  return use ? use->drawn : 0;
}

DOCTEST_TEST_CASE("draws are counted exactly") {
  DOCTEST_CHECK(draws([] { at::rand({100}); }) == 100);
  DOCTEST_CHECK(draws([] { at::rand({100}, at::kDouble); }) == 200);
  DOCTEST_CHECK(draws([] { at::randn({16}); }) == 16);
  DOCTEST_CHECK(draws([] { at::randn({17}); }) == 33);
  DOCTEST_CHECK(draws([] { at::randn({100}); }) == 116);
  DOCTEST_CHECK(draws([] { at::randn({1}); }) == 4);
  DOCTEST_CHECK(draws([] { at::randn({3}); }) == 8);
  DOCTEST_CHECK(draws([] { at::randn({100}, at::kDouble); }) == 232);
  DOCTEST_CHECK(draws([] { at::dropout(at::ones({100}), 0.5, true); }) == 200);
  DOCTEST_CHECK(draws([] { at::bernoulli(at::full({100}, 0.5F)); }) == 100);
  DOCTEST_CHECK(draws([] { at::randint(10, {100}); }) == 100);
  DOCTEST_CHECK(draws([] { at::randint(std::int64_t{1} << 40, {100}); }) == 200);
  DOCTEST_CHECK(draws([] { at::randperm(10); }) == 9);
  DOCTEST_CHECK(draws([] { at::randperm(1); }) == 0);
  DOCTEST_CHECK(draws([] { at::multinomial(at::ones({50}), 10); }) == 100);
  DOCTEST_CHECK(draws([] { at::multinomial(at::ones({50}), 10, true); }) == 20);
  DOCTEST_CHECK(draws([] { at::rand({0}); }) == 0);
  DOCTEST_CHECK(draws([] { at::sort(at::ones({100})); }) == 0);
}

DOCTEST_TEST_CASE("multiples of a whole block and the cached normal are seen") {
  DOCTEST_CHECK(draws([] { at::rand({624}); }) == 624);
  DOCTEST_CHECK(draws([] { at::rand({1248}); }) == 1248);
  at::manual_seed(5);
  const Trace sink = record(options_for(DumpDepth::kTop), [] {
    at::randn({1});
    at::randn({1});
    at::neg(at::ones({1}));
  });
  const auto randn = sink.all("aten::randn");
  DOCTEST_REQUIRE(randn[1]->generator);
  DOCTEST_CHECK(randn[1]->generator->device == "cpu");
  DOCTEST_CHECK(randn[1]->generator->seed == 5);
  DOCTEST_CHECK(randn[1]->generator->position_before == randn[0]->generator->position_after);
  DOCTEST_CHECK(randn[1]->generator->position_after != randn[1]->generator->position_before);
  DOCTEST_CHECK_FALSE(sink.only("aten::neg").generator);
  DOCTEST_CHECK(randn[0]->op->seeded);
  DOCTEST_CHECK_FALSE(sink.only("aten::neg").op->seeded);
}

DOCTEST_TEST_CASE("a kernel that calls operators while it holds its generator does not hang") {
  const TimeLimit limit(60);
  at::manual_seed(5);
  const Trace sink = record(options_for(DumpDepth::kAll), [] { at::randperm(10); });
  DOCTEST_CHECK(sink.warnings.empty());
  const auto use = sink.all("aten::randperm").front()->generator;
  DOCTEST_REQUIRE(use);
  DOCTEST_CHECK(use->drawn == 9);
}

DOCTEST_TEST_CASE("a generator that the program holds is not awaited, and that is said") {
  const TimeLimit limit(60);
  const at::Tensor x = at::ones({4});
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> held(generator.mutex());
  const Trace sink = record(options_for(DumpDepth::kTop), [&] {
    at::neg(x);
    at::abs(x);
  });
  DOCTEST_REQUIRE(sink.records.size() == 2);
  DOCTEST_REQUIRE(sink.warnings.size() == 1);
  DOCTEST_CHECK(sink.warnings[0].find("op 0 aten::neg is the first") == 0);
}

DOCTEST_TEST_CASE("movement between two calls is nobody's") {
  at::manual_seed(5);
  const Trace sink = record(options_for(DumpDepth::kTop), [] {
    at::ones({1});
    at::manual_seed(6);
    at::ones({1});
    at::rand({4});
  });
  DOCTEST_CHECK_FALSE(sink.records[1].generator);
  DOCTEST_CHECK(sink.only("aten::rand").generator->seed == 6);
}

DOCTEST_TEST_CASE("draws are counted over any number of rounds of the engine") {
  at::manual_seed(5);
  for (const std::int64_t count : {1, 622, 1, 624, 1248, 5000, 3}) {
    const auto use = movement([&] { at::rand({count}); });
    DOCTEST_REQUIRE(use);
    DOCTEST_CHECK(use->drawn == count);
  }
}

DOCTEST_TEST_CASE("a generator of the model's own is the one that is watched") {
  at::Generator own = at::detail::createCPUGenerator(77);
  const auto use = movement([&] { at::rand({10}, own, at::TensorOptions()); });
  DOCTEST_REQUIRE(use);
  DOCTEST_CHECK(use->seed == 77);
  DOCTEST_CHECK(use->drawn == 10);
}

CaptureOptions host_options(DumpDepth depth = DumpDepth::kTop) {
  CaptureOptions options = options_for(depth);
  options.rng = core::RngMode::kHost;
  options.seed = 42;
  return options;
}

at::Tensor on_host(const std::function<at::Tensor()>& body, DumpDepth depth = DumpDepth::kTop) {
  at::Tensor result;
  record(host_options(depth), [&] { result = body(); });
  return result;
}

DOCTEST_TEST_CASE("host draws are the same numbers for every dtype and memory order") {
  const at::Tensor image = at::empty({2, 3, 4, 5});
  const at::Tensor nhwc = at::empty({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  using Fill = std::function<at::Tensor(at::Tensor)>;
  for (const Fill& fill : {Fill([](at::Tensor t) { return t.uniform_(-1, 2); }),
                           Fill([](at::Tensor t) { return t.normal_(1, 3); }),
                           Fill([](at::Tensor t) { return t.exponential_(2); }),
                           Fill([](at::Tensor t) { return t.bernoulli_(0.3); }),
                           Fill([](at::Tensor t) { return t.log_normal_(); }),
                           Fill([](at::Tensor t) { return t.cauchy_(); })}) {
    const at::Tensor reference = on_host([&] { return fill(image.clone()); });
    const at::Tensor turned = on_host([&] { return fill(nhwc.clone()); });
    DOCTEST_CHECK(turned.is_contiguous(at::MemoryFormat::ChannelsLast));
    DOCTEST_CHECK(same_bits(reference, turned));
    const at::Tensor wide = on_host([&] { return fill(image.to(at::kDouble)); });
    DOCTEST_CHECK(same_bits(reference.to(at::kDouble), wide));
    const at::Tensor brief = on_host([&] { return fill(image.to(at::kBFloat16)); });
    DOCTEST_CHECK(same_bits(reference.to(at::kBFloat16), brief));
  }
  const at::Tensor randn = on_host([] { return at::randn({7, 5}); });
  DOCTEST_CHECK(same_bits(randn.to(at::kHalf), on_host([] {
                            return at::randn({7, 5}, at::kHalf);
                          })));
  DOCTEST_CHECK(same_bits(randn, on_host([&] { return at::randn_like(at::ones({7, 5})); })));
  DOCTEST_CHECK(same_bits(randn, on_host([&] { return at::empty({7, 5}).normal_(); })));
}

using Sample = std::function<at::Tensor()>;

/// The host draws for `sample`, in the operator's own form, and the device's generator stays put.
void check_moved(const Sample& sample) {
  at::manual_seed(1);
  const at::Tensor state = at::globalContext().defaultGenerator(at::kCPU).get_state();
  MemorySink sink;
  Capture capture(host_options(), sink, nullptr);
  at::Tensor first;
  {
    const Capture::Scope scope(capture);
    first = sample();
  }
  capture.rethrow_failure();
  DOCTEST_CHECK(same_bits(state, at::globalContext().defaultGenerator(at::kCPU).get_state()));
  DOCTEST_CHECK(capture.warnings().empty());
  DOCTEST_CHECK(capture.counts().substitutions == 1);
  const core::OpRecord& drawn = sink.records.back();
  DOCTEST_REQUIRE(drawn.generator);
  DOCTEST_CHECK(drawn.generator->device == "host");
  DOCTEST_CHECK(drawn.generator->drawn > 0);
  DOCTEST_CHECK(drawn.substitutions.at(0).reason == "rng: host");
  // Another device seed changes nothing; another base seed does; the dtype is the operator's own.
  at::manual_seed(2);
  DOCTEST_CHECK(same_bits(first, on_host(sample)));
  CaptureOptions other = host_options();
  other.seed = 43;
  at::Tensor different;
  record(other, [&] { different = sample(); });
  DOCTEST_CHECK_FALSE(same_bits(first, different));
  at::manual_seed(1);
  const at::Tensor bare = sample();
  DOCTEST_CHECK((bare.scalar_type() == first.scalar_type()));
  DOCTEST_CHECK(bare.sizes() == first.sizes());
  DOCTEST_CHECK(bare.strides() == first.strides());
}

DOCTEST_TEST_CASE("every kind of sampler is moved, and leaves the device's generator alone") {
  const at::Tensor p = at::full({4, 50}, 0.5F);
  const std::vector<Sample> samples = {
      [] { return at::rand({100}); },
      [] { return at::randn({100}); },
      [] { return at::randint(3, 9, {100}); },
      [] { return at::randint(9, {100}, at::kFloat); },
      [] { return at::randperm(100); },
      [&] { return at::rand_like(p); },
      [&] { return at::randint_like(p, 7); },
      [&] { return at::bernoulli(p); },
      [&] { return at::bernoulli(p, 0.25); },
      [&] {
        return at::empty({4, 50}).bernoulli_(p);
      },
      [&] { return at::normal(p, 2.0); },
      [&] { return at::normal(0.0, p); },
      [&] { return at::normal(p, p); },
      [] { return at::normal(0.0, 1.0, {100}); },
      [&] { return at::multinomial(p, 20); },
      [&] { return at::poisson(p); },
      [&] { return at::binomial(p.mul(10).round(), p); },
      [&] { return at::_standard_gamma(p); },
      [&] { return at::_sample_dirichlet(p); },
      [] { return at::empty({100}, at::kLong).random_(); },
      [] { return at::empty({100}, at::kLong).random_(3, 9); },
      [] { return at::empty({100}).geometric_(0.5); },
      [] {
        at::Tensor out = at::empty({0});
        return at::rand_out(out, {100});
      },
      [&] {
        at::Tensor out = at::empty({0});
        return at::normal_out(out, p, p);
      },
      [&] { return at::dropout(p, 0.5, true); },
      [&] { return at::alpha_dropout(p, 0.5, true); },
      [&] { return std::get<0>(at::native_dropout(p, 0.5, true)); },
  };
  for (std::size_t i = 0; i < samples.size(); ++i) {
    DOCTEST_CAPTURE(i);
    check_moved(samples[i]);
  }
}

DOCTEST_TEST_CASE("a call's numbers do not depend on how many an earlier one drew") {
  const auto second = [](std::int64_t first_size) {
    return on_host([&] {
      at::poisson(at::full({first_size}, 3.0F));
      return at::rand({8});
    });
  };
  DOCTEST_CHECK(same_bits(second(10), second(1000)));
  // And two calls alike are two draws.
  DOCTEST_CHECK_FALSE(same_bits(on_host([] { return at::rand({8}); }), second(1)));
}

DOCTEST_TEST_CASE("dropout draws the same mask at every depth and in every dtype") {
  const at::Tensor x = at::ones({300});
  const at::Tensor reference = on_host([&] { return at::dropout(x, 0.5, true); });
  for (const DumpDepth depth : {DumpDepth::kTop, DumpDepth::kLeaf, DumpDepth::kAll}) {
    DOCTEST_CHECK(same_bits(reference, on_host([&] { return at::dropout(x, 0.5, true); }, depth)));
  }
  const at::Tensor half = on_host([&] { return at::dropout(x.to(at::kBFloat16), 0.5, true); });
  DOCTEST_CHECK(same_bits(reference, half.to(at::kFloat)));
  const at::Tensor native = on_host([&] { return std::get<0>(at::native_dropout(x, 0.5, true)); });
  DOCTEST_CHECK(same_bits(reference, native));
}

DOCTEST_TEST_CASE("what cannot be moved runs as it is, and is reported") {
  MemorySink sink;
  Capture capture(host_options(), sink, nullptr);
  at::manual_seed(1);
  {
    const Capture::Scope scope(capture);
    at::rrelu(at::full({50}, -1.0F), 0.1, 0.3, true);
    at::rand({0});
    at::rand({4}, at::device(at::kMeta));
  }
  capture.rethrow_failure();
  DOCTEST_REQUIRE(capture.warnings().size() == 1);
  DOCTEST_CHECK(capture.warnings()[0].find("aten::rrelu drew from the cpu generator") == 0);
  DOCTEST_CHECK(capture.counts().substitutions == 0);
  DOCTEST_CHECK(sink.only("aten::rrelu").generator->device == "cpu");
}

DOCTEST_TEST_CASE("a generator of the model's own has a twin on the host") {
  const auto with_own = [](std::uint64_t seed) {
    at::Generator own = at::detail::createCPUGenerator(seed);
    return on_host([&] {
      at::rand({5}, own, at::TensorOptions());
      return at::rand({5}, own, at::TensorOptions());
    });
  };
  DOCTEST_CHECK(same_bits(with_own(1), with_own(1)));
  DOCTEST_CHECK_FALSE(same_bits(with_own(1), with_own(2)));
}

DOCTEST_TEST_CASE("host draws keep gradients where the operator has one") {
  const at::Tensor x = at::ones({64}).set_requires_grad(true);
  record(host_options(), [&] { at::dropout(x, 0.5, true).sum().backward(); });
  DOCTEST_CHECK(
      same_bits(x.grad(), on_host([&] { return at::dropout(at::ones({64}), 0.5, true); })));
  const at::Tensor y = at::ones({64}).set_requires_grad(true);
  record(host_options(), [&] { std::get<0>(at::native_dropout(y, 0.5, true)).sum().backward(); });
  DOCTEST_CHECK(same_bits(y.grad(), x.grad()));
}

}  // namespace
}  // namespace repro_check::capture
