// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <variant>

#include "core/tensor/unread.h"

namespace repro_check::comparators {
namespace {

using core::Value;
using core::ValueList;

constexpr std::size_t kTextLimit = 200;

template <typename T>
const T* held(const Value& value) {
  return std::get_if<T>(&value.data);
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

bool has_scalar_results(const core::OpRecord& record) {
  return std::ranges::any_of(record.results, [](const Value& value) { return !is_tensor(value); });
}

using core::ContentState;
using core::TensorRecord;

bool same_form(const TensorRecord& left, const TensorRecord& right) {
  return left.dtype == right.dtype && left.shape == right.shape && left.layout == right.layout &&
         same_attributes(left, right);
}

bool same_attributes(const TensorRecord& left, const TensorRecord& right) noexcept {
  constexpr std::string_view kUnnamed = "opaque";
  const std::string_view one = left.attributes;
  const std::string_view other = right.attributes;
  // A content that one side could not read is no other content.
  if (one == core::kUnread || other == core::kUnread) return true;
  return one == other || (one == kUnnamed && other.starts_with(core::kOpaqueOf)) ||
         (other == kUnnamed && one.starts_with(core::kOpaqueOf));
}

bool was_never_read(const TensorRecord& tensor) noexcept {
  return has_unread_values(tensor) &&
         (tensor.dtype == core::Dtype::kUnknown || tensor.attributes == core::kUnread ||
          tensor.attributes.starts_with(core::kOpaqueOf));
}

bool has_unread_values(const core::TensorRecord& tensor) noexcept {
  return tensor.state == ContentState::kNone && !tensor.device.starts_with("meta");
}

std::string dtype_and_shape(core::Dtype dtype, const std::vector<std::int64_t>& shape) {
  return fmt::format("{} [{}]", core::dtype_name(dtype), fmt::join(shape, ", "));
}

Phrases describe_metrics(const TensorMetrics& m) {
  Phrases notes;
  const auto note = [&](bool holds, std::string_view key) {
    if (holds) notes.emplace_back(key);
  };
  const auto note_sides = [&](std::string_view value, std::uint64_t here, std::uint64_t there) {
    if (here + there == 0) return;
    notes.push_back(Phrase("on-sides",
                           {{"value", value},
                            {"of_baseline", there == 0},
                            {"of_candidate", here == 0},
                            {"of_both", here != 0 && there != 0}}));
  };
  note(m.n_diff != 0 && m.n_diff == m.zero_sign_only, "only-zero-signs");
  note(m.n_diff != 0 && m.n_diff == m.nan_both_payload, "only-nan-payload");
  note(m.n_diff != 0 && m.n_diff == m.noncanonical_bool, "only-bool-bytes");
  note_sides("NaN", m.nan_baseline, m.nan_candidate);
  note(m.inf_sign != 0, "inf-signs");
  note_sides("Inf", m.inf_baseline, m.inf_candidate);
  return notes;
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

core::OpRecord with_values(const core::OpRecord& record, std::span<const std::size_t> places) {
  core::OpRecord reduced{static_cast<const core::OpHead&>(record)};
  const auto copy = [&](Value value) {
    auto* held = std::get_if<core::TensorSlot>(&value.data);
    if (held == nullptr || held->index >= record.tensors.size()) return value;
    std::size_t slot = held->index;
    held->index = static_cast<std::uint32_t>(reduced.tensors.size());
    const std::string part = record.tensors[slot].slot + ".";
    do {  // the parts of a tensor follow it
      reduced.tensors.push_back(record.tensors[slot++]);
    } while (slot < record.tensors.size() && record.tensors[slot].slot.starts_with(part));
    return value;
  };
  for (const std::size_t place : places) {
    const core::Argument& argument = record.arguments[place];
    reduced.arguments.push_back({argument.name, copy(argument.value)});
  }
  for (const std::size_t place : places) {
    if (place < record.results.size()) reduced.results.push_back(copy(record.results[place]));
  }
  return reduced;
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

}  // namespace repro_check::comparators
