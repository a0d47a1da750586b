// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/contents/slice_bytes.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "core/tensor/dtype.h"

namespace repro_check::store {
namespace {

/// Elements that lie closer together than this are read with what is between them.
constexpr std::size_t kReadAtOnce = std::size_t{1} << 20U;

}  // namespace

std::optional<std::uint64_t> sliced_length(const core::SliceRule& rule,
                                           const core::ContentKey& key,
                                           std::uint64_t bytes) {
  const std::uint64_t total = bytes / std::max<std::uint64_t>(1, core::element_size(key.dtype));
  if (rule.above ? bytes <= *rule.above : total <= rule.elements) return std::nullopt;
  const std::uint64_t length = std::min(rule.elements, core::slice_length(total, rule.stride));
  return length < total ? std::optional(length) : std::nullopt;
}

std::vector<std::byte> slice_bytes(const core::ContentBytes& bytes,
                                   std::size_t element_size,
                                   std::uint64_t length,
                                   std::uint64_t stride) {
  std::vector<std::byte> slice(length * element_size);
  if (stride == 1 || length == 1) {
    bytes.read(0, slice);
    return slice;
  }
  // Two elements lie inside the content, so that this is no more than its size.
  const std::uint64_t step = stride * element_size;
  const std::uint64_t at_once = std::max<std::uint64_t>(1, kReadAtOnce / step);
  std::vector<std::byte> block;
  for (std::uint64_t done = 0; done < length; done += at_once) {
    const std::uint64_t count = std::min(at_once, length - done);
    block.resize((count - 1) * step + element_size);
    bytes.read(done * step, block);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(slice.data() + (done + i) * element_size, block.data() + i * step, element_size);
    }
  }
  return slice;
}

}  // namespace repro_check::store
