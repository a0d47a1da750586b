// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/tensor_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/error.h"

namespace repro_check::core {

std::int64_t element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size == 0 ? 1 : size, &count)) {
      throw damaged_dump(fmt::format("impossible shape [{}]", fmt::join(shape, ", ")));
    }
    empty = empty || size == 0;
  }
  return empty ? 0 : count;
}

std::vector<std::int64_t> unravel(std::uint64_t flat, std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto size = static_cast<std::uint64_t>(std::max<std::int64_t>(shape[i], 1));
    index[i] = static_cast<std::int64_t>(flat % size);
    flat /= size;
  }
  return index;
}

std::string_view content_state_name(ContentState state) noexcept {
  constexpr std::array<std::string_view, 6> kNames{
      "hashed", "uninitialised", "none", "undefined", "composite", "excluded"};
  return kNames[static_cast<std::size_t>(state)];
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
