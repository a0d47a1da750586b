// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "core/error.h"

namespace repro_check::comparators {

/// What `action` finds damaged of a dump, in words; empty where it finds all whole. What else it
/// throws goes on.
template <typename Action>
std::optional<std::string> damage_in(const Action& action) {
  try {
    action();
    return std::nullopt;
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
    return error.what();
  }
}

}  // namespace repro_check::comparators
