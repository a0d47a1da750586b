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

/// How far two tensors are from float64, summed over the elements that they have in common.
struct Distances {
  double exact = 0;    ///< squares, on what B begins with
  double error_a = 0;  ///< squares of A's distance from float64, on what A begins with
  double error_b = 0;  ///< of B's, on what B begins with
  double along = 0;    ///< of B's values with float64's
  double other = 0;    ///< squares of B's values
  double elements = 0;

  void add(double one, double own, double b, double value);
  void add(const Distances& more);
};

/// What is usual in tensors of one kind.
struct Usual {
  double error = 0;     ///< of A, relative
  double element = 0;   ///< size of one, in root mean square
  double rounding = 0;  ///< of the coarsest dtype of B

  /// The distance from float64 that A's own error, and rounding, explain.
  [[nodiscard]] double floor(const Distances& of) const;
};

/// The upper one of an even count; 0 of nothing.
double median(std::vector<double> values);

}  // namespace repro_check::comparators
