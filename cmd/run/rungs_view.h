// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cmd/relate/shadow.h"
#include "cmd/reports/report_flags.h"
#include "cmd/terminal/global_options.h"
#include "comparators/relate/left_numbers.h"
#include "comparators/relate/rung_judgement.h"
#include "comparators/report/finding.h"
#include "core/error.h"
#include "core/trace/dump.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {

/// A rung on which all is within the floor.
struct ClimbedRung {
  core::CompileRung rung{};
  comparators::RungReport report;
  /// Of rung eager, how it compares with the program with nothing compiled.
  std::optional<comparators::LeftAlike> left = {};
};

struct Ladder {
  std::uint64_t calls = 0;  ///< of regions, on rung eager
  std::size_t regions = 0;
  std::vector<ClimbedRung> climbed;
  core::CompileRung reached{};  ///< the last one, within the floor or not
  comparators::NoVerdict no_verdict = comparators::NoVerdict::kNone;
  std::string undecided;                       ///< what that is about
  std::vector<comparators::Finding> findings;  ///< of the rung that parts
  std::vector<comparators::Finding> notes;     ///< that are no fault
  const ShadowDump* shadow = nullptr;          ///< the last one; null where none was asked
  std::string next;                            ///< a command; empty = none

  [[nodiscard]] bool has_diverged() const noexcept { return !findings.empty(); }
};

/// Writes what was found.
/// @param off  the recording with nothing compiled, which knows the program's source files
/// @throws core::Error{kIo}
core::ExitCode emit_ladder(const Ladder& ladder,
                           const core::DumpSource& off,
                           const ReportFlags& flags,
                           const GlobalOptions& globals);

}  // namespace repro_check::cmd
