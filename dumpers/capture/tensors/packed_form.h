// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace repro_check::capture {

/// The bytes of a strided tensor whose dtype a dump has no name for, as uint8 on the same storage:
/// of `quint4x2` and `quint2x4` one flat row of packed elements, of `bits*`, `int1` to `int7` and
/// `uint1` to `uint7` the tensor's own shape, with one more dimension where an element has several
/// bytes. Undefined where it cannot be told which bytes are the tensor's: LibTorch takes the
/// offset and the strides of packed elements for bytes, so that a view of them shows others than
/// it means; and for a dtype that is none of these.
at::Tensor raw_bytes(const at::Tensor& tensor);

/// Bits of the last byte of raw_bytes() that no element of the tensor lies in; 0 for none.
std::uint8_t unused_bits(const at::Tensor& tensor);

/// A copy with these bits of the last byte 0.
/// @param bytes  uint8, contiguous, on the host, with at least one element
at::Tensor without_bits(const at::Tensor& bytes, std::uint8_t bits);

}  // namespace repro_check::capture
