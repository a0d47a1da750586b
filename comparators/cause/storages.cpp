// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/storages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "comparators/report/op_text.h"

namespace repro_check::comparators::detail {

namespace {

void mix(std::uint64_t& hash, std::uint64_t value) noexcept {
  // Steps of splitmix64 (Steele, Lea, Flood 2014).
  hash += 0x9E3779B97F4A7C15U + value;
  hash = (hash ^ (hash >> 30U)) * 0xBF58476D1CE4E5B9U;
  hash = (hash ^ (hash >> 27U)) * 0x94D049BB133111EBU;
  hash ^= hash >> 31U;
}

std::uint64_t view_of(const core::TensorRecord& tensor) noexcept {
  std::uint64_t hash = 0;
  mix(hash, static_cast<std::uint64_t>(tensor.dtype));
  mix(hash, static_cast<std::uint64_t>(tensor.storage_offset));
  mix(hash, tensor.shape.size());
  for (const auto* list : {&tensor.shape, &tensor.strides}) {
    for (const std::int64_t value : *list) mix(hash, static_cast<std::uint64_t>(value));
  }
  return hash;
}

bool is_plain(const core::TensorRecord& tensor) noexcept {
  return tensor.storage >= 0 && tensor.producer >= 0 && tensor.layout == "strided" &&
         tensor.state == core::ContentState::kHashed;
}

}  // namespace

void WriteTable::see(const core::OpRecord& record, bool differs) {
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.role != core::TensorRole::kOutput || !is_plain(tensor)) continue;
    // An alias that nobody has touched says nothing new of its storage.
    if (tensor.producer != static_cast<std::int64_t>(record.index)) continue;
    const Write write{tensor.producer, view_of(tensor), tensor.digest};
    writes_[tensor.storage] = write;
    const Write* before = differing_.find(tensor.storage);
    if (differs || (before != nullptr && before->view == write.view)) {
      differing_[tensor.storage] = differs ? write : Write{};
    }
  }
}

std::int64_t WriteTable::differing_writer(const core::TensorRecord& tensor) const {
  const Write* found = differing_.find(tensor.storage);
  return found == nullptr ? core::kNoProducer : found->producer;
}

bool WriteTable::contradicts(const core::TensorRecord& input) const {
  if (!is_plain(input)) return false;
  const Write* found = writes_.find(input.storage);
  return found != nullptr && found->producer == input.producer && found->view == view_of(input) &&
         found->content != input.digest;
}

void FinalValues::see(const core::OpRecord& record) {
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.role != core::TensorRole::kInput || tensor.storage < 0) continue;
    if (const std::uint64_t* op = holder_.find(tensor.storage)) mark_read(*op);
  }
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.role != core::TensorRole::kOutput || tensor.storage < 0) continue;
    holder_[tensor.storage] = record.index;
  }
}

void FinalValues::mark_read(std::uint64_t op) {
  if (op >= read_.size()) read_.resize(static_cast<std::size_t>(op) + 1);
  read_[op] = true;
}

core::LargeVector<std::uint64_t> FinalValues::ops() const {
  core::LargeVector<std::uint64_t> ops;
  holder_.for_each([&](std::uint64_t op) {
    if (op >= read_.size() || !read_[op]) ops.push_back(op);
  });
  std::ranges::sort(ops);
  ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
  return ops;
}

namespace {

using core::ContentState;
using core::TensorRecord;
using core::TensorRole;

/// They look at some elements, which may be written ones.
constexpr std::array<std::string_view, 16> kPicking{"embedding",
                                                    "embedding_bag",
                                                    "gather",
                                                    "index",
                                                    "index_select",
                                                    "masked_fill",
                                                    "masked_scatter",
                                                    "masked_select",
                                                    "scatter",
                                                    "index_put",
                                                    "index_copy",
                                                    "index_fill",
                                                    "take",
                                                    "take_along_dim",
                                                    "where",
                                                    "_unsafe_index"};

std::string_view base_name(const core::OpRecord& record) {
  if (!record.op) return {};
  const std::string_view name = record.op->name;
  const std::size_t colons = name.find("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

/// Whether an argument only says of which shape, dtype or device something else is to be.
bool takes_no_values(std::string_view base, const TensorRecord& tensor) {
  return base.ends_with("_like") || base.starts_with("new_") || base.starts_with("empty") ||
         (tensor.slot == "other" && (base == "to" || base.ends_with("_as")));
}

bool is_shared_with_output(const core::OpRecord& record, const TensorRecord& input) {
  return std::ranges::any_of(record.tensors, [&](const TensorRecord& output) {
    return output.role == TensorRole::kOutput && output.storage >= 0 &&
           output.storage == input.storage;
  });
}

bool has_values(const core::OpRecord& record) {
  return std::ranges::any_of(record.tensors, [](const TensorRecord& output) {
    return output.role == TensorRole::kOutput && output.state == ContentState::kHashed;
  });
}

/// `baddbmm(self, ..., beta=0)` is documented to ignore `self`.
bool is_ignored(const core::OpRecord& record, const TensorRecord& input) {
  if (input.slot != "self" && input.slot != "input") return false;
  return std::ranges::any_of(record.arguments, [](const core::Argument& argument) {
    if (argument.name != "beta") return false;
    const auto* number = std::get_if<double>(&argument.value.data);
    const auto* integer = std::get_if<std::int64_t>(&argument.value.data);
    return (number != nullptr && *number == 0) || (integer != nullptr && *integer == 0);
  });
}

/// The first argument that is unwritten memory, and of which more than the form is taken.
const TensorRecord* unwritten_input(const core::OpRecord& record) {
  const std::string_view base = base_name(record);
  for (const TensorRecord& tensor : record.tensors) {
    if (tensor.role != TensorRole::kInput || tensor.state != ContentState::kUninitialised) continue;
    if (core::is_returned(record)) return &tensor;
    if (!takes_no_values(base, tensor) && !is_shared_with_output(record, tensor) &&
        !is_ignored(record, tensor)) {
      return &tensor;
    }
  }
  return nullptr;
}

bool is_picking(const core::OpRecord& record) {
  return std::ranges::find(kPicking, base_name(record)) != kPicking.end();
}

}  // namespace

const TensorRecord* unwritten_argument(const core::OpRecord& record) {
  if (!core::is_returned(record) && (is_picking(record) || !has_values(record))) return nullptr;
  return unwritten_input(record);
}

bool may_read_unwritten(const core::OpRecord& record) { return unwritten_input(record) != nullptr; }

void Allocations::see(const core::OpRecord& record) {
  // A kernel may write what it has allocated without an operator.
  if (record.depth != 0) return;
  for (const TensorRecord& output : record.tensors) {
    if (output.role != TensorRole::kOutput || output.state != ContentState::kUninitialised)
      continue;
    if (output.storage < 0 || output.producer != static_cast<std::int64_t>(record.index)) continue;
    const bool given = std::ranges::any_of(record.tensors, [&](const TensorRecord& input) {
      return input.role == TensorRole::kInput && input.storage == output.storage;
    });
    if (!given || base_name(record).starts_with("resize"))
      allocators_[output.storage] = output.producer;
  }
}

std::string Allocations::describe(const TensorRecord& tensor, const core::DumpSource& dump) const {
  const std::int64_t* allocator = allocators_.find(tensor.storage);
  if (allocator == nullptr) return {};
  const auto text = [&](std::int64_t op) {
    return op_text(dump.op_head(static_cast<std::uint64_t>(op)));
  };
  std::string what = fmt::format("`{}` is memory that {} allocated", tensor.slot, text(*allocator));
  const bool known =
      tensor.producer >= 0 && static_cast<std::uint64_t>(tensor.producer) < dump.op_count();
  if (tensor.producer == *allocator || !known) {
    return what + " and that no operator has written since";
  }
  return what +
         fmt::format(" and that has been written in part alone, last by {}", text(tensor.producer));
}

}  // namespace repro_check::comparators::detail
