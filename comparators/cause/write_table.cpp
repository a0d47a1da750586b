// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/write_table.h"

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

}  // namespace repro_check::comparators::detail
