// SPDX-License-Identifier: Apache-2.0
// Each operator here depends on one thing that a sweep changes, or on none.
#include "dumpers/replay/sweep.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/dumpers/capture/recording.h"
#include "tests/dumpers/capture/trace_source.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::replay {
namespace {

using Kind = SweepSetting::Kind;

namespace operators {

at::Tensor by_threads(const at::Tensor& x) {
  return x + static_cast<double>(at::get_num_threads());
}

/// Vector kernels treat what comes before the first aligned element otherwise.
at::Tensor by_address(const at::Tensor& x) {
  constexpr std::uintptr_t kAligned = 64;
  return x + static_cast<double>(reinterpret_cast<std::uintptr_t>(x.data_ptr()) % kAligned);
}

/// Writes all elements but the last one.
at::Tensor leaky(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  const std::int64_t written = x.numel() - 1;
  out.narrow(0, 0, written).copy_(x.narrow(0, 0, written));
  return out;
}

at::Tensor any_time(const at::Tensor& x) {
  static int calls = 0;
  return x + ++calls;
}

at::Tensor& add_in_place(at::Tensor& x) {
  return x.add_(static_cast<double>(reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 64));
}

at::Tensor refuses(const at::Tensor& x) {
  static int calls = 0;
  TORCH_CHECK(calls++ == 0, "once is enough");
  return x + 1;
}

}  // namespace operators

TORCH_LIBRARY_FRAGMENT(repro_check_sweep_test, m) {
  m.def("by_threads(Tensor x) -> Tensor", &operators::by_threads);
  m.def("by_address(Tensor x) -> Tensor", &operators::by_address);
  m.def("leaky(Tensor x) -> Tensor", &operators::leaky);
  m.def("any_time(Tensor x) -> Tensor", &operators::any_time);
  m.def("refuses(Tensor x) -> Tensor", &operators::refuses);
  m.def("add_in_place(Tensor(a!) x) -> Tensor(a!)", &operators::add_in_place);
}

at::Tensor call_operator(const std::string& name, const at::Tensor& x) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(("repro_check_sweep_test::" + name).c_str(), "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(x);
}

void add_in_place(at::Tensor x) {
  c10::Dispatcher::singleton()
      .findSchemaOrThrow("repro_check_sweep_test::add_in_place", "")
      .typed<at::Tensor&(at::Tensor&)>()
      .call(x);
}

const std::vector<SweepSetting> kAll{{Kind::kThreads, 1},
                                     {Kind::kThreads, 3},
                                     {Kind::kAlignment, 4},
                                     {Kind::kFill, 85},
                                     {Kind::kFill, 170}};

/// @return the outcome, and what it says by operator: `repro_check_sweep_test::leaky poison=170`
SweepOutcome sweep_of(const std::function<void()>& body,
                      std::vector<std::string>& said,
                      core::DumpDepth depth = core::DumpDepth::kTop) {
  at::set_num_threads(2);
  capture::TraceSource source(
      capture::record(capture::options_for(depth, core::DumpLevel::kTensor), body));
  SweepOutcome outcome = sweep(source, kAll);
  for (const SweptCall& call : outcome.differing) {
    std::string text = source.op(call.op).op->name;
    text += call.setting ? " at " + std::to_string(*call.setting) : " as recorded";
    said.push_back(text);
  }
  return outcome;
}

}  // namespace

DOCTEST_TEST_CASE("what an operator depends on is found, and what it does not is not") {
  std::vector<std::string> said;
  const SweepOutcome outcome = sweep_of(
      [] {
        const at::Tensor x = at::ones({100});
        call_operator("by_threads", x);
        call_operator("by_address", x);
        at::relu(x).add_(1);
        at::relu(x).detach_();
      },
      said);
  DOCTEST_CHECK(outcome.had == std::vector<std::uint64_t>{0, 1, 2, 3, 4});
  DOCTEST_CHECK(said == std::vector<std::string>{"repro_check_sweep_test::by_threads at 0",
                                                 "repro_check_sweep_test::by_threads at 1",
                                                 "repro_check_sweep_test::by_address at 2"});
  // The tensor of ones is no input: it is made here.
  DOCTEST_CHECK(outcome.executed == 7);
  DOCTEST_CHECK(outcome.unswept.empty());
  DOCTEST_REQUIRE(outcome.differing.front().output);
  const SweptOutput& output = *outcome.differing.front().output;
  DOCTEST_CHECK(output.elements == 100);
  DOCTEST_CHECK(output.differing == 100);
  DOCTEST_CHECK(output.max_abs == 1);
  DOCTEST_CHECK(output.largest == 3);
}

DOCTEST_TEST_CASE("memory that nobody wrote is found, whether it happened to repeat or not") {
  std::vector<std::string> said;
  sweep_of([] { call_operator("leaky", at::ones({100})); }, said);
  DOCTEST_REQUIRE(!said.empty());
  DOCTEST_CHECK(said.back() == "repro_check_sweep_test::leaky at 4");
}

DOCTEST_TEST_CASE("arguments that are written are moved as well, and made afresh") {
  std::vector<std::string> said;
  sweep_of([] { add_in_place(at::ones({100})); }, said);
  DOCTEST_CHECK(said == std::vector<std::string>{"repro_check_sweep_test::add_in_place at 2"});
}

DOCTEST_TEST_CASE("what does not repeat as recorded is tried under no other setting") {
  std::vector<std::string> said;
  sweep_of([] { call_operator("any_time", at::ones({4})); }, said);
  DOCTEST_CHECK(said == std::vector<std::string>{"repro_check_sweep_test::any_time as recorded"});
}

DOCTEST_TEST_CASE("a call that cannot be made is named with its reason") {
  std::vector<std::string> said;
  const SweepOutcome outcome = sweep_of([] { call_operator("refuses", at::ones({4})); }, said);
  DOCTEST_CHECK(said.empty());
  DOCTEST_REQUIRE(outcome.unswept.size() == 1);
  DOCTEST_CHECK(outcome.unswept.front().why.find("once is enough") != std::string::npos);
}

DOCTEST_TEST_CASE("random numbers are drawn again, one call behind the other") {
  std::vector<std::string> said;
  const SweepOutcome outcome = sweep_of(
      [] {
        at::manual_seed(3);
        const at::Tensor x = at::randn({64});
        at::dropout(x + 1, 0.5, true);
        at::randn({32}).sum();
        at::randn({5});
      },
      said,
      core::DumpDepth::kAll);
  DOCTEST_CHECK(said.empty());
  DOCTEST_CHECK(outcome.unswept.empty());
}

DOCTEST_TEST_CASE("what is inside of a call that was executed is not judged twice") {
  std::vector<std::string> said;
  const SweepOutcome outcome = sweep_of(
      [] {
        at::linear(at::ones({2, 3}), at::ones({4, 3}));
      },
      said,
      core::DumpDepth::kAll);
  DOCTEST_CHECK(said.empty());
  DOCTEST_CHECK(outcome.executed == 3);  // both tensors of ones, and the layer
}

DOCTEST_TEST_CASE("what one last bit moves far, or decides, is found, and what is sound is not") {
  const capture::TraceSource source(
      capture::record(capture::options_for(core::DumpDepth::kTop, core::DumpLevel::kTensor), [] {
        const at::Tensor x = at::linspace(1, 2, 64);
        at::relu(x);
        at::softmax(x, 0);
        at::mm(x.view({8, 8}), x.view({8, 8}));
        at::sub(x, x + 1e-6);                          // nearly all of it is taken away
        at::topk(at::cat({x, at::zeros({1}), x}), 1);  // two are equal
        at::eq(x, x + 0);
        at::argmax(x);
        at::gt(at::ones({4}), 1);  // whole numbers are exact
        at::where(x.gt(1.5), x, at::full({64}, -HUGE_VAL));
      }));
  const SweepOutcome outcome = sweep(source, {{Kind::kCondition, 0}, {Kind::kDecision, 0}});
  std::vector<std::string> said;
  for (const SweptCall& call : outcome.differing) {
    DOCTEST_REQUIRE(call.output);
    DOCTEST_CHECK(!call.output->argument.empty());
    said.push_back(source.op(call.op).op->name +
                   (call.output->condition ? " moves " : " decides ") + call.output->slot);
    if (call.output->condition) DOCTEST_CHECK(*call.output->condition > 1e4);
  }
  DOCTEST_CHECK(said == std::vector<std::string>{"aten::sub moves 0", "aten::eq decides 0"});
  DOCTEST_CHECK(outcome.unswept.empty());
}

DOCTEST_TEST_CASE("numbers of Python are numbers again") {
  std::vector<std::string> said;
  sweep_of(
      [] {
        const at::Tensor counts = at::arange(5, at::kLong);
        at::mul(counts, 0.5);
        at::mul(counts, at::full({}, 0.5, at::kDouble));
        at::add(at::ones({3}, at::kHalf), 2.5);
      },
      said);
  DOCTEST_CHECK(said.empty());
}

DOCTEST_TEST_CASE("weights that are trained are so again, with and without gradients") {
  std::vector<std::string> said;
  sweep_of(
      [] {
        at::manual_seed(0);
        const at::Tensor weight = at::rand({90, 32}).requires_grad_(true);
        const at::Tensor last = at::rand({7, 6, 32}).slice(1, 5, 6);
        at::linear(last, weight);
        const at::NoGradGuard off;
        at::linear(last, weight);
      },
      said);
  DOCTEST_CHECK(std::ranges::none_of(
      said, [](const std::string& each) { return each.find("as recorded") != std::string::npos; }));
}

DOCTEST_TEST_CASE("threads as they are anyway are no setting") {
  at::set_num_threads(2);
  capture::TraceSource source(
      capture::record(capture::options_for(core::DumpDepth::kTop, core::DumpLevel::kTensor),
                      [] { at::ones({1}); }));
  DOCTEST_CHECK(sweep(source, {{Kind::kThreads, 2}}).had.empty());
}

}  // namespace repro_check::replay
