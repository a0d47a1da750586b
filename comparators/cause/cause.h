// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comparators/align/pairing.h"
#include "comparators/cause/differences.h"
#include "comparators/cause/rng_ledger.h"
#include "comparators/cause/storages.h"
#include "comparators/judge/op_judge.h"
#include "comparators/report/report.h"
#include "core/system/large_memory.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators::detail {

/// Something an op index, of those that have it; the array is made with the first.
template <typename Value>
class OpTable {
 public:
  /// @param nothing  what stands for there being none
  explicit OpTable(Value nothing) : nothing_(nothing) {}

  [[nodiscard]] Value at(std::uint64_t op) const {
    return op < values_.size() ? values_[op] : nothing_;
  }
  /// @param ops  as many as there are; `op` is one of them
  void set(std::uint64_t op, Value value, std::size_t ops) {
    if (values_.empty()) values_.assign(ops, nothing_);
    values_[op] = value;
  }

 private:
  Value nothing_;
  core::LargeVector<Value> values_;
};

/// What is known of the whole comparison when one operator's cause is sought. Everything is
/// borrowed and grows while operators are judged in the order in which they ended.
struct Evidence {
  const core::RunManifest* baseline = nullptr;
  const core::RunManifest* candidate = nullptr;
  const core::DumpSource* baseline_dump = nullptr;
  const core::DumpSource* candidate_dump = nullptr;
  const std::vector<Difference>* differences = nullptr;
  std::vector<Suspect> suspects;
  const std::vector<NamedTensorDifference>* named_tensors = nullptr;
  const Pairing* pairing = nullptr;
  const RngLedger* rng = nullptr;
  const WriteTable* baseline_writes = nullptr;
  const WriteTable* candidate_writes = nullptr;
  const Allocations* baseline_allocations = nullptr;
  const Allocations* candidate_allocations = nullptr;
  /// Per baseline op.
  core::LargeVector<OpOutcome> outcomes;
  /// Per baseline op the first of its chain of divergent producers; itself when it has none.
  OpTable<std::uint32_t> root_of{kUnmatched};
  /// Per baseline op its first divergent nested call.
  OpTable<std::uint32_t> divergent_child{kUnmatched};
  /// Greatest l2_rel of an operator's outputs that passed although they differ.
  OpTable<double> passed_error{0};
  /// Differing scalar results, and the first baseline op that returned such a pair.
  std::map<std::pair<std::string, std::string>, std::uint64_t> scalar_results;
};

/// Whose fault it is.
struct Attribution {
  Relation relation = Relation::kOrigin;
  DivergenceKind kind = DivergenceKind::kOrigin;
  std::vector<std::uint64_t> producers;  ///< divergent baseline ops that made differing inputs
  Cause cause;
};

/// Finds relation and cause of an operator that fails: the first row of the decision table
/// (comparison.md 5) that holds, and the later ones beside it.
Attribution attribute(const core::OpRecord& baseline,
                      const core::OpRecord& candidate,
                      const OpFindings& findings,
                      const Evidence& evidence);

}  // namespace repro_check::comparators::detail
