// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "cmd/render/page.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// How much is said of one tensor pair.
struct TensorDetail {
  std::size_t samples = 3;
  bool every_metric = false;
};

/// Type, share that differs, sizes of the error, sample elements.
/// @param label  `output 0`
void add_tensor(Page& page,
                std::string_view label,
                const comparators::TensorComparison& tensor,
                const TensorDetail& detail);

/// A parameter, buffer or forward argument, likewise.
void add_named_tensor(Page& page,
                      std::string_view label,
                      const comparators::NamedTensorDifference& tensor,
                      const TensorDetail& detail);

}  // namespace repro_check::cmd
