// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/tensor_metadata.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string>
#include <string_view>

#include "core/tensor/dtype.h"
#include "core/tensor/float_format.h"

namespace repro_check::comparators::detail {
namespace {

using core::ContentState;
using core::TensorRecord;

std::string_view state_text(ContentState state) noexcept {
  switch (state) {
    case ContentState::kHashed:
      return "values";
    case ContentState::kUninitialised:
      return "uninitialised memory";
    case ContentState::kNone:
      return "no content";
    case ContentState::kUndefined:
      return "an undefined tensor";
    case ContentState::kComposite:
      return "a composite";
    case ContentState::kExcluded:
      return "excluded from the recording";
  }
  return "unknown";
}

/// As the recording calls it, where it is none of those that have a number: `quint4x2`.
std::string_view dtype_text(const TensorRecord& tensor) noexcept {
  constexpr std::string_view kKey = "dtype=";
  const std::string_view text = tensor.attributes;
  if (tensor.dtype != core::Dtype::kUnknown || !text.starts_with(kKey)) {
    return core::dtype_name(tensor.dtype);
  }
  return text.substr(kKey.size(), text.find(' ') - kKey.size());
}

}  // namespace

std::string metadata_mismatch(const TensorRecord& b,
                              const TensorRecord& c,
                              const AttributeRules& rules,
                              Relaxed relaxed) {
  const bool one_undefined =
      (b.state == ContentState::kUndefined) != (c.state == ContentState::kUndefined);
  if (one_undefined) {
    return fmt::format("{} against {}",
                       b.state == ContentState::kUndefined ? "undefined" : "a tensor",
                       c.state == ContentState::kUndefined ? "undefined" : "a tensor");
  }
  if (b.state == ContentState::kUndefined) return {};
  const bool same_dtype = b.dtype == c.dtype && dtype_text(b) == dtype_text(c);
  // Of two dtypes that have no number there is no wider one.
  if (!same_dtype && (!relaxed.dtype || b.dtype == c.dtype)) {
    return fmt::format("dtype differs: {} against {}", dtype_text(b), dtype_text(c));
  }
  if (b.shape != c.shape) {
    return fmt::format(
        "shape differs: [{}] against [{}]", fmt::join(b.shape, ", "), fmt::join(c.shape, ", "));
  }
  if (b.layout != c.layout) {
    return fmt::format("layout differs: {} against {}", b.layout, c.layout);
  }
  if (b.attributes != c.attributes && !relaxed.quantiser) {
    return fmt::format("{} differs: {} against {}",
                       b.layout == "quantised" ? "quantiser" : "layout structure",
                       b.attributes,
                       c.attributes);
  }
  if (rules.strict_strides && b.strides != c.strides) {
    return fmt::format("strides differ: [{}] against [{}]",
                       fmt::join(b.strides, ", "),
                       fmt::join(c.strides, ", "));
  }
  if (rules.strict_device && b.device != c.device) {
    return fmt::format("device differs: {} against {}", b.device, c.device);
  }
  return {};
}

bool has_no_content(ContentState state) noexcept {
  return state == ContentState::kNone || state == ContentState::kExcluded;
}

bool has_unread_values(const core::TensorRecord& tensor) noexcept {
  return tensor.state == ContentState::kNone && !tensor.device.starts_with("meta");
}

void judge_states(TensorComparison& comparison) {
  const ContentState b = comparison.baseline.state;
  const ContentState c = comparison.candidate.state;
  if (b == c) {
    const bool whole = b == ContentState::kUndefined || b == ContentState::kComposite;
    comparison.outcome = whole ? TensorOutcome::kEqual : TensorOutcome::kSkipped;
    if (!whole) comparison.note = fmt::format("{} on both sides", state_text(b));
    return;
  }
  comparison.note = fmt::format("{} against {}", state_text(b), state_text(c));
  comparison.outcome = has_no_content(b) || has_no_content(c) ? TensorOutcome::kUncomparable
                                                              : TensorOutcome::kMismatch;
}

void append_note(std::string& text, bool holds, std::string_view words) {
  if (!holds) return;
  if (!text.empty()) text += "; ";
  text += words;
}

std::string dtype_and_shape(core::Dtype dtype, const std::vector<std::int64_t>& shape) {
  return fmt::format("{} [{}]", core::dtype_name(dtype), fmt::join(shape, ", "));
}

std::string describe_metrics(const TensorMetrics& metrics) {
  std::string text;
  if (metrics.n_diff != 0) {
    append_note(text, metrics.n_diff == metrics.zero_sign_only, "only zero signs differ");
    append_note(text, metrics.n_diff == metrics.nan_both_payload, "only NaN payload differs");
    append_note(
        text, metrics.n_diff == metrics.noncanonical_bool, "only non-canonical bool differs");
  }
  append_note(text, metrics.nan_baseline != 0, "NaN in baseline only");
  append_note(text, metrics.nan_candidate != 0, "NaN in candidate only");
  append_note(text, metrics.inf_sign != 0, "Inf signs differ");
  append_note(text, metrics.inf_baseline != 0, "Inf in baseline only");
  append_note(text, metrics.inf_candidate != 0, "Inf in candidate only");
  return text;
}

std::string first_beyond_text(const std::vector<Sample>& samples,
                              core::Dtype dtype,
                              const ElementPolicy& policy) {
  if (!core::is_floating(dtype) || dtype == core::Dtype::kFloat4E2M1FNX2) return {};
  const auto value = [&](const std::string& hex) {
    return core::decode_float(dtype, std::stoull(hex, nullptr, 16));
  };
  for (const Sample& sample : samples) {
    const double baseline = value(sample.baseline_bits);
    const double error = std::abs(value(sample.candidate_bits) - baseline);
    const double allowed = policy.atol + policy.rtol * std::abs(baseline);
    if (!std::isfinite(error) || error <= allowed) continue;
    constexpr int kExact = 17;
    for (int digits = 3;; ++digits) {
      const std::string left = fmt::format("{:.{}g}", error, digits);
      const std::string right = fmt::format("{:.{}g}", allowed, digits);
      if (left != right || digits == kExact)
        return fmt::format("first beyond: {} > {}", left, right);
    }
  }
  return {};
}

}  // namespace repro_check::comparators::detail
