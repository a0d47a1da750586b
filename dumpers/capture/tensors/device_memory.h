// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstddef>
#include <cstdint>

namespace repro_check::capture {

/// Page-locked memory, which host and device know by the same addresses.
template <class Row>
class PinnedRows {
 public:
  explicit PinnedRows(std::size_t count)
      : memory_(at::empty({static_cast<std::int64_t>(count * sizeof(Row))},
                          at::TensorOptions(at::kByte).pinned_memory(true))) {}

  [[nodiscard]] Row* data() { return static_cast<Row*>(memory_.data_ptr()); }
  Row& operator[](std::size_t index) { return data()[index]; }

 private:
  at::Tensor memory_;
};

/// Whether a device can read it where it lies. Not what shows the same memory again and again: in
/// one piece there may be no room for that.
bool lies_on_device(const at::Tensor& tensor);

}  // namespace repro_check::capture
