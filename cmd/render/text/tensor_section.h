// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "cmd/render/text/report_sections.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// Type, share that differs, sizes of the error, sample elements.
/// @param label  `output 0`
void add_tensor(Page& page,
                std::string_view label,
                const comparators::TensorComparison& tensor,
                const Detail& detail);

/// A parameter, buffer or forward argument, likewise.
void add_named_tensor(Page& page,
                      std::string_view label,
                      const comparators::NamedTensorDifference& tensor,
                      const Detail& detail);

}  // namespace repro_check::cmd
