// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "cmd/render/render.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// Operators that a page lists for browsers that run no script in it.
inline constexpr std::size_t kStaticOperators = 50;

/// What a page says of a report before any script has run: verdict, cause, what to do, what was
/// compared, settings that differ, both runs, the first operators that are not fine, and the text
/// report.
/// @param number  of the report in its page, from 0
std::string html_static(const comparators::Report& report,
                        std::size_t number,
                        const RenderOptions& options);

}  // namespace repro_check::cmd
