// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace repro_check::core {

enum class DeterminismMode { kOff, kWarn, kError };
/// Where random numbers are drawn: by each device's own generator, or on the host and then moved.
enum class RngMode { kDevice, kHost };
enum class GradMode { kDisabled, kEnabled, kInference };
/// What is kept of a tensor: its digest, its statistics as well, or its bytes as well.
enum class DumpLevel { kDigest, kStats, kTensor };
/// Operators as the model calls them, the kernels they decompose into, or the whole tree.
enum class DumpDepth { kTop, kLeaf, kAll };

std::string_view name_of(DeterminismMode mode) noexcept;  ///< off, warn, error
std::string_view name_of(RngMode mode) noexcept;          ///< device, host
std::string_view name_of(GradMode mode) noexcept;         ///< disabled, enabled, inference
std::string_view name_of(DumpLevel level) noexcept;       ///< digest, stats, tensor
std::string_view name_of(DumpDepth depth) noexcept;       ///< top, leaf, all

}  // namespace repro_check::core
