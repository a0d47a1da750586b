// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/op_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/tensor/dtype.h"

namespace repro_check::comparators::detail {

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

}  // namespace repro_check::comparators::detail
