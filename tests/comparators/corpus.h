// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comparators/compare.h"
#include "tests/support/memory_source.h"

namespace repro_check::comparators {

using nlohmann::ordered_json;

inline int exit_of(const Report& report) { return static_cast<int>(exit_code_of(report)); }

/// Compares two recordings described as dump_fixture.h says.
inline Report compare_json(const ordered_json& baseline,
                           const ordered_json& candidate,
                           const CompareOptions& options = {}) {
  const auto left = test_support::source_from_json(baseline.dump());
  const auto right = test_support::source_from_json(candidate.dump());
  return compare(*left, *right, options);
}

/// A recording of one operator, `aten::linear`, that reads x and returns `tensor`.
inline ordered_json one_op(const std::string& run, const ordered_json& tensor) {
  ordered_json dump;
  dump["run"] = run;
  dump["tensors"]["x"] = {{"dtype", "float32"}, {"shape", {2}}, {"values", {1, 2}}};
  dump["tensors"]["y"] = tensor;
  dump["ops"] = {{{"operator", "aten::linear"},
                  {"module", "head"},
                  {"source", "model.py:7"},
                  {"inputs", {{"input", "x"}}},
                  {"outputs", {"y"}}}};
  return dump;
}

/// A 1-d tensor of values, or of bits where they are strings of hexadecimal digits.
inline ordered_json tensor_of(const std::string& dtype,
                              const ordered_json& content,
                              const char* key = "values") {
  return {{"dtype", dtype}, {"shape", {content.size()}}, {key, content}};
}

inline CompareOptions bitwise() { return {}; }

inline CompareOptions tolerance() {
  CompareOptions options;
  options.spec.policy.kind = configs::PolicyKind::kTolerance;
  return options;
}

inline CompareOptions tolerance(double rtol, double atol) {
  CompareOptions options = tolerance();
  options.spec.policy.rtol = rtol;
  options.spec.policy.atol = atol;
  return options;
}

inline CompareOptions with_nan(configs::EqualNan equal_nan) {
  CompareOptions options;
  options.spec.policy.equal_nan = equal_nan;
  return options;
}

}  // namespace repro_check::comparators
