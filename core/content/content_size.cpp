// SPDX-License-Identifier: Apache-2.0
#include "core/content/content_size.h"

#include "core/tensor/tensor_view.h"

namespace repro_check::core {

std::uint64_t content_size(const ContentKey& key) {
  return static_cast<std::uint64_t>(element_count(key.shape)) * element_size(key.dtype);
}

}  // namespace repro_check::core
