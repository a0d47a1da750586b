// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "core/tensor/dtype.h"
#include "core/tensor/float_format.h"

namespace repro_check::comparators {
namespace {

using core::Value;
using core::ValueList;

constexpr std::size_t kTextLimit = 200;

template <typename T>
const T* held(const Value& value) {
  return std::get_if<T>(&value.data);
}

/// A number that came out of a tensor is one of the tensor's dtype.
bool within_ulps(double baseline, double candidate, const ScalarPolicy& policy) {
  if (policy.element.max_ulp == std::numeric_limits<std::uint64_t>::max()) return true;
  const auto distance = core::ulp_distance(policy.dtype,
                                           core::encode_float(policy.dtype, baseline),
                                           core::encode_float(policy.dtype, candidate));
  return distance && *distance <= policy.element.max_ulp;
}

bool passes(double baseline, double candidate, const ScalarPolicy& chosen) {
  const ElementPolicy& policy = chosen.element;
  if (std::isnan(baseline) && std::isnan(candidate)) {
    return policy.equal_nan == configs::EqualNan::kAny;
  }
  if (!std::isfinite(baseline) || !std::isfinite(candidate)) return baseline == candidate;
  if (baseline == candidate) return !policy.signed_zero_distinct;
  return std::abs(candidate - baseline) <= policy.atol + policy.rtol * std::abs(baseline) &&
         within_ulps(baseline, candidate, chosen);
}

void add_count(std::string_view of,
               std::size_t baseline,
               std::size_t candidate,
               std::vector<ScalarDifference>& differences) {
  if (baseline == candidate) return;
  differences.push_back(
      {fmt::format("number of {}", of), std::to_string(baseline), std::to_string(candidate), true});
}

/// Whether two values that are not the same pass the policy.
bool within(const Value& baseline, const Value& candidate, const ScalarPolicy& policy) {
  if (const auto* left = held<double>(baseline)) {
    const auto* right = held<double>(candidate);
    return right != nullptr && passes(*left, *right, policy);
  }
  const auto* left = held<ValueList>(baseline);
  const auto* right = held<ValueList>(candidate);
  if (left == nullptr || right == nullptr || left->items.size() != right->items.size()) {
    return false;
  }
  for (std::size_t i = 0; i < left->items.size(); ++i) {
    if (same_scalars(left->items[i], right->items[i])) continue;
    if (!within(left->items[i], right->items[i], policy)) return false;
  }
  return true;
}

}  // namespace

bool is_tensor(const Value& value) {
  if (held<core::TensorSlot>(value) != nullptr) return true;
  const auto* list = held<ValueList>(value);
  return list != nullptr && !list->items.empty() &&
         std::ranges::all_of(list->items, [](const Value& item) { return is_tensor(item); });
}

std::string short_text(const Value& value) {
  if (held<core::TensorSlot>(value) != nullptr) return "a tensor";
  std::string text = core::to_text(value);
  if (text.size() > kTextLimit) text = text.substr(0, kTextLimit) + "...";
  return text;
}

std::string results_text(const core::OpRecord& record) {
  std::string text;
  for (const Value& value : record.results) {
    if (!is_tensor(value)) text += (text.empty() ? "" : ", ") + short_text(value);
  }
  return text;
}

std::string ScalarDifference::text() const {
  return fmt::format("{}: {} against {}", name, baseline, candidate);
}

bool same_scalars(const Value& baseline, const Value& candidate) {
  if (baseline.data.index() != candidate.data.index()) return false;
  if (held<core::TensorSlot>(baseline) != nullptr) return true;
  const auto* left = held<ValueList>(baseline);
  if (left == nullptr) return baseline == candidate;
  const auto& right = std::get<ValueList>(candidate.data);
  return std::ranges::equal(left->items, right.items, same_scalars);
}

std::vector<ScalarDifference> differing_arguments(const core::OpRecord& baseline,
                                                  const core::OpRecord& candidate,
                                                  bool ignore_symbols) {
  std::vector<ScalarDifference> differences;
  const std::size_t common = std::min(baseline.arguments.size(), candidate.arguments.size());
  for (std::size_t i = 0; i < common; ++i) {
    const core::Argument& left = baseline.arguments[i];
    const core::Argument& right = candidate.arguments[i];
    const bool symbols =
        held<core::Symbol>(left.value) != nullptr && held<core::Symbol>(right.value) != nullptr;
    if ((ignore_symbols && symbols) || same_scalars(left.value, right.value)) continue;
    differences.push_back({left.name, short_text(left.value), short_text(right.value), true});
  }
  add_count("arguments", baseline.arguments.size(), candidate.arguments.size(), differences);
  return differences;
}

std::vector<ScalarDifference> differing_results(const core::OpRecord& baseline,
                                                const core::OpRecord& candidate,
                                                const PolicyOfResult& policy_of) {
  std::vector<ScalarDifference> differences;
  const std::size_t common = std::min(baseline.results.size(), candidate.results.size());
  for (std::size_t i = 0; i < common; ++i) {
    const Value& left = baseline.results[i];
    const Value& right = candidate.results[i];
    const auto* number = held<double>(left);
    const bool is_nan = number != nullptr && std::isnan(*number);
    const bool same = same_scalars(left, right);
    if (same && !is_nan) continue;
    const bool has_path = core::is_returned(baseline) && i < baseline.arguments.size();
    const std::string slot = has_path ? baseline.arguments[i].name : std::to_string(i);
    const auto policy = policy_of(slot);
    if (!policy) continue;
    const bool refused = is_nan && policy->element.equal_nan == configs::EqualNan::kNever;
    if (same && !refused) continue;
    differences.push_back({has_path ? slot : "result " + slot,
                           short_text(left),
                           short_text(right),
                           refused || !within(left, right, *policy)});
  }
  add_count("results", baseline.results.size(), candidate.results.size(), differences);
  return differences;
}

bool has_scalar_results(const core::OpRecord& record) {
  return std::ranges::any_of(record.results, [](const Value& value) { return !is_tensor(value); });
}

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

using core::TensorRecord;
using core::TensorRole;

std::vector<const TensorRecord*> tensors_of(const core::OpRecord& record, TensorRole role) {
  std::vector<const TensorRecord*> tensors;
  for (const TensorRecord& tensor : record.tensors) {
    if (tensor.role == role) tensors.push_back(&tensor);
  }
  return tensors;
}

const TensorRecord* find_tensor(const core::OpRecord& record,
                                TensorRole role,
                                std::string_view slot) {
  for (const TensorRecord& tensor : record.tensors) {
    if (tensor.role == role && tensor.slot == slot) return &tensor;
  }
  return nullptr;
}

const TensorRecord* whole_of(const core::OpRecord& record, const TensorRecord& part) {
  const std::size_t dot = part.slot.rfind('.');
  if (dot == std::string::npos) return nullptr;
  return find_tensor(record, part.role, std::string_view(part.slot).substr(0, dot));
}

const TensorRecord* find_part(const core::OpRecord& record,
                              const TensorRecord& whole,
                              std::string_view ending) {
  return find_tensor(record, whole.role, fmt::format("{}.{}", whole.slot, ending));
}

bool same_channels(const RecordedPair& pair) {
  const bool by_channel = core::is_quantised(pair.baseline.dtype) &&
                          pair.baseline.attributes.find(" axis=") != std::string::npos;
  if (!by_channel) return true;
  return std::ranges::all_of(std::array{"scales", "zero_points"}, [&](const char* ending) {
    const TensorRecord* from = find_part(pair.baseline_op, pair.baseline, ending);
    const TensorRecord* to = find_part(pair.candidate_op, pair.candidate, ending);
    return from != nullptr && to != nullptr && from->state == core::ContentState::kHashed &&
           to->state == core::ContentState::kHashed && from->content_key() == to->content_key();
  });
}

bool is_packed_values(const core::OpRecord& record, const TensorRecord& tensor) {
  if (!tensor.slot.ends_with(".values")) return false;
  const TensorRecord* whole = whole_of(record, tensor);
  return whole != nullptr && whole->dtype == core::Dtype::kUnknown &&
         whole->state != core::ContentState::kUndefined;
}

std::string shared_with(const core::OpRecord& record, const TensorRecord& output) {
  std::string names;
  for (const TensorRecord& other : record.tensors) {
    // Each pair of outputs is told of once, at the later one.
    if (&other == &output) break;
    if (output.storage < 0 || other.storage != output.storage) continue;
    names += fmt::format("{}{} {}",
                         names.empty() ? "" : ", ",
                         other.role == TensorRole::kInput ? "input" : "output",
                         other.slot);
  }
  return names.empty() ? "nothing" : names;
}

}  // namespace repro_check::comparators
