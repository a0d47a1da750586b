// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/index/row_counts.h"

#include <variant>

#include "dumpers/journal/journal.h"

namespace repro_check::store {
namespace {

/// Rows of what is inside the list.
std::uint64_t rows_inside(const core::ValueList& list, int depth) {
  std::uint64_t rows = list.items.size();
  // The journal makes deeper lists opaque, which is one row.
  if (depth == journal::kMaxListDepth) return rows;
  for (const core::Value& item : list.items) {
    if (const auto* inner = std::get_if<core::ValueList>(&item.data)) {
      rows += rows_inside(*inner, depth + 1);
    }
  }
  return rows;
}

std::uint64_t rows_of(const core::Value& value) {
  const auto* list = std::get_if<core::ValueList>(&value.data);
  return list == nullptr ? 1 : 1 + rows_inside(*list, 1);
}

}  // namespace

void RowCounts::add(const core::OpRecord& record) {
  ++ops;
  for (const core::Argument& argument : record.arguments) values += rows_of(argument.value);
  for (const core::Value& result : record.results) values += rows_of(result);
  tensors += record.tensors.size();
  for (const core::TensorRecord& tensor : record.tensors) {
    stats += tensor.stats ? 1U : 0U;
    non_finite += tensor.counted && tensor.counted->any() ? 1U : 0U;
  }
  substitutions += record.substitutions.size();
  generators += record.generator ? 1U : 0U;
}

}  // namespace repro_check::store
