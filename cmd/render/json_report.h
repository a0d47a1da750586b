// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/render/json_text.h"
#include "cmd/render/render.h"
#include "comparators/report.h"

namespace repro_check::cmd {

/// The object that render_json() writes, for documents that hold it.
Json json_report(const comparators::Report& report, const RenderOptions& options);

}  // namespace repro_check::cmd
