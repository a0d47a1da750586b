// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace repro_check::core {

// What stands for minus infinity in attention masks, by its size: beside it everything else is
// nothing. float16 has no number that large, and its least one stands there.
inline constexpr double kMask = 1e30;
inline constexpr double kHalfMask = 6e4;

}  // namespace repro_check::core
