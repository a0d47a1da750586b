// SPDX-License-Identifier: Apache-2.0
// What ranks exchange is known by what an operator is given, whatever a release calls that.
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "dumpers/capture/engine/operator_plan.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {

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
