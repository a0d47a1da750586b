// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/shadow.h"

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.h"
#include "dumpers/capture/torch/torch_compat.h"
#include "tests/dumpers/capture/recording.h"
#include "tests/dumpers/capture/trace_source.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::replay {
namespace shadow_test {

using capture::options_for;
using capture::record;
using capture::TraceSource;

/// What a shadow of recorded calls holds in the end.
struct Ran {
  std::map<std::string, at::Tensor> last;  ///< by operator: its last output
  ShadowCounts counts;
  std::vector<ShadowCut> cuts;
};

Ran run_shadow(TraceSource& source) {
  const CallTree tree(source, source.op_count());
  Shadow shadow(source, tree);
  Ran ran;
  Shadow::Observer observer;
  observer.after = [&](const core::OpRecord& call, ShadowMemory& memory, bool) {
    for (std::size_t i = 0; i < call.tensors.size(); ++i) {
      if (!core::is_output(call.tensors[i]) || !is_widened(call.tensors[i])) continue;
      ran.last[call.op->name] = memory.view(call.tensors[i], storage_of(call, i)).clone();
    }
  };
  shadow.run(observer);
  ran.counts = shadow.counts();
  ran.cuts = shadow.cuts();
  return ran;
}

Ran shadow_of(const std::function<void()>& body, core::DumpDepth depth = core::DumpDepth::kAll) {
  TraceSource source(record(options_for(depth, core::DumpLevel::kTensor), body));
  return run_shadow(source);
}

double apart(const at::Tensor& one, const at::Tensor& other) {
  return (at::norm(one - other) / at::norm(other)).item<double>();
}

DOCTEST_TEST_CASE("a chain of operators is computed in float64 from end to end") {
  at::manual_seed(1);
  const at::Tensor x = at::randn({6, 8});
  const at::Tensor weight = at::randn({5, 8});
  const at::Tensor bias = at::randn({5});
  const auto net = [&](auto cast) {
    const at::Tensor y = at::linear(cast(x), cast(weight), cast(bias));
    const at::Tensor z = at::softmax(at::layer_norm(at::gelu(y), {5}), -1);
    return at::mean(z * z, {0});
  };
  std::vector<at::ScalarType> types{at::kFloat, at::kBFloat16};
#if REPRO_CHECK_TORCH_AT_LEAST(2, 2)
  types.push_back(at::kHalf);  // before it a CPU multiplies no matrices of it
#endif
  for (const auto type : types) {
    const auto low = [&](const at::Tensor& t) { return t.to(type); };
    const auto wide = [&](const at::Tensor& t) { return t.to(type).to(at::kDouble); };
    const at::Tensor want = net(wide);
    const Ran ran = shadow_of([&] {
      const at::Tensor a = low(x);
      net([&](const at::Tensor& t) { return t.is_same(x) ? a : low(t); });
    });
    DOCTEST_CHECK(ran.cuts.empty());
    // The casts themselves are recorded, and are none in float64.
    const at::Tensor exact = net([](const at::Tensor& t) { return t.to(at::kDouble); });
    DOCTEST_CHECK(apart(ran.last.at("aten::mean"), exact) < 1e-14);
    if (type != at::kFloat) DOCTEST_CHECK(apart(want, exact) > 1e-5);
  }
}

DOCTEST_TEST_CASE("writes in place and views go by storage") {
  at::manual_seed(2);
  const at::Tensor start = at::randn({4, 6});
  const auto work = [](at::Tensor x) {
    at::Tensor cache = at::zeros({8, 6}, x.options());
    cache.narrow(0, 2, 4).copy_(x);
    x.mul_(1.1).add_(cache.slice(0, 2, 6), 0.3);
    const at::Tensor columns = x.t().contiguous().view({3, 8});
    columns.select(0, 1).fill_(0.1);
    return at::sum(at::cat({columns.flatten(), cache.flatten()}).exp());
  };
  const at::Tensor want = work(start.to(at::kDouble));
  const Ran ran = shadow_of([&] { work(start.clone()); });
  DOCTEST_CHECK(ran.cuts.empty());
  DOCTEST_CHECK(apart(ran.last.at("aten::sum"), want) < 1e-14);
}

DOCTEST_TEST_CASE("random numbers and masks are those of the record") {
  at::manual_seed(3);
  const at::Tensor x = at::randn({50, 20});
  at::Tensor made;
  const Ran ran = shadow_of([&] {
    const at::Tensor dropped = at::dropout(x + 0.1, 0.5, true);
    made = at::sum(dropped + at::randn({50, 20}) * 0.01);
  });
  DOCTEST_CHECK(ran.cuts.empty());
  DOCTEST_CHECK(ran.counts.draws == 2);
  DOCTEST_CHECK(apart(ran.last.at("aten::sum"), made.to(at::kDouble)) < 1e-4);
  DOCTEST_CHECK(apart(ran.last.at("aten::sum"), made.to(at::kDouble)) > 0);
}

DOCTEST_TEST_CASE("what a sampler makes is as recorded, whatever is called inside of it") {
  at::manual_seed(5);
  const at::Tensor weights = at::full({3}, 2.0);
  at::Tensor made;
  const Ran ran = shadow_of([&] {
    const at::Tensor drawn = at::_sample_dirichlet(weights);
    made = at::log(drawn.select(0, 1));
  });
  DOCTEST_CHECK(ran.cuts.empty());
  DOCTEST_CHECK(ran.counts.draws == 1);
  DOCTEST_CHECK(apart(ran.last.at("aten::log"), made.to(at::kDouble)) < 1e-6);
}

#if REPRO_CHECK_TORCH_AT_LEAST(2, 0)
DOCTEST_TEST_CASE("an operator without float64 whose inner calls do not make its result is a cut") {
  at::manual_seed(6);
  const at::Tensor x = at::randn({5, 2, 4});
  const at::Tensor state = at::zeros({1, 2, 4});
  const std::vector<at::Tensor> weights{
      at::randn({16, 4}), at::randn({16, 4}), at::randn({16}), at::randn({16})};
  at::Tensor made;
  const Ran ran = shadow_of([&] {
    const auto layer = at::mkldnn_rnn_layer(x * 1.5,
                                            weights[0],
                                            weights[1],
                                            weights[2],
                                            weights[3],
                                            state[0],
                                            state[0],
                                            false,
                                            {},
                                            2,
                                            4,
                                            1,
                                            true,
                                            false,
                                            false,
                                            false);
    made = at::sum(std::get<0>(layer));
  });
  DOCTEST_REQUIRE(ran.cuts.size() == 1);
  DOCTEST_CHECK(ran.cuts[0].why.find("outside") == std::string::npos);
  DOCTEST_CHECK(apart(ran.last.at("aten::sum"), made.to(at::kDouble)) < 1e-5);
}
#endif

DOCTEST_TEST_CASE("memory that expand() repeats is written once") {
  const at::Tensor repeated = at::full({1}, 0.1).expand({4});
  const Ran ran = shadow_of([&] { at::sum(repeated * 3); });
  DOCTEST_CHECK(ran.cuts.empty());
  DOCTEST_CHECK(apart(ran.last.at("aten::sum"), at::sum(repeated.to(at::kDouble) * 3)) < 1e-14);
}

DOCTEST_TEST_CASE("a convolution without a float64 kernel is executed as the operator around it") {
  at::manual_seed(4);
  const at::Tensor x = at::randn({2, 3, 9, 9});
  const at::Tensor weight = at::randn({4, 3, 3, 3});
  const auto net = [](const at::Tensor& image, const at::Tensor& kernel) {
    return at::sum(at::relu(at::conv2d(image, kernel)).square());
  };
  const Ran ran = shadow_of([&] { net(x, weight); });
  DOCTEST_CHECK(ran.cuts.empty());
  DOCTEST_CHECK(apart(ran.last.at("aten::sum"), net(x.to(at::kDouble), weight.to(at::kDouble))) <
                1e-14);
}

DOCTEST_TEST_CASE("numbers that are written outside of recorded operators are a cut") {
  capture::CaptureOptions options = options_for(core::DumpDepth::kAll, core::DumpLevel::kTensor);
  options.verify_inputs = true;
  TraceSource source(record(options, [&] {
    at::Tensor x = at::full({4}, 0.1) * 3;
    x.data_ptr<float>()[2] = 7;
    at::exp(x);
  }));
  const Ran ran = run_shadow(source);
  DOCTEST_REQUIRE(ran.cuts.size() == 1);
  DOCTEST_CHECK(ran.cuts[0].why.find("outside") != std::string::npos);
  DOCTEST_CHECK(ran.last.at("aten::exp")[2].item<double>() == std::exp(7.0));
}

DOCTEST_TEST_CASE(
    "decisions follow the record, and those that float64 makes otherwise are counted") {
  const Ran ran = shadow_of([&] {
    const at::Tensor x = at::full({4}, 1.0F) + 1e-9;
    const at::Tensor above = x.gt(1);
    at::sum(at::where(above, x, at::zeros({4})));
  });
  DOCTEST_CHECK(ran.counts.decisions == 4);
  DOCTEST_CHECK(ran.last.at("aten::sum").item<double>() == 0);
}

DOCTEST_TEST_CASE("complex numbers and their lazy conjugates are widened") {
  at::manual_seed(5);
  const at::Tensor x = at::randn({4, 6, 2});
  const auto work = [](const at::Tensor& pairs) {
    const at::Tensor z = at::view_as_complex(pairs);
    return at::sum(at::view_as_real((z * z.conj() + z).contiguous()).square());
  };
  const Ran ran = shadow_of([&] { work(x); });
  DOCTEST_CHECK(ran.cuts.empty());
  DOCTEST_CHECK(apart(ran.last.at("aten::sum"), work(x.to(at::kDouble))) < 1e-14);
}

DOCTEST_TEST_CASE("rounding of another sign than the recorded one stays as it is") {
  at::manual_seed(6);
  const at::Tensor recorded = at::randn({64}, at::kDouble) * 1e-9;
  const at::Tensor other = at::randn({64}, at::kDouble) * 2e-9 - recorded;
  DOCTEST_REQUIRE((other.neg() - recorded).abs().sum().item<double>() <
                  (other - recorded).abs().sum().item<double>());
  DOCTEST_CHECK(at::equal(as_read(other, recorded), other));
  // A tensor that is negated only when it is read has the recorded numbers with another sign.
  DOCTEST_CHECK(at::equal(as_read(recorded.neg() * (1 + 1e-6), recorded), recorded * (1 + 1e-6)));
}

}  // namespace shadow_test
}  // namespace repro_check::replay
