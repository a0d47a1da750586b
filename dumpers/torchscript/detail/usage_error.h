// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/error.h"

namespace repro_check::torchscript {

inline core::Error usage_error(const std::string& message, const std::string& hint) {
  return {core::ErrorKind::kUsage, message, hint};
}

}  // namespace repro_check::torchscript
