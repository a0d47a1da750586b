// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comparators/report/compare_options.h"
#include "comparators/report/report.h"
#include "core/error.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// Judges `candidate` by `baseline`. A damaged or incomparable dump is a status of the report, with
/// what could still be said; nothing is thrown for it. Of programs that ran on other numbers of
/// ranks only what common_of_worlds() names is compared, which is no pass. Where a dump is partial
/// only what every partial side reached is compared, operators that were never left are skipped,
/// and nothing that is found equal is more than Status::kPartial.
/// @throws core::Error{kInternal} when the accounting does not close
Report compare(const core::DumpSource& baseline,
               const core::DumpSource& candidate,
               const CompareOptions& options);

core::ExitCode exit_code_of(const Report& report) noexcept;

/// Whether a dump ends before its run did. Not one of a process that the program itself stopped:
/// that is as long as it was to be.
bool is_cut_short(const core::DumpSource& dump);

}  // namespace repro_check::comparators
