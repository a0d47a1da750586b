// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "comparators/detail/piece_vector.h"
#include "core/digest.h"
#include "core/id_slots.h"
#include "core/op_record.h"

namespace repro_check::comparators::detail {

/// Numbers for what aligns records, the same for both sides of a comparison. A key is known by its
/// digest, as contents are: some 22 bytes for each, however long the names are.
class KeyTable {
 public:
  /// Of a module path or of an operator.
  static core::Digest digest_of(std::string_view name) noexcept;

  /// Of rank, lane, step, phase, depth, and the two names.
  std::uint32_t intern(const core::OpRecord& head,
                       const core::Digest& module,
                       const core::Digest& op);

 private:
  PieceVector<core::Digest> keys_;
  core::IdSlots slots_;
};

}  // namespace repro_check::comparators::detail
