// SPDX-License-Identifier: Apache-2.0
#include "core/content/content_slice.h"

#include <fmt/format.h>

namespace repro_check::core {

ContentKey slice_key(const ContentKey& whole, const ContentSlice& slice) {
  return {whole.dtype, {static_cast<std::int64_t>(slice.elements)}, slice.digest};
}

std::string describe_slice(const ContentSlice& slice, std::uint64_t total) {
  if (slice.stride == 1) return fmt::format("the first {} of {} elements", slice.elements, total);
  return fmt::format(
      "{} of {} elements, one in {} from the first on", slice.elements, total, slice.stride);
}

}  // namespace repro_check::core
