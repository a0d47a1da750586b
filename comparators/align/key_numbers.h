// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "comparators/align/piece_vector.h"
#include "core/digest/digest.h"
#include "core/system/large_memory.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

/// What aligns the records of one side, in order. A key is known by its digest, as contents are:
/// 16 bytes for each, however long the names are.
using Keys = PieceVector<core::Digest>;

/// Of a module path or of an operator.
core::Digest digest_of_name(std::string_view name) noexcept;

/// Of rank, lane, step, phase, depth, and the two names.
core::Digest key_of(const core::OpRecord& head,
                    const core::Digest& module,
                    const core::Digest& op) noexcept;

/// Numbers below `distinct`, the same where and only where the keys are.
struct KeyNumbers {
  core::LargeVector<std::uint32_t> baseline;   ///< per record
  core::LargeVector<std::uint32_t> candidate;  ///< per record
  std::uint32_t distinct = 0;
};

/// A table of all keys would be looked up at random, which is slow once it lies in files: of many
/// records some keys are numbered at a time, by as many passes over all of them.
/// @param at_once  records whose keys one table takes, about
/// @throws core::Error{kNotComparable} when there are 2^32 - 1 keys or more
KeyNumbers number_keys(const Keys& baseline,
                       const Keys& candidate,
                       std::size_t at_once = std::size_t{1} << 20U);

}  // namespace repro_check::comparators::detail
