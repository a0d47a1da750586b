// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace repro_check::comparators {

/// The operators that one module called, on either side.
struct ModuleTally {
  std::string path;  ///< as CallSite has it
  std::uint64_t operators = 0;
  std::uint64_t not_fine = 0;    ///< diverged, mismatched or missing
  std::uint64_t not_judged = 0;  ///< and those skipped
};

}  // namespace repro_check::comparators
