// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>

#include "dumpers/capture/generators/generator_places.h"
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
  return options;
}

at::Tensor on_host(const std::function<at::Tensor()>& body,
                   DumpDepth depth = DumpDepth::kTop,
                   std::uint64_t seed = 42) {
  at::Tensor result;
  at::manual_seed(seed);
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

at::Tensor state_of_cpu() { return at::globalContext().defaultGenerator(at::kCPU).get_state(); }

/// The host draws for `sample`, in the operator's own form, and moves its generator by one number.
void check_moved(const Sample& sample) {
  at::manual_seed(1);
  at::detail::getDefaultCPUGenerator().get<at::CPUGeneratorImpl>()->random();
  const at::Tensor moved_on = state_of_cpu();
  at::manual_seed(1);
  MemorySink sink;
  Capture capture(host_options(), sink, nullptr);
  at::Tensor first;
  {
    const Capture::Scope scope(capture);
    first = sample();
  }
  capture.rethrow_failure();
  DOCTEST_CHECK(same_bits(moved_on, state_of_cpu()));
  DOCTEST_CHECK(capture.warnings().empty());
  DOCTEST_CHECK(capture.counts().substitutions == 1);
  const core::OpRecord& drawn = sink.records.back();
  DOCTEST_REQUIRE(drawn.generator);
  DOCTEST_CHECK(drawn.generator->device == "host");
  DOCTEST_CHECK(drawn.generator->seed == 1);
  DOCTEST_CHECK(drawn.generator->position_before == 0);
  DOCTEST_CHECK(drawn.generator->drawn > 0);
  DOCTEST_CHECK(drawn.substitutions.at(0).reason == "rng: host");
  // Another seed changes the numbers; the dtype is the operator's own.
  DOCTEST_CHECK(same_bits(first, on_host(sample, DumpDepth::kTop, 1)));
  DOCTEST_CHECK_FALSE(same_bits(first, on_host(sample, DumpDepth::kTop, 2)));
  at::manual_seed(1);
  const at::Tensor bare = sample();
  DOCTEST_CHECK((bare.scalar_type() == first.scalar_type()));
  DOCTEST_CHECK(bare.sizes() == first.sizes());
  DOCTEST_CHECK(bare.strides() == first.strides());
}

DOCTEST_TEST_CASE("every kind of sampler is moved, and moves its generator by one number") {
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

DOCTEST_TEST_CASE("who sets a generator back has the host's numbers of then") {
  at::Generator own = at::detail::createCPUGenerator(7);
  const auto draw = [&] {
    at::poisson(at::full({30}, 3.0F));
    return at::stack({at::rand({8}), at::rand({8}, own, at::TensorOptions())});
  };
  at::Generator usual = at::globalContext().defaultGenerator(at::kCPU);
  std::vector<at::Tensor> seen;
  at::manual_seed(3);
  const Trace trace = record(host_options(), [&] {
    draw();
    const at::Tensor state = usual.get_state();
    const at::Tensor state_of_own = own.get_state();
    seen.push_back(draw());
    draw();
    // As checkpointing does, and what is drawn behind it goes on where it was.
    const at::Tensor later = usual.get_state();
    usual.set_state(state);
    own.set_state(state_of_own);
    seen.push_back(draw());
    usual.set_state(later);
    seen.push_back(draw());
    at::manual_seed(3);
    own.set_current_seed(7);
    draw();
    seen.push_back(draw());
  });
  DOCTEST_CHECK(trace.warnings.empty());
  DOCTEST_CHECK(same_bits(seen[0], seen[1]));
  DOCTEST_CHECK_FALSE(same_bits(seen[0], seen[2]));
  DOCTEST_CHECK(same_bits(seen[0], seen[3]));
  DOCTEST_CHECK_FALSE(same_bits(seen[0][0], seen[0][1]));
}

DOCTEST_TEST_CASE("a state that another process left has the numbers of there") {
  const at::Tensor x = at::ones({8});
  at::manual_seed(3);
  at::Tensor state;
  at::Tensor whole;
  record(host_options(), [&] {
    for (int i = 0; i < 2000; ++i) at::rand({1});
    state = state_of_cpu();
    whole = at::rand({8});
  });
  at::Generator usual = at::detail::getDefaultCPUGenerator();
  usual.set_state(state);
  at::Tensor resumed;
  const Trace trace = record(host_options(), [&] { resumed = at::rand({8}); });
  DOCTEST_CHECK(same_bits(whole, resumed));
  DOCTEST_CHECK(trace.only("aten::rand").generator->position_before == 2000);
}

DOCTEST_TEST_CASE("a draw that keeps a gradient is not moved, and that alone is reported") {
  const at::Tensor mean = at::zeros({4}).set_requires_grad(true);
  at::manual_seed(3);
  const Trace trace = record(host_options(), [&] {
    at::normal(mean, 1.0);
    at::rand({4});
  });
  DOCTEST_CHECK(trace.warnings.size() == 1);
}

/// As the generators of devices are, where there is no device.
class Philox : public c10::GeneratorImpl {
 public:
  explicit Philox(std::uint64_t seed)
      : GeneratorImpl(c10::Device(c10::kMeta), c10::DispatchKeySet()), seed_(seed) {}

  void set_current_seed(std::uint64_t seed) {
    seed_ = seed;
    offset_ = 0;
  }
  void set_offset(std::uint64_t offset) { offset_ = offset; }
  [[nodiscard]] std::uint64_t get_offset() const { return offset_; }
  [[nodiscard]] std::uint64_t current_seed() const { return seed_; }
  std::uint64_t seed() { return seed_; }
  void set_state(const c10::TensorImpl& state) {
    const auto* words = static_cast<const std::uint64_t*>(state.data());
    seed_ = words[0];
    offset_ = words[1];
  }
  [[nodiscard]] c10::intrusive_ptr<c10::TensorImpl> get_state() const {
    const at::Tensor state = at::empty({16}, at::kByte);
    auto* words = static_cast<std::uint64_t*>(state.data_ptr());
    words[0] = seed_;
    words[1] = offset_;
    return state.getIntrusivePtr();
  }

 private:
  [[nodiscard]] GeneratorImpl* clone_impl() const { return new Philox(*this, 0); }
  Philox(const Philox& other, int) : Philox(other.seed_) { offset_ = other.offset_; }

  std::uint64_t seed_ = 0;
  std::uint64_t offset_ = 0;
};

/// What a program that draws on a CPU first and then on a device finds, of the one kind or the
/// other.
std::vector<GeneratorPlace> places(const at::Generator& device) {
  GeneratorPlaces places;
  std::vector<GeneratorPlace> found;
  const at::Generator cpu = at::detail::getDefaultCPUGenerator();
  const auto draw = [&](const at::Generator& generator) {
    const auto place = places.find(generator, true);
    DOCTEST_REQUIRE(place);
    found.push_back(*place);
    places.move_on(generator, true);
  };
  const auto seed_all = [&](std::uint64_t seed) {
    for (at::Generator generator : {cpu, device}) generator.set_current_seed(seed);
  };
  seed_all(5);
  draw(cpu);
  draw(cpu);
  draw(device);
  draw(cpu);
  const at::Tensor of_cpu = cpu.get_state();
  const at::Tensor of_device = device.get_state();
  draw(device);
  draw(cpu);
  at::Generator(cpu).set_state(of_cpu);
  at::Generator(device).set_state(of_device);
  draw(device);
  seed_all(6);
  draw(device);
  draw(cpu);
  return found;
}

DOCTEST_TEST_CASE("the generator of a device goes along with the CPU's, as if there was one") {
  const std::vector<GeneratorPlace> on_cpu = places(at::detail::getDefaultCPUGenerator());
  const std::vector<GeneratorPlace> expected = {
      {5, 0}, {5, 1}, {5, 2}, {5, 3}, {5, 4}, {5, 5}, {5, 4}, {6, 0}, {6, 1}};
  DOCTEST_CHECK((on_cpu == expected));
  DOCTEST_CHECK((places(at::make_generator<Philox>(99)) == expected));
}

DOCTEST_TEST_CASE("generators that stand at other places do not move one another") {
  GeneratorPlaces places;
  const at::Generator cpu = at::detail::getDefaultCPUGenerator();
  at::Generator(cpu).set_current_seed(5);
  const at::Generator device = at::make_generator<Philox>(6);
  for (std::uint64_t i = 0; i < 3; ++i) {
    DOCTEST_CHECK((places.find(device, true) == GeneratorPlace{6, i}));
    places.move_on(device, true);
  }
  DOCTEST_CHECK((places.find(cpu, true) == GeneratorPlace{5, 0}));
}

DOCTEST_TEST_CASE("a generator too far behind its seed to be counted has a place of its own") {
  GeneratorPlaces places;
  const at::Generator own = at::detail::createCPUGenerator(5);
  auto* impl = own.get<at::CPUGeneratorImpl>();
  for (std::uint64_t i = 0; i < kFarthestSeek; ++i) impl->random();
  DOCTEST_CHECK((places.find(own, false) == GeneratorPlace{5, kFarthestSeek}));
  places.move_on(own, false);
  const auto far = places.find(own, false);
  const at::Tensor state = own.get_state();
  places.move_on(own, false);
  DOCTEST_CHECK((places.find(own, false) != far));
  at::Generator(own).set_state(state);
  GeneratorPlaces others;
  DOCTEST_CHECK((others.find(own, false) == far));
}

DOCTEST_TEST_CASE("host draws keep gradients where the operator has one") {
  const at::Tensor x = at::ones({64}).set_requires_grad(true);
  at::manual_seed(42);
  record(host_options(), [&] { at::dropout(x, 0.5, true).sum().backward(); });
  DOCTEST_CHECK(
      same_bits(x.grad(), on_host([&] { return at::dropout(at::ones({64}), 0.5, true); })));
  const at::Tensor y = at::ones({64}).set_requires_grad(true);
  at::manual_seed(42);
  record(host_options(), [&] { std::get<0>(at::native_dropout(y, 0.5, true)).sum().backward(); });
  DOCTEST_CHECK(same_bits(y.grad(), x.grad()));
}

}  // namespace
}  // namespace repro_check::capture
