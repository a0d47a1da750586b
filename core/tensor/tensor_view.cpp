// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/tensor_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"

namespace repro_check::core {

std::int64_t element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size == 0 ? 1 : size, &count)) {
      throw Error(ErrorKind::kDumpDamaged,
                  fmt::format("impossible shape [{}]", fmt::join(shape, ", ")));
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

}  // namespace repro_check::core
