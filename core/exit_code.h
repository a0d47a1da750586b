// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace repro_check::core {

/// What a process of ours ends with. When several hold, kRunFailed > kDumpUnusable > kDivergence >
/// kNotComparable > kReproducible; kUsage is decided before any dump is opened.
enum class ExitCode : int {
  kReproducible = 0,
  kDivergence = 1,
  kUsage = 2,
  kDumpUnusable = 3,
  kNotComparable = 4,
  kRunFailed = 5,
  kInternal = 70,
  kInterrupted = 130,
};

}  // namespace repro_check::core
