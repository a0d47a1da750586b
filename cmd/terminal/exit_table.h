// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace repro_check::cmd {

/// Shown by `repro-check --help`; the same table as core::ExitCode.
inline constexpr const char* kExitTable =
    "Exit codes:\n"
    "    0  reproducible\n"
    "    1  divergence, or a result that recording changes\n"
    "    2  usage or configuration\n"
    "    3  a dump is unreadable, truncated, damaged, or of an unknown version\n"
    "    4  not comparable, nothing was compared, or only the part that was recorded\n"
    "    5  a run failed\n"
    "   70  internal error\n"
    "  130  interrupted\n"
    "When several of 1 to 5 hold: 5 before 3 before 1 before 4.\n";

}  // namespace repro_check::cmd
