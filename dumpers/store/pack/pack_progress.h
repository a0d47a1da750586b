// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace repro_check::store {

enum class PackPhase { kVerifying, kPacking, kUnpacking };

/// Told how many bytes of how many are done.
using PackProgress = std::function<void(PackPhase, std::uint64_t, std::uint64_t)>;

}  // namespace repro_check::store
