// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::replay {

/// Which recorded call is inside which, and which calls use a storage.
class CallTree {
 public:
  /// @param end  calls from this op index on are not looked at
  /// @throws core::Error{kDumpDamaged}
  CallTree(const core::DumpSource& dump, std::uint64_t end);

  [[nodiscard]] std::uint64_t size() const noexcept { return calls_.size(); }
  /// Op index of the enclosing call; -1 = none.
  [[nodiscard]] std::int64_t parent(std::uint64_t op) const { return calls_[op].parent; }
  [[nodiscard]] bool has_children(std::uint64_t op) const { return calls_[op].last > op; }
  /// Op index of the last call inside of it; its own where there is none.
  [[nodiscard]] std::uint64_t last_inside(std::uint64_t op) const { return calls_[op].last; }
  /// Whether memory that calls inside of it made, and that it does not hand out, is used after it.
  [[nodiscard]] bool escapes(std::uint64_t op) const { return calls_[op].escapes; }

  /// Op index of the first call that shows the storage.
  [[nodiscard]] std::uint64_t first_use(std::int64_t storage) const {
    return uses_.at(storage).first;
  }
  /// Storages that no call behind this one needs, whether it was executed or those inside of it.
  [[nodiscard]] const std::vector<std::int64_t>& last_used_by(std::uint64_t op) const;

  /// Per call, whether what a tensor of call `op` holds may depend on what it made.
  [[nodiscard]] std::vector<bool> leading_to(std::uint64_t op, std::int64_t storage) const;

 private:
  struct Call {
    std::int64_t parent = -1;
    std::uint64_t last = 0;
    bool escapes = false;
    std::vector<std::int64_t> read;  ///< storages of floating inputs with values
    std::vector<std::int64_t> made;  ///< storages of floating outputs that it wrote
    std::vector<std::int64_t> all;   ///< of all tensors, sorted
  };
  struct Use {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };

  void add(const core::OpRecord& record);
  void find_escapes();

  std::vector<Call> calls_;
  std::unordered_map<std::int64_t, Use> uses_;
  std::unordered_map<std::uint64_t, std::vector<std::int64_t>> done_;
};

}  // namespace repro_check::replay
