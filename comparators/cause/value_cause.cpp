// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/value_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "comparators/cause/nondeterministic_operators.h"

namespace repro_check::comparators::detail {
namespace {

/// Smallest normal and largest finite number of a format.
struct Range {
  double normal = 0;
  double greatest = 0;
  bool saturates_to_nan = false;  ///< has no infinity
};

std::optional<Range> range_of(core::Dtype dtype) {
  using core::Dtype;
  switch (dtype) {
    case Dtype::kFloat64:
      return Range{std::numeric_limits<double>::min(), std::numeric_limits<double>::max()};
    case Dtype::kFloat32:
      return Range{static_cast<double>(std::numeric_limits<float>::min()),
                   static_cast<double>(std::numeric_limits<float>::max())};
    case Dtype::kBFloat16:
      return Range{0x1p-126, 0x1.FEp127};
    case Dtype::kFloat16:
      return Range{0x1p-14, 65504};
    case Dtype::kFloat8E5M2:
      return Range{0x1p-14, 57344};
    case Dtype::kFloat8E4M3FN:
      return Range{0x1p-6, 448, true};
    default:
      return std::nullopt;
  }
}

double number(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

bool flushed(const Sample& sample, const Range& range) {
  const double from = std::abs(number(sample.baseline));
  const double to = std::abs(number(sample.candidate));
  const auto subnormal = [&](double value) { return value > 0 && value < range.normal; };
  return (from == 0 && subnormal(to)) || (to == 0 && subnormal(from));
}

bool overflowed(const Sample& sample, const Range& range) {
  const double from = number(sample.baseline);
  const double to = number(sample.candidate);
  if (!std::isfinite(from) || std::abs(from) <= range.greatest / 2) return false;
  if (std::isinf(to)) return true;
  if (std::isnan(to)) return range.saturates_to_nan;
  return std::abs(to) == range.greatest && std::abs(from) != range.greatest;
}

}  // namespace

std::string describe_unwritten(const core::OpRecord& baseline,
                               const core::OpRecord& candidate,
                               const Evidence& evidence) {
  const core::TensorRecord* tensor = unwritten_argument(baseline);
  if (tensor != nullptr) {
    return evidence.baseline_allocations->describe(*tensor, *evidence.baseline_dump);
  }
  tensor = unwritten_argument(candidate);
  if (tensor == nullptr) return {};
  return evidence.candidate_allocations->describe(*tensor, *evidence.candidate_dump);
}

std::optional<Cause> uninitialised_cause(const core::OpRecord& baseline,
                                         const core::OpRecord& candidate,
                                         const Evidence& evidence) {
  if (!may_read_unwritten(baseline) && !may_read_unwritten(candidate)) return std::nullopt;
  std::string what = describe_unwritten(baseline, candidate, evidence);
  if (what.empty()) what = "an argument is memory that no operator has written in whole";
  return Cause{"uninitialised memory",
               std::move(what),
               "fill the tensor in the model (zeros instead of empty); \"determinism\": \"error\" "
               "fills fresh memory where LibTorch can, and shows who reads it"};
}

std::optional<Cause> flush_cause(const OpFindings& findings) {
  std::uint64_t seen = 0;
  std::uint64_t differing = 0;
  for (const TensorComparison& output : findings.outputs) {
    const auto range = range_of(output.baseline.dtype);
    if (!range || !output.metrics || output.samples.empty()) return std::nullopt;
    const bool all = std::ranges::all_of(
        output.samples, [&](const Sample& sample) { return flushed(sample, *range); });
    // Larger than any subnormal: something else differs too.
    if (!all || output.metrics->max_abs.value_or(0) >= range->normal) return std::nullopt;
    seen += output.samples.size();
    differing += output.metrics->n_diff;
  }
  if (seen == 0) return std::nullopt;
  return Cause{
      "flush to zero",
      fmt::format("{} of {} differing elements were looked at: each is 0 on one side and "
                  "below the smallest normal number on the other",
                  seen,
                  differing),
      "set the same \"settings\": {\"flush_denormal\"} in both runs; a GPU kernel may flush by "
      "itself"};
}

std::optional<Cause> overflow_cause(const OpFindings& findings) {
  for (const TensorComparison& output : findings.outputs) {
    const auto range = range_of(output.baseline.dtype);
    if (!range) continue;
    for (const Sample& sample : output.samples) {
      if (!overflowed(sample, *range)) continue;
      return Cause{"overflow",
                   fmt::format("{} became {}: overflow of {}",
                               sample.baseline,
                               sample.candidate,
                               core::dtype_name(output.baseline.dtype)),
                   "use a wider \"dtype\", scale the values (loss scale, normalisation), or cast "
                   "with saturation"};
    }
  }
  return std::nullopt;
}

std::optional<Cause> ties_cause(const core::OpRecord& baseline, const OpFindings& findings) {
  if (!baseline.op || !breaks_ties(*baseline.op) || findings.outputs.empty()) return std::nullopt;
  // argmax and its like return nothing but indices, the others return them after the values.
  const bool indices_alone = baseline.op->name.starts_with("aten::arg");
  const bool only_indices =
      std::ranges::all_of(findings.outputs, [&](const TensorComparison& output) {
        return output.baseline.dtype == core::Dtype::kInt64 &&
               (indices_alone || output.baseline.slot != "0");
      });
  if (!only_indices) return std::nullopt;
  return Cause{"ties broken differently",
               indices_alone
                   ? "its input is equal and the indices it returns are not: equal values were "
                     "taken in another order"
                   : "its values are equal and its indices are not: equal values were taken in "
                     "another order",
               "use a stable sort, or do not let the order of equal values matter"};
}

std::optional<Cause> layout_cause(const OpFindings& findings) {
  if (!findings.input_strides_differ) return std::nullopt;
  return Cause{"layout differs",
               "its inputs hold the same values in another memory layout, which selects another "
               "kernel or order of addition",
               "bring the tensor into one memory format in both runs (contiguous(memory_format))"};
}

}  // namespace repro_check::comparators::detail
