// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comparators/judge/verdict.h"
#include "comparators/report/compare_options.h"
#include "comparators/report/report.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators {

/// Judges `candidate` by `baseline`. A damaged or incomparable dump is a status of the report, with
/// what could still be said; nothing is thrown for it.
/// @throws core::Error{kInternal} when the accounting does not close
Report compare(const core::DumpSource& baseline,
               const core::DumpSource& candidate,
               const CompareOptions& options);

}  // namespace repro_check::comparators
