// SPDX-License-Identifier: Apache-2.0
// What ranks exchange is known by what an operator is given, whatever a release calls that.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <vector>

#include "dumpers/capture/engine/operator_plan.h"
#include "tests/dumpers/capture/recording.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

struct Work : torch::CustomClassHolder {
  void wait() { ++waits; }
  static inline int waits = 0;
};

const auto kWorkClass =
    torch::class_<Work>("repro_check_exchanges", "Work").def("wait", &Work::wait);

std::tuple<std::vector<at::Tensor>, c10::intrusive_ptr<Work>> reduce(
    std::vector<at::Tensor> tensors, const std::string& /*group_name*/, bool waits) {
  return {std::move(tensors), waits ? c10::make_intrusive<Work>() : c10::intrusive_ptr<Work>()};
}

TORCH_LIBRARY_FRAGMENT(c10d, m) {
  m.def(
      "repro_check_reduce_(Tensor[] tensors, str group_name, bool waits) -> "
      "(Tensor[], __torch__.torch.classes.repro_check_exchanges.Work)",
      &reduce);
}

}  // namespace

DOCTEST_TEST_CASE("a collective is waited for, if it gives anything to wait for") {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("c10d::repro_check_reduce_", "");
  const Trace trace = record(options_for(core::DumpDepth::kTop, core::DumpLevel::kDigest), [&] {
    for (const bool waits : {true, false}) {
      torch::jit::Stack stack{std::vector<at::Tensor>{at::ones({2})}, std::string("world"), waits};
      op.callBoxed(&stack);
    }
  });
  DOCTEST_CHECK(Work::waits == 1);
  DOCTEST_CHECK(trace.all("c10d::repro_check_reduce_").size() == 2);
}

DOCTEST_TEST_CASE("exchanges of c10d have a group, and what they fill is written") {
  OperatorPlans plans({}, {});
  std::size_t seen = 0;
  for (const std::string base : {"allgather_",
                                 "allreduce_",
                                 "alltoall_",
                                 "barrier",
                                 "broadcast_",
                                 "gather_",
                                 "recv_",
                                 "reduce_",
                                 "reduce_scatter_",
                                 "scatter_",
                                 "send"}) {
    const auto op = c10::Dispatcher::singleton().findSchema({"c10d::" + base, ""});
    if (!op) continue;
    ++seen;
    DOCTEST_CAPTURE(base);
    const OperatorPlan& plan = plans.find(*op);
    const bool message = base == "send" || base == "recv_";
    DOCTEST_CHECK(plan.exchange == (message ? Exchange::kMessage : Exchange::kCollective));
    DOCTEST_CHECK(plan.arguments.at(static_cast<std::size_t>(plan.group_argument)).name ==
                  "process_group");
    if (const int filled = plan.find("output_tensors"); filled >= 0) {
      DOCTEST_CHECK(plan.arguments.at(static_cast<std::size_t>(filled)).written);
    }
  }
  if (seen == 0) DOCTEST_MESSAGE("this LibTorch has no c10d");
}

}  // namespace repro_check::capture
