// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "comparators/report/random_draws.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators::detail {

/// Follows the generators of both runs through the trace and remembers where they first parted.
class RngLedger {
 public:
  RngLedger(const core::RunManifest& baseline, const core::RunManifest& candidate);

  /// To be told every matched pair, in the order in which the calls ended, before its cause is
  /// asked for.
  void see(const core::OpRecord& baseline, const core::OpRecord& candidate);
  /// And every operator that is on one side only.
  void see_unmatched(const core::OpRecord& record, bool in_baseline);

  /// Whether a generator stood elsewhere, or had another seed, when this pair drew. Empty when it
  /// was not recorded for either side.
  [[nodiscard]] std::optional<bool> stood_elsewhere(const core::OpRecord& baseline,
                                                    const core::OpRecord& candidate) const;

  /// `the generators started apart (seed 1 against 2)`, `the stream parted at op 3 aten::rand,
  /// which drew 8 against 4 numbers`; empty while they are together.
  [[nodiscard]] const std::string& parting() const noexcept { return parting_; }
  /// They parted before the first draw, by their seeds.
  [[nodiscard]] bool started_apart() const noexcept { return started_apart_; }
  /// Of all that it was told.
  [[nodiscard]] RandomDraws draws() const;

 private:
  void part(std::string sentence);
  /// Of calls in calls the outermost that drew counts. To be told every call, in the order in which
  /// they ended: those that draw nothing stand between those that do.
  void count_calls(const core::OpRecord& record);
  void count(const core::OpRecord& record);

  std::uint64_t baseline_seed_ = 0;
  std::uint64_t candidate_seed_ = 0;
  bool on_host_ = false;
  bool started_apart_ = false;
  std::string parting_;
  std::string last_draw_;  ///< the last operator that drew alike on both sides
  RandomDraws draws_;
  std::map<std::uint64_t, std::uint64_t> below_;  ///< counted under a call that has not ended
};

}  // namespace repro_check::comparators::detail
