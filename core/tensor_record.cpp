// SPDX-License-Identifier: Apache-2.0
#include "core/tensor_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace repro_check::core {

std::string_view content_state_name(ContentState state) noexcept {
  switch (state) {
    case ContentState::kHashed:
      return "hashed";
    case ContentState::kUninitialised:
      return "uninitialised";
    case ContentState::kNone:
      return "none";
    case ContentState::kUndefined:
      return "undefined";
    case ContentState::kComposite:
      return "composite";
    case ContentState::kExcluded:
      return "excluded";
  }
  return "none";
}

std::string content_name(const ContentKey& key) {
  const std::string shape =
      key.shape.empty() ? "scalar" : fmt::format("{}", fmt::join(key.shape, "x"));
  return fmt::format("{}-{}-{}", to_hex(key.digest), dtype_name(key.dtype), shape);
}

}  // namespace repro_check::core
