// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "cmd/render/page.h"
#include "cmd/render/render.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// The divergent operators behind the first: how many there are, every other one that is not a
/// consequence, the worst consequence, and how many lines were left out.
/// @param room  lines to stay within, at least 3
Page list_section(const comparators::Report& report,
                  const RenderOptions& options,
                  std::size_t room);

}  // namespace repro_check::cmd
