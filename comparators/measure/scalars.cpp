// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/scalars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "core/tensor/float_format.h"

namespace repro_check::comparators::detail {
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
  if (baseline.arguments.size() != candidate.arguments.size()) {
    differences.push_back({"number of arguments",
                           std::to_string(baseline.arguments.size()),
                           std::to_string(candidate.arguments.size()),
                           true});
  }
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
  if (baseline.results.size() != candidate.results.size()) {
    differences.push_back({"number of results",
                           std::to_string(baseline.results.size()),
                           std::to_string(candidate.results.size()),
                           true});
  }
  return differences;
}

bool has_scalar_results(const core::OpRecord& record) {
  return std::ranges::any_of(record.results, [](const Value& value) { return !is_tensor(value); });
}

}  // namespace repro_check::comparators::detail
