// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/tensor/dtype.h"

namespace repro_check::comparators {

/// Half the distance from 1 to the next number of a floating dtype: 2^-24 of float32.
double roundoff(core::Dtype dtype);

/// 0 where both are the same number, or none; infinite where one alone is no number.
double squared_distance(double one, double other);

/// 0 of 0; infinite over a floor of 0.
double ratio_of(double one, double floor);

/// The upper one of an even count; 0 of nothing.
double median(std::vector<double> values);

}  // namespace repro_check::comparators
