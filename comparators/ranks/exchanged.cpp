// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/exchanged.h"

#include <algorithm>

#include "core/tensor/tensor_record.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

constexpr std::string_view kState = "state:";

}  // namespace

bool is_all_to_all(std::string_view op) noexcept {
  return op.find("alltoall") != std::string_view::npos ||
         op.find("all_to_all") != std::string_view::npos;
}

bool ExchangedReader::is_away(const core::TensorRecord& tensor) const {
  const auto found = away_.find(tensor.producer);
  return core::is_input(tensor) && found != away_.end() && found->second;
}

void ExchangedReader::see(const core::OpRecord& record) {
  if (core::is_named_values(record)) return;
  const bool reads_away = std::ranges::any_of(
      record.tensors, [&](const core::TensorRecord& tensor) { return is_away(tensor); });
  const bool is_exchange = is_all_to_all(record.op->name);
  const bool is_away_now = is_exchange ? !reads_away : reads_away;
  if (is_away_now || reads_away) {
    away_[static_cast<std::int64_t>(record.index)] = is_away_now;
  }
  if (!reads_away || is_exchange || record.phase == core::Phase::kBackward) return;
  for (const core::TensorRecord& tensor : record.tensors) {
    const std::string_view name = tensor.name;
    if (core::is_input(tensor) && name.starts_with(kState)) {
      parameters_.emplace(name.substr(kState.size()));
    }
  }
}

}  // namespace repro_check::comparators
