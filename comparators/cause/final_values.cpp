// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/final_values.h"

#include <algorithm>
#include <cstddef>

namespace repro_check::comparators::detail {

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

}  // namespace repro_check::comparators::detail
