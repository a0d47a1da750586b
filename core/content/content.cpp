// SPDX-License-Identifier: Apache-2.0
#include "core/content/content.h"

#include <fmt/format.h>

#include "core/tensor/tensor_view.h"

namespace repro_check::core {

std::uint64_t content_size(const ContentKey& key) {
  return static_cast<std::uint64_t>(element_count(key.shape)) * element_size(key.dtype);
}

ContentKey slice_key(const ContentKey& whole, const ContentSlice& slice) {
  return {whole.dtype, {static_cast<std::int64_t>(slice.elements)}, slice.digest};
}

std::string describe_slice(const ContentSlice& slice, std::uint64_t total) {
  if (slice.stride == 1) return fmt::format("the first {} of {} elements", slice.elements, total);
  return fmt::format(
      "{} of {} elements, one in {} from the first on", slice.elements, total, slice.stride);
}

}  // namespace repro_check::core
