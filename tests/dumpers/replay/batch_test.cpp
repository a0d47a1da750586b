// SPDX-License-Identifier: Apache-2.0
// Items of a batch, alone and among the others: operators that keep them apart, that do not, and
// that should.
#include "dumpers/replay/batch.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

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

namespace batch_operators {

/// Another kernel for large batches.
at::Tensor by_rows(const at::Tensor& x) { return x + (x.size(0) > 4 ? 1.0 : 0.0); }

/// Adds to each item what all of them are.
at::Tensor centred(const at::Tensor& x) { return x - x.mean(0, true); }

at::Tensor any_time(const at::Tensor& x) {
  static int calls = 0;
  return x + ++calls;
}

}  // namespace batch_operators

TORCH_LIBRARY_FRAGMENT(repro_check_batch_test, m) {
  m.def("by_rows(Tensor x) -> Tensor", &batch_operators::by_rows);
  m.def("centred(Tensor x) -> Tensor", &batch_operators::centred);
  m.def("any_time(Tensor x) -> Tensor", &batch_operators::any_time);
}

at::Tensor own(const std::string& name, const at::Tensor& x) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(("repro_check_batch_test::" + name).c_str(), "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(x);
}

using Body = std::function<void(const at::Tensor& x)>;

capture::Trace trace_of(const Body& body, std::int64_t items, core::DumpDepth depth) {
  // Integers, so that no kernel rounds otherwise for another number of rows.
  const at::Tensor x = at::arange(items * 6, at::kFloat).reshape({items, 2, 3});
  return capture::record(capture::options_for(depth, core::DumpLevel::kTensor), [&] { body(x); });
}

struct Swept {
  BatchOutcome outcome;
  std::vector<std::string> differing;  ///< names of operators, and which item
  std::vector<std::string> mixing;
};

/// A batch of seven beside one of one; calls belong together by their places.
Swept swept(const Body& body, core::DumpDepth depth = core::DumpDepth::kTop, std::int64_t one = 1) {
  const capture::TraceSource batch(trace_of(body, 7 * one, depth));
  const capture::TraceSource alone(trace_of(body, one, depth));
  std::vector<BatchCall> calls;
  for (std::uint64_t op = 0; op < std::min(batch.op_count(), alone.op_count()); ++op) {
    calls.push_back({op, op});
  }
  Swept made{sweep_batch(batch, alone, calls), {}, {}};
  for (const BatchDifference& each : made.outcome.differing) {
    made.differing.push_back(batch.op(each.op).op->name + " " + std::to_string(each.item));
  }
  for (const std::uint64_t op : made.outcome.mixing) {
    made.mixing.push_back(batch.op(op).op->name);
  }
  return made;
}

using Names = std::vector<std::string>;

}  // namespace

DOCTEST_TEST_CASE("operators that give an item alone what they give it in the batch are silent") {
  const Swept found = swept([](const at::Tensor& x) {
    const at::Tensor flat = x.reshape({x.size(0) * 2, 3});
    const at::Tensor wide = at::mm(flat, at::ones({3, 5})).view({x.size(0), 2, 5});
    at::softmax(wide.transpose(0, 1), 2).add_(1);
    at::cat({x, x}, 1).narrow(0, 0, x.size(0));
    x.expand({2, x.size(0), 2, 3}).contiguous();
  });
  DOCTEST_CHECK(found.outcome.items == 7);
  DOCTEST_CHECK(found.differing.empty());
  DOCTEST_CHECK(found.mixing.empty());
  DOCTEST_CHECK(found.outcome.unswept.empty());
  DOCTEST_CHECK(found.outcome.without_items == 1);  // the tensor of ones
  DOCTEST_CHECK(found.outcome.judged >= 9);
  // Columns of ones make the same of every item.
  DOCTEST_CHECK(found.outcome.told_apart == found.outcome.judged - 2);
}

DOCTEST_TEST_CASE("an operator whose result depends on how many items there are is found") {
  const Swept found = swept([](const at::Tensor& x) { own("by_rows", at::relu(x)); });
  DOCTEST_CHECK(found.differing == Names{"repro_check_batch_test::by_rows 0",
                                         "repro_check_batch_test::by_rows 3",
                                         "repro_check_batch_test::by_rows 6"});
  DOCTEST_REQUIRE(found.outcome.differing.front().output);
  const SweptOutput& output = *found.outcome.differing.front().output;
  DOCTEST_CHECK(output.slot == "0");
  DOCTEST_CHECK(output.elements == 6);
  DOCTEST_CHECK(output.differing == 6);
  DOCTEST_CHECK(output.max_abs == 1);
  DOCTEST_CHECK(output.largest == 6);
}

DOCTEST_TEST_CASE("items of several rows are told by how often they are there") {
  const Swept found =
      swept([](const at::Tensor& x) { own("by_rows", at::relu(x)); }, core::DumpDepth::kTop, 3);
  DOCTEST_CHECK(found.outcome.items == 7);
  DOCTEST_CHECK(found.outcome.differing.size() == 3);
}

DOCTEST_TEST_CASE("what joins items is no fault, and nor is what draws") {
  const Swept found = swept([](const at::Tensor& x) {
    own("centred", x);
    at::cumsum(x, 0);
    at::softmax(x, 0);
    x.sum();
    const at::Tensor flat = x.reshape({x.size(0), 6});
    at::mm(flat, flat.t());
    at::bernoulli(x.clamp(0, 1));
    at::flip(x, {0});
    at::tril(flat + 1);  // what is left of an item depends on where it stands
  });
  DOCTEST_CHECK(found.differing.empty());
  DOCTEST_CHECK(found.outcome.unswept.empty());
  DOCTEST_CHECK(found.mixing == Names{"repro_check_batch_test::centred",
                                      "aten::cumsum",
                                      "aten::softmax",
                                      "aten::sum",
                                      "aten::mm",
                                      "aten::bernoulli",
                                      "aten::flip",
                                      "aten::tril"});
}

DOCTEST_TEST_CASE("a number that is not the same for one item makes another call") {
  const Swept found =
      swept([](const at::Tensor& x) { at::relu(x).div(static_cast<std::int64_t>(x.size(0))); });
  DOCTEST_CHECK(found.differing.empty());
  DOCTEST_REQUIRE(found.outcome.unswept.size() == 1);
  DOCTEST_CHECK(found.outcome.unswept.front().why.find("other is 7 for all items and 1 for one") !=
                std::string::npos);
}

DOCTEST_TEST_CASE("items that are equal tell nothing of a call that joins them") {
  const Swept found = swept([](const at::Tensor& x) { at::softmax(at::zeros_like(x), 0); });
  DOCTEST_CHECK(found.differing.empty());
  DOCTEST_REQUIRE(found.outcome.unswept.size() == 1);
  DOCTEST_CHECK(found.outcome.unswept.front().why.find("items are equal") != std::string::npos);
}

DOCTEST_TEST_CASE("what does not repeat is not judged") {
  const Swept found = swept([](const at::Tensor& x) { own("any_time", at::relu(x)); });
  DOCTEST_CHECK(found.differing.empty());
  DOCTEST_CHECK(found.outcome.unrepeated.size() == 1);
}

DOCTEST_TEST_CASE("inside of a call that joins items the others are judged") {
  const Swept found = swept(
      [](const at::Tensor& x) {
        at::cross_entropy_loss(x.reshape({x.size(0), 6}), at::zeros({x.size(0)}, at::kLong));
      },
      core::DumpDepth::kAll);
  DOCTEST_CHECK(found.differing.empty());
  DOCTEST_REQUIRE(!found.mixing.empty());
  DOCTEST_CHECK(found.mixing.front() == "aten::cross_entropy_loss");
  DOCTEST_CHECK(found.outcome.judged > 1);
}

DOCTEST_TEST_CASE("a call without counterpart is named, and items that nobody has are none") {
  const Body body = [](const at::Tensor& x) { at::relu(x); };
  const capture::TraceSource batch(trace_of(body, 7, core::DumpDepth::kTop));
  const capture::TraceSource alone(trace_of(body, 1, core::DumpDepth::kTop));
  DOCTEST_CHECK(sweep_batch(batch, alone, {}).items == 0);
  const std::vector<BatchCall> calls{{0, 0}};
  DOCTEST_CHECK(sweep_batch(batch, batch, calls).items == 0);
}

}  // namespace repro_check::replay
