// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "comparators/data/data_order.h"
#include "comparators/report/report.h"

namespace repro_check::comparators {

/// Loaders of two runs by their number; those that one of them lacks are left out.
std::vector<DataComparison> compare_data(const DataOrder& baseline, const DataOrder& candidate);

}  // namespace repro_check::comparators
