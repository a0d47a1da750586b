// SPDX-License-Identifier: Apache-2.0
#include "core/trace/run_modes.h"

#include <array>
#include <cstddef>

namespace repro_check::core {
namespace {

template <std::size_t N, typename Enum>
std::string_view pick(const std::array<std::string_view, N>& names, Enum value) noexcept {
  return names[static_cast<std::size_t>(value)];
}

constexpr std::array<std::string_view, 3> kDeterminism{"off", "warn", "error"};
constexpr std::array<std::string_view, 2> kRng{"device", "host"};
constexpr std::array<std::string_view, 3> kGrad{"disabled", "enabled", "inference"};
constexpr std::array<std::string_view, 3> kLevel{"digest", "stats", "tensor"};
constexpr std::array<std::string_view, 3> kDepth{"top", "leaf", "all"};

}  // namespace

std::string_view name_of(DeterminismMode mode) noexcept { return pick(kDeterminism, mode); }
std::string_view name_of(RngMode mode) noexcept { return pick(kRng, mode); }
std::string_view name_of(GradMode mode) noexcept { return pick(kGrad, mode); }
std::string_view name_of(DumpLevel level) noexcept { return pick(kLevel, level); }
std::string_view name_of(DumpDepth depth) noexcept { return pick(kDepth, depth); }

}  // namespace repro_check::core
