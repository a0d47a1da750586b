// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comparators/align/pairing.h"
#include "comparators/cause/differences.h"
#include "comparators/cause/history.h"
#include "comparators/judge/op_judge.h"
#include "comparators/report/report.h"
#include "core/system/large_memory.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators {

/// Something an op index, of those that have it; the array is made with the first.
template <typename Value>
class OpTable {
 public:
  /// @param ops      as many as there are
  /// @param nothing  what stands for there being none
  OpTable(std::size_t ops, Value nothing) : ops_(ops), nothing_(nothing) {}

  [[nodiscard]] Value at(std::uint64_t op) const {
    return op < values_.size() ? values_[op] : nothing_;
  }
  [[nodiscard]] std::size_t size() const { return ops_; }
  void set(std::uint64_t op, Value value) {
    if (values_.empty()) values_.assign(ops_, nothing_);
    if (op < ops_) values_[op] = value;
  }

 private:
  std::size_t ops_;
  Value nothing_;
  core::LargeVector<Value> values_;
};

/// What is known of the whole comparison when one operator's cause is sought. It grows while
/// operators are judged in the order in which they ended.
struct Evidence {
  /// All are borrowed, and the dumps and the report are described already.
  Evidence(const core::DumpSource& from,
           const core::DumpSource& to,
           const Pairing& pairs,
           const Report& of)
      : baseline(from),
        candidate(to),
        pairing(pairs),
        report(of),
        suspects(suspects_of(from.manifest(), to.manifest(), of.differences)),
        rng(from.manifest(), to.manifest()),
        baseline_writes(from),
        candidate_writes(to),
        outcomes(pairs.candidate_of.size(), OpOutcome::kUnseen),
        root_of(outcomes.size(), kUnmatched),
        divergent_child(outcomes.size(), kUnmatched),
        passed_error(outcomes.size(), 0) {}

  const core::DumpSource& baseline;
  const core::DumpSource& candidate;
  const Pairing& pairing;
  const Report& report;  ///< its `differences` and `named_tensors`
  std::vector<Suspect> suspects;
  RngLedger rng;
  WriteHistory baseline_writes;
  WriteHistory candidate_writes;
  /// Per baseline op.
  OpTable<OpOutcome> outcomes;
  /// Per baseline op the first of its chain of divergent producers; itself when it has none.
  OpTable<std::uint32_t> root_of;
  /// Per baseline op its first divergent nested call.
  OpTable<std::uint32_t> divergent_child;
  /// Greatest l2_rel of an operator's outputs that passed although they differ.
  OpTable<double> passed_error;
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

/// `` `self` is memory that op 3 aten::empty allocated and that no operator has written since``, of
/// what either run reads of such memory; empty where neither is known to.
std::string describe_unwritten(const core::OpRecord& baseline,
                               const core::OpRecord& candidate,
                               const Evidence& evidence);

/// Where one model was in training mode and the other was not, or other modules of it were: that
/// comes before `cause`, which follows from it. Nothing where a manifest does not say.
void lead_with_mode(const core::RunManifest& baseline,
                    const core::RunManifest& candidate,
                    Cause& cause);

}  // namespace repro_check::comparators
