// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <list>
#include <string>
#include <vector>

#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators {

inline bool mentions(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

/// x and w go into op 0 (t0), t0 into op 1 (t1), t1 and w into op 2 (t2).
inline Trace model(const std::string& run) {
  Trace trace(run);
  trace.tensor("x", {1, 2}).tensor("w", {3, 4});
  trace.tensor("t0", {5, 6}).tensor("t1", {7, 8}).tensor("t2", {9, 10});
  trace.named("input", "tokens", "x").named("parameter", "head.weight", "w");
  trace.op("aten::linear", {"x", "w"}, {"t0"});
  trace.op("aten::relu", {"t0"}, {"t1"});
  trace.op("aten::linear", {"t1", "w"}, {"t2"});
  return trace;
}

/// Two models whose op 1 reads other values from the storage of t0 in the candidate than op 0 left
/// there.
struct LateWrite {
  Trace baseline = model("baseline");
  Trace candidate = model("candidate");

  LateWrite() {
    for (Trace* trace : {&baseline, &candidate}) {
      trace->tensor("late", {5, 6});
      trace->json()["tensors"]["late"]["storage"] = "t0";
      trace->json()["ops"][1]["inputs"]["in0"] = "late";
    }
    candidate.json()["tensors"]["late"]["values"] = {5, 60};
    candidate.tensor("t1", {7, 80});
  }
};

inline const ordered_json kNone = ordered_json::object();

/// The cause of the only operator, whose inputs are equal and whose output is not.
inline Report compute(const std::string& name,
                      const ordered_json& from = ordered_json::object(),
                      const ordered_json& to = ordered_json::object(),
                      const ordered_json& from_manifest = ordered_json::object(),
                      const ordered_json& to_manifest = ordered_json::object()) {
  Trace baseline("baseline");
  Trace candidate("candidate");
  baseline.tensor("x", {1, 2}).tensor("y", {3, 4}).op(name, {"x"}, {"y"}, from);
  candidate.tensor("x", {1, 2}).tensor("y", {3, 5}).op(name, {"x"}, {"y"}, to);
  baseline.manifest().update(from_manifest);
  candidate.manifest().update(to_manifest);
  return compare_traces(baseline, candidate);
}

/// Kept to the end of the test.
inline const SaidCause& cause_of(const Report& report) {
  static std::list<SaidCause> kept;
  REQUIRE(report.first_divergence);
  return kept.emplace_back(said(report.first_divergence->cause));
}

}  // namespace repro_check::comparators
