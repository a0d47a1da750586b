// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comparators/align/pairing.h"
#include "comparators/cause/cause.h"
#include "comparators/cause/hunks.h"
#include "comparators/cause/storages.h"
#include "comparators/judge/error_flow.h"
#include "comparators/judge/op_judge.h"
#include "comparators/report/report.h"
#include "core/system/large_memory.h"

namespace repro_check::comparators::detail {

/// Follows every difference from where it began, through the operators that read it, to the values
/// that nobody reads any more. Linear in the tensors of the trace; 8 bytes an operator from the
/// first difference on, beside what ErrorFlow and FinalValues keep. The first 63 origins are told
/// apart, later ones are counted.
class Taint {
 public:
  explicit Taint(const Pairing& pairing);

  /// To be told every matched pair, in the order in which calls ended.
  /// @param why  where the pair fails its policy, else null
  void see(const core::OpRecord& from,
           const core::OpRecord& to,
           const OpFindings& findings,
           const Attribution* why);

  /// Records without a counterpart: a difference began here unless one began before.
  void see_hunk(const Hunk& hunk,
                const core::DumpSource& baseline,
                const core::DumpSource& candidate);

  /// Fills origins, origins_total and growth.
  void finish(const core::DumpSource& baseline, Report& report) const;

 private:
  using Mask = std::uint64_t;

  [[nodiscard]] Mask mask_of(std::uint64_t op) const;
  void set_mask(std::uint64_t op, Mask mask);
  [[nodiscard]] std::vector<std::uint32_t> sources_of(const OpFindings& findings,
                                                      const Attribution* why,
                                                      Mask& mask) const;
  Mask begin(Origin origin);
  void count(Mask mask);
  void hand_to_parent(const core::OpRecord& record, Mask mask);
  void fill_finals(const core::LargeVector<std::uint64_t>& finals,
                   std::vector<Origin>& origins) const;
  void fill_paths(const core::LargeVector<std::uint64_t>& finals,
                  const core::DumpSource& baseline,
                  std::vector<Origin>& origins) const;

  const Pairing& pairing_;
  ErrorFlow flow_;
  FinalValues finals_;
  core::LargeVector<Mask> masks_;            ///< by baseline op
  core::LargeVector<Mask> candidate_masks_;  ///< by candidate op, where the baseline has none
  std::vector<Origin> origins_;
  std::uint64_t total_ = 0;
};

}  // namespace repro_check::comparators::detail
