// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/comparators/corpus.h"

namespace repro_check::comparators {

/// `t3`
inline std::string numbered(const char* prefix, std::size_t number) {
  return std::string(prefix).append(std::to_string(number));
}

/// Writes a recording of several operators, tensor by tensor.
class Trace {
 public:
  explicit Trace(const std::string& run) {
    dump_["run"] = run;
    dump_["ops"] = ordered_json::array();
    dump_["named"] = ordered_json::array();
    dump_["manifest"] = ordered_json::object();
    dump_["tensors"] = ordered_json::object();
  }

  Trace& tensor(const std::string& name, const ordered_json& values) {
    dump_["tensors"][name] = tensor_of("float32", values);
    return *this;
  }

  Trace& named(const std::string& kind, const std::string& name, const std::string& tensor) {
    dump_["named"].push_back({{"kind", kind}, {"name", name}, {"tensor", tensor}});
    return *this;
  }

  /// @param extra  further members of the operator, as an object
  Trace& op(const std::string& name,
            const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs,
            const ordered_json& extra = ordered_json::object()) {
    ordered_json record;
    record["operator"] = name;
    record["module"] = "m";
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      record["inputs"][numbered("in", i)] = inputs[i];
    }
    record["outputs"] = outputs;
    record.update(extra);
    dump_["ops"].push_back(std::move(record));
    return *this;
  }

  ordered_json& json() noexcept { return dump_; }
  ordered_json& manifest() { return dump_["manifest"]; }

 private:
  ordered_json dump_;
};

inline Report compare_traces(Trace& baseline,
                             Trace& candidate,
                             const CompareOptions& options = {}) {
  return compare_json(baseline.json(), candidate.json(), options);
}

/// A chain of operators `names`, each reading what the one before returned. Values are equal on
/// every side that is built so.
inline Trace chain(const std::string& run, const std::vector<std::string>& names) {
  Trace trace(run);
  trace.tensor("x", {1, 2, 3});
  std::string last = "x";
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string next = numbered("t", i);
    trace.tensor(next, {7, 8, 9});
    trace.op(names[i], {last}, {next});
    last = next;
  }
  return trace;
}

}  // namespace repro_check::comparators
