// SPDX-License-Identifier: Apache-2.0
#include "core/trace/program_records.h"

#include <cmath>
#include <limits>
#include <variant>

#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::core {
namespace {

/// The only element, from the statistics of it: they are exact, but for the sign of a zero.
std::optional<double> only_element(const TensorRecord& tensor) {
  if (!tensor.stats || element_count(tensor.shape) != 1) return std::nullopt;
  if (is_complex(tensor.dtype)) return std::nullopt;
  const TensorStats& stats = *tensor.stats;
  if (stats.nans != 0) return std::numeric_limits<double>::quiet_NaN();
  return stats.min;
}

}  // namespace

std::optional<double> number_in(const OpRecord& record, const Value& value) {
  if (const auto* number = std::get_if<double>(&value.data)) return *number;
  const auto* slot = std::get_if<TensorSlot>(&value.data);
  if (slot == nullptr || slot->index >= record.tensors.size()) return std::nullopt;
  return only_element(record.tensors[slot->index]);
}

double sketch_distance(std::span<const double> baseline, std::span<const double> candidate) {
  double squares = 0;
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    const double apart = candidate[i] - baseline[i];
    squares += apart * apart;
  }
  return std::sqrt(squares);
}

}  // namespace repro_check::core
