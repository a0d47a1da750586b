// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace repro_check::core {

/// Runs `work`, for functions of a library that may not throw.
/// @return null, or what it threw, as a text that lasts until the next call on the thread
template <typename Work>
const char* told(Work&& work) noexcept {
  thread_local std::string text;
  try {
    work();
    return nullptr;
  } catch (const std::exception& error) {
    try {
      text = error.what();
    } catch (...) {
      return "out of memory";
    }
    return text.c_str();
  } catch (...) {
    return "unknown failure";
  }
}

}  // namespace repro_check::core
