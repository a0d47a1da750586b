// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/trace/op_record.h"
#include "core/trace/record_names.h"

/// Records that stand for no operator of LibTorch. Results are what they are about, by the names
/// that their arguments have. An argument without a result follows from the results: it is said,
/// and compared by nobody.

namespace repro_check::core {

inline constexpr std::string_view kNamedPrefix = "repro_check::";
/// In reports alone: a call of a block, and parameters that were read behind a step.
inline constexpr std::string_view kBlockRecord = "repro_check::block";
inline constexpr std::string_view kParametersRecord = "repro_check::parameters";

/// An axis of a mesh along which a tensor is in parts.
struct NamedPart {
  std::string_view dimension;  ///< of the tensor; `partial`, `rank`
  std::uint64_t place = 0;
  std::uint64_t parts = 0;  ///< 0 where it is not told
};

/// The name of what a rank holds of a tensor that lies on several: `placed` in program_records.json
/// has the grammar. Borrowed.
struct PlacedName {
  std::string_view whole;  ///< `weight`
  std::string_view part;   ///< `@1:0/2`; empty where it is no part
  std::string_view ranks;  ///< `|0,1`, or axes; empty where they are not told
  std::vector<NamedPart> parts;
};
PlacedName placed_name(std::string_view name);

/// What such roots are called once all lanes that call them are known, by their names until then.
using RootNames = std::map<std::string, std::string, std::less<>>;
/// The path of a module, or the name of a tensor of one, with its root named so.
std::string with_root(std::string text, const RootNames& names);

inline bool is_named_values(const OpHead& record) {
  return record.op && record.op->name.starts_with(kNamedPrefix);
}

inline bool is_of_blocks(const OpHead& record) {
  return record.op && (record.op->name == kBlockRecord || record.op->name == kParametersRecord);
}

inline bool is_of_checkpoint(const OperatorInfo& op) {
  return std::string_view(op.name).starts_with(kCheckpointRecords);
}

/// Whether its results come from other ranks: a collective, or a message.
inline bool is_of_ranks(const OperatorInfo& op) {
  return std::string_view(op.name).starts_with("c10d::") ||
         std::string_view(op.name).starts_with("_c10d_functional");
}

/// Of kernels that a program launches itself.
inline constexpr std::string_view kLaunched = "triton::";
inline bool is_launch(const OperatorInfo& op) {
  return std::string_view(op.name).starts_with(kLaunched);
}

/// Null where the record has none of this name. Borrowed.
inline const Value* find_argument(const OpRecord& record, std::string_view name) {
  const auto found = std::ranges::find(record.arguments, name, &Argument::name);
  return found == record.arguments.end() ? nullptr : &found->value;
}

/// What an argument holds, as a T: null where the record has none of this name, or holds something
/// else there. Borrowed.
template <typename T>
const T* argument_as(const OpRecord& record, std::string_view name) {
  const Value* value = find_argument(record, name);
  return value == nullptr ? nullptr : std::get_if<T>(&value->data);
}

/// The same as a value, `otherwise` where it is null.
template <typename T>
T argument_or(const OpRecord& record, std::string_view name, T otherwise = {}) {
  const T* value = argument_as<T>(record, name);
  return value == nullptr ? std::move(otherwise) : *value;
}

/// The items of a list, those that are a T; empty where the argument is no list.
template <typename T>
std::vector<T> list_argument(const OpRecord& record, std::string_view name) {
  std::vector<T> items;
  const auto* list = argument_as<ValueList>(record, name);
  if (list == nullptr) return items;
  items.reserve(list->items.size());
  for (const Value& item : list->items) {
    if (const T* each = std::get_if<T>(&item.data)) items.push_back(*each);
  }
  return items;
}

/// The number that a value is, or that the only element of its tensor is, where that is recorded.
/// @param value  of `record`
std::optional<double> number_in(const OpRecord& record, const Value& value);

/// Sums of a sketch: each element of the tensors stands in one of them, with a sign drawn for it.
inline constexpr std::size_t kSketchSums = 64;

/// How far apart the tensors of two sketches are: the L2 norm of their difference, of which the
/// standard deviation is a tenth or so. 0 where the sketches are equal; NaN where one holds NaN.
/// Source: M. Charikar, K. Chen, M. Farach-Colton, ICALP (2002).
/// @param baseline, candidate  of one length
double sketch_distance(std::span<const double> baseline, std::span<const double> candidate);

}  // namespace repro_check::core
