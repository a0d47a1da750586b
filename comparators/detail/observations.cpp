// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/observations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <variant>

#include "comparators/detail/op_text.h"

namespace repro_check::comparators::detail {
namespace {

constexpr double kTrivialShare = 0.99;

std::uint64_t specials(const core::TensorRecord& tensor) {
  if (!tensor.stats) return 0;
  return tensor.stats->nans + tensor.stats->positive_infs + tensor.stats->negative_infs;
}

/// NaN or Inf that somebody wrote down, as a mask of -inf is.
bool asked_for(const core::OpRecord& record) {
  return std::ranges::any_of(record.arguments, [](const core::Argument& argument) {
    const auto* number = std::get_if<double>(&argument.value.data);
    return number != nullptr && !std::isfinite(*number);
  });
}

/// Whether the record's outputs hold NaN or Inf and its inputs none, as far as statistics tell.
bool makes_specials(const core::OpRecord& record) {
  bool inside = false;
  bool outside = false;
  for (const core::TensorRecord& tensor : record.tensors) {
    if (specials(tensor) == 0) continue;
    (tensor.role == core::TensorRole::kInput ? inside : outside) = true;
  }
  return outside && !inside && !asked_for(record);
}

std::string special_text(const core::OpRecord& record) {
  std::uint64_t nans = 0;
  std::uint64_t infs = 0;
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.role != core::TensorRole::kOutput || !tensor.stats) continue;
    nans += tensor.stats->nans;
    infs += tensor.stats->positive_infs + tensor.stats->negative_infs;
  }
  return fmt::format("{} is the first to make NaN or Inf from finite inputs ({} NaN, {} Inf)",
                     op_text(record),
                     nans,
                     infs);
}

std::uint64_t unstored(const core::OpRecord& record) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(record.tensors, [](const core::TensorRecord& tensor) {
        return tensor.state == core::ContentState::kHashed && !tensor.stored;
      }));
}

/// ` (3 tensors)`, where nothing else than dump.max_bytes can have left bytes out.
std::string unstored_text(const core::TraceSummary& trace, std::uint64_t tensors) {
  if (tensors == 0 || !trace.keep_ops.empty() || trace.reference) return {};
  return fmt::format(" ({} tensor{})", tensors, tensors == 1 ? "" : "s");
}

/// What the two recordings were told to leave out.
/// @param tensors  without bytes, of the matched operators of each
void warn_of_limits(const core::RunManifest& baseline,
                    const core::RunManifest& candidate,
                    std::pair<std::uint64_t, std::uint64_t> tensors,
                    std::vector<std::string>& warnings) {
  if (baseline.trace.include != candidate.trace.include ||
      baseline.trace.exclude != candidate.trace.exclude) {
    warnings.emplace_back("the runs were recorded with different include or exclude patterns");
  }
  for (const auto& [name, manifest, count] :
       {std::tuple{"baseline", &baseline, tensors.first},
        std::tuple{"candidate", &candidate, tensors.second}}) {
    if (!manifest->trace.bytes_limit_reached_at) continue;
    warnings.push_back(
        fmt::format("the {} stored no bytes beyond dump.max_bytes, from op {} on{}: there digests "
                    "decide, and what differs was not measured",
                    name,
                    *manifest->trace.bytes_limit_reached_at,
                    unstored_text(manifest->trace, count)));
  }
}

}  // namespace

void Observations::Tally::add(const core::OpRecord& record) {
  if (count++ == 0) first = op_text(record);
}

void Observations::see(const core::OpRecord& baseline,
                       const core::OpRecord& candidate,
                       const OpFindings& findings) {
  nan_pairs_ += findings.nan_pairs;
  zeros_ += findings.zeros;
  counted_ += findings.counted;
  baseline_unstored_ += unstored(baseline);
  candidate_unstored_ += unstored(candidate);
  if (findings.nan_pairs != 0) nan_.add(baseline);
  if (findings.output_strides_differ) strides_.add(baseline);
  if (!findings.alias_differs.empty()) {
    if (alias_.count == 0) first_alias_ = findings.alias_differs;
    alias_.add(baseline);
  }
  const bool inputs_differ = !findings.inputs.empty() || !findings.arguments.empty();
  if (inputs_differ && findings.outcome == OpOutcome::kEqual) absorbed_.add(baseline);
  if (baseline_special_.empty() && makes_specials(baseline)) {
    baseline_special_ = special_text(baseline);
  }
  if (candidate_special_.empty() && makes_specials(candidate)) {
    candidate_special_ = special_text(candidate);
  }
}

std::vector<std::string> Observations::warnings(const core::RunManifest& baseline,
                                                const core::RunManifest& candidate) const {
  std::vector<std::string> warnings;
  if (nan_pairs_ != 0) {
    warnings.push_back(fmt::format("{} element{} NaN on both sides, in {} operator{}; first {}",
                                   nan_pairs_,
                                   nan_pairs_ == 1 ? " is" : "s are",
                                   nan_.count,
                                   nan_.count == 1 ? "" : "s",
                                   nan_.first));
  }
  if (!baseline_special_.empty() && baseline_special_ == candidate_special_) {
    warnings.push_back("in both runs " + baseline_special_);
  } else {
    if (!baseline_special_.empty()) warnings.push_back("in the baseline " + baseline_special_);
    if (!candidate_special_.empty()) warnings.push_back("in the candidate " + candidate_special_);
  }
  if (counted_ != 0 &&
      static_cast<double>(zeros_) >= kTrivialShare * static_cast<double>(counted_)) {
    warnings.push_back(
        fmt::format("{} of {} output elements are 0 on both sides: agreement on zeros says little",
                    zeros_,
                    counted_));
  }
  if (absorbed_.count != 0) {
    warnings.push_back(
        fmt::format("{} operator{} read differing inputs and gave bit-equal outputs; first {}",
                    absorbed_.count,
                    absorbed_.count == 1 ? "" : "s",
                    absorbed_.first));
  }
  if (strides_.count != 0) {
    warnings.push_back(fmt::format("{} operator{} returned another memory layout; first {}",
                                   strides_.count,
                                   strides_.count == 1 ? "" : "s",
                                   strides_.first));
  }
  if (alias_.count != 0) {
    warnings.push_back(
        fmt::format("{} operator{} returned memory shared with other tensors; first {}",
                    alias_.count,
                    alias_.count == 1 ? "" : "s",
                    first_alias_));
  }
  warn_of_limits(baseline, candidate, {baseline_unstored_, candidate_unstored_}, warnings);
  for (const std::string& text : baseline.warnings) warnings.push_back("baseline: " + text);
  for (const std::string& text : candidate.warnings) warnings.push_back("candidate: " + text);
  return warnings;
}

}  // namespace repro_check::comparators::detail
