// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "core/error.h"

namespace repro_check::test_support {

/// What `action` throws: checks its kind, gives its message and its hint, `message | hint`.
template <typename Action>
std::string error_of(core::ErrorKind kind, Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (const core::Error& error) {
    INFO(error.what());
    CHECK(core::error_kind_name(error.kind()) == core::error_kind_name(kind));
    return std::string(error.what()).append(" | ").append(error.hint());
  }
  FAIL_CHECK("nothing was thrown");
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace repro_check::test_support
