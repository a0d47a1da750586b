// SPDX-License-Identifier: Apache-2.0
#include "core/digest/leaf_hash_functions.h"

namespace repro_check::core::detail {

LeafHash avx2_leaf_hash() noexcept { return kFunctions; }

}  // namespace repro_check::core::detail
