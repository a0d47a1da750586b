// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/tensor_record.h"

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

NonFinite& NonFinite::operator+=(const NonFinite& other) noexcept {
  nans += other.nans;
  positive_infs += other.positive_infs;
  negative_infs += other.negative_infs;
  return *this;
}

std::optional<NonFinite> TensorRecord::non_finite() const noexcept {
  if (stats) return NonFinite{stats->nans, stats->positive_infs, stats->negative_infs};
  return counted;
}

}  // namespace repro_check::core
