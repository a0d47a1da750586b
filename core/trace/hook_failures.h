// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/run_manifest.h"

namespace repro_check::core {

/// Counts a failure of a hook among those of a manifest, which keeps the first 20 different ones.
inline void count_failure(std::vector<HookFailure>& notes,
                          std::string_view where,
                          std::string_view error,
                          std::uint64_t count) {
  constexpr std::size_t kMost = 20;
  const auto known = std::ranges::find_if(
      notes, [&](const HookFailure& note) { return note.where == where && note.error == error; });
  if (known != notes.end()) {
    known->count += count;
  } else if (notes.size() < kMost) {
    notes.push_back({std::string(where), std::string(error), count});
  }
}

}  // namespace repro_check::core
