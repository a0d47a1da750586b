// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cmd/render/render.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// At most two commands, quoted for a POSIX shell, that answer the question the verdict leaves
/// open. None for a pass.
std::vector<std::string> next_commands(const comparators::Report& report,
                                       const RenderOptions& options);

}  // namespace repro_check::cmd
