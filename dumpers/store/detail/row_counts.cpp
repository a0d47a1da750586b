// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/detail/row_counts.h"

#include <variant>

#include "dumpers/journal/journal.h"

namespace repro_check::store {
namespace {

std::uint64_t rows_of(const core::Value& value, int depth) {
  const auto* list = std::get_if<core::ValueList>(&value.data);
  // The journal makes deeper lists opaque, which is one row.
  if (list == nullptr || depth == journal::kMaxListDepth) return 1;
  std::uint64_t rows = 1;
  for (const core::Value& item : list->items) rows += rows_of(item, depth + 1);
  return rows;
}

}  // namespace

void RowCounts::add(const core::OpRecord& record) {
  ++ops;
  for (const core::Argument& argument : record.arguments) values += rows_of(argument.value, 0);
  for (const core::Value& result : record.results) values += rows_of(result, 0);
  tensors += record.tensors.size();
  for (const core::TensorRecord& tensor : record.tensors) stats += tensor.stats ? 1U : 0U;
  substitutions += record.substitutions.size();
  generators += record.generator ? 1U : 0U;
}

}  // namespace repro_check::store
