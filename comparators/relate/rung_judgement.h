// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comparators/relate/left_numbers.h"
#include "comparators/relate/regions.h"
#include "comparators/relate/two_passes.h"
#include "comparators/report/finding.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {

/// One program on two rungs of compiling: A's operators are called one by one, as the compiler's
/// front end has them.
struct TwoRungs {
  /// Places of the same tensor in RegionSide::tensors.
  struct Same {
    std::size_t a = 0;
    std::size_t b = 0;
  };
  const RegionSide* a = nullptr;  ///< borrowed
  const RegionSide* b = nullptr;
  std::vector<Same> same;  ///< of floating numbers, in A's order; of both the values are there
  /// A tensor that is not judged: its name, empty = none, and its op index in A; behind all of them
  /// where A has no such tensor.
  struct Unjudged {
    std::string name;
    std::uint64_t op = 0;
  };
  Unjudged unlike;             ///< the first at a border that one alone has, or in another form
  Unjudged integer;            ///< the first of other integers or truth values
  std::uint64_t integers = 0;  ///< tensors of these at borders, that are equal
};

TwoRungs pair_rungs(const RegionSide& a, const RegionSide& b);

/// Of these, in their order, a shadow of A is asked.
std::vector<const RegionTensor*> judged_tensors(const TwoRungs& rungs);
/// What B has there; empty inside of a region, where nothing is put in A's place.
/// @throws core::Error{kDumpDamaged}
std::optional<std::vector<double>> brought_to_a(const TwoRungs& rungs, std::size_t i);

struct RungReport {
  std::uint64_t judged = 0;  ///< tensors at the borders, up to the first beyond the floor
  std::uint64_t equal = 0;   ///< those of them that are bit-equal
  double worst = 0;          ///< ratio to the floor of those within it
  NoVerdict no_verdict = NoVerdict::kNone;
  std::string undecided;          ///< why: the tensor of which nothing is said
  std::vector<Finding> findings;  ///< one at most

  [[nodiscard]] bool has_diverged() const { return !findings.empty(); }
};

/// A tensor is beyond the floor where its own error is so many times A's: operators that are taken
/// to pieces round more often. Set from models that are right; see tests/models/test_rungs.py.
inline constexpr double kRungBound = 16;

/// Holds each tensor of B against float64 of A's operators since the last border, on what B had
/// there. Beyond the floor is more than kRungBound times A's own error, which is taken to be no
/// less than what is usual in tensors of the dtype.
/// @param rung    B's
/// @param shadow  by judged_tensors(), and kOwnOutput or kOtherOutput
/// @param cuts    operators of A, by op index, that float64 did not execute
RungReport judge_rung(const TwoRungs& rungs,
                      core::CompileRung rung,
                      const std::function<std::vector<double>(std::size_t, std::size_t)>& shadow,
                      const std::vector<std::uint64_t>& cuts = {});

/// Rung eager leaves other numbers than the program with nothing compiled.
Finding captured_otherwise(const LeftNumbers& left);

/// Puts an operator of the region in the place of what a finding names: alone it is at fault.
/// @param name  as PyTorch's dispatcher has it
void blame_operator(const Region& region,
                    const std::string& node,
                    const std::string& name,
                    Finding& finding);

}  // namespace repro_check::comparators
