// SPDX-License-Identifier: Apache-2.0
#include "core/tensor_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

}  // namespace repro_check::core
