// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/render/json/json_text.h"
#include "cmd/render/render.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

inline constexpr const char* kReportVersion = "1.6";

/// Members of the JSON report that a stream of lines has as well.
Json json_tool(const comparators::Report& report, const RenderOptions& options);
Json json_verdict(const comparators::Report& report);
Json json_runs(const comparators::Report& report);
Json json_differences(const comparators::Report& report);

/// The object that render_json() writes, for documents that hold it.
Json json_report(const comparators::Report& report, const RenderOptions& options);

}  // namespace repro_check::cmd
