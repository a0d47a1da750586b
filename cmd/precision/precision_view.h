// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cmd/render/json_form.h"
#include "cmd/render/render.h"
#include "cmd/reports/report_flags.h"
#include "cmd/terminal/global_options.h"

namespace repro_check::cmd {

/// The formats that are made of measure_precision(). @throws core::Error{kUsage} for another one
void require_precision_formats(const ReportFlags& flags);

/// As a page. @param text  the same as text
std::string precision_page(const Json& document, const std::string& text);

/// Writes the reports on a document of measure_precision().
void emit_precision(const Json& document, const ReportFlags& flags, const GlobalOptions& globals);

}  // namespace repro_check::cmd
