// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/call_tree.h"

#include <algorithm>
#include <unordered_set>

#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::replay {

CallTree::CallTree(const core::DumpSource& dump, std::uint64_t end) {
  calls_.resize(std::min(end, dump.op_count()));
  core::OpRecord record;
  for (std::uint64_t op = 0; op < calls_.size(); ++op) {
    calls_[op].last = op;
    dump.read_op(op, record);
    record.index = op;
    add(record);
  }
  for (std::uint64_t op = calls_.size(); op-- > 0;) {
    const std::int64_t parent = calls_[op].parent;
    if (parent < 0) continue;
    Call& around = calls_[static_cast<std::uint64_t>(parent)];
    around.last = std::max(around.last, calls_[op].last);
  }
  // What a call needs stays until all inside of it are done: it may have to be executed in their
  // place.
  for (const Call& call : calls_) {
    for (const std::int64_t storage : call.all) {
      Use& use = uses_[storage];
      use.last = std::max(use.last, call.last);
    }
  }
  for (const auto& [storage, use] : uses_) done_[use.last].push_back(storage);
  find_escapes();
}

void CallTree::add(const core::OpRecord& record) {
  Call& call = calls_[record.index];
  if (record.parent >= 0 && static_cast<std::uint64_t>(record.parent) < record.index) {
    call.parent = record.parent;
  }
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.storage < 0) continue;
    call.all.push_back(tensor.storage);
    uses_.try_emplace(tensor.storage, Use{record.index, record.index});
    if (!core::is_floating(tensor.dtype) && !core::is_complex(tensor.dtype)) continue;
    const bool has_values = tensor.state == core::ContentState::kHashed;
    if (core::is_input(tensor) && has_values) call.read.push_back(tensor.storage);
    // Where calls inside of it wrote the memory, the last of them is the producer.
    const bool wrote = tensor.producer >= static_cast<std::int64_t>(record.index);
    if (core::is_output(tensor) && wrote) call.made.push_back(tensor.storage);
  }
  std::ranges::sort(call.all);
  call.all.erase(std::unique(call.all.begin(), call.all.end()), call.all.end());
}

void CallTree::find_escapes() {
  for (const Call& inner : calls_) {
    for (const std::int64_t storage : inner.made) {
      const Use& use = uses_.at(storage);
      for (std::int64_t around = inner.parent; around >= 0;) {
        Call& call = calls_[static_cast<std::uint64_t>(around)];
        const bool shown = std::ranges::binary_search(call.all, storage);
        if (use.last > call.last && !shown) call.escapes = true;
        around = call.parent;
      }
    }
  }
}

const std::vector<std::int64_t>& CallTree::last_used_by(std::uint64_t op) const {
  static const std::vector<std::int64_t> none;
  const auto found = done_.find(op);
  return found == done_.end() ? none : found->second;
}

std::vector<bool> CallTree::leading_to(std::uint64_t op, std::int64_t storage) const {
  std::vector<bool> leading(calls_.size(), false);
  std::unordered_set<std::int64_t> wanted{storage};
  for (std::uint64_t call = std::min<std::uint64_t>(op + 1, calls_.size()); call-- > 0;) {
    leading[call] = std::ranges::any_of(calls_[call].made,
                                        [&](std::int64_t made) { return wanted.contains(made); });
    if (leading[call]) wanted.insert(calls_[call].read.begin(), calls_[call].read.end());
  }
  return leading;
}

}  // namespace repro_check::replay
