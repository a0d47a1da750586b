// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/subarray.h"
#include "core/tensor/tensor_view.h"
#include "core/trace/dump_source.h"

namespace repro_check::cmd {

/// The tensor of a record that `out:0`, `in:1` or `in:self` names: by its slot, else by its
/// position on its side. Borrowed from `op`.
/// @throws core::Error{kUsage} for another form, core::Error{kNotComparable} when there is none
const core::TensorRecord& require_slot(const core::OpRecord& op, const std::string& text);

/// `out:0`, as require_slot() takes it.
std::string side_slot(const core::TensorRecord& tensor);

/// Values of a tensor, or of the part of it that was asked for, or that is stored.
struct TensorValues {
  core::Dtype dtype = core::Dtype::kUnknown;
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> shape;       ///< of `bytes`
  std::vector<std::int64_t> whole;       ///< of the tensor
  std::optional<core::Subarray> chosen;  ///< the part that was asked for
  std::uint64_t stride = 1;              ///< of the slice that is stored
  std::string stored;  ///< `the first 8 of 4096 elements`; empty where all of them are

  [[nodiscard]] core::TensorView view() const { return {dtype, shape, bytes}; }
  /// Elements here. Whole bytes where the dtype is unknown.
  [[nodiscard]] std::uint64_t count() const;
  /// Where in the tensor the element stands. @param position  below count()
  [[nodiscard]] std::vector<std::int64_t> index(std::uint64_t position) const;
  [[nodiscard]] std::span<const std::byte> element(std::uint64_t position) const;
};

/// @throws core::Error{kNotComparable} when the dump does not hold them, or `part` is of another
///         tensor; core::Error{kDumpDamaged}
TensorValues read_values(const core::DumpSource& dump,
                         const core::TensorRecord& tensor,
                         const std::optional<core::Subscript>& part = std::nullopt);

}  // namespace repro_check::cmd
