// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/outermost_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "core/error.h"
#include "core/trace/program_records.h"
#include "dumpers/replay/recorded_call.h"

namespace repro_check::replay {
namespace {

/// Memory as it was allocated is nothing.
bool gives_results(const core::OpRecord& record) {
  return !record.results.empty() &&
         std::ranges::none_of(record.tensors, [](const core::TensorRecord& tensor) {
           return core::is_output(tensor) && tensor.state == core::ContentState::kUninitialised;
         });
}

bool has_parts(const core::DumpSource& dump, std::uint64_t op) {
  return op + 1 < dump.op_count() && dump.op_head(op + 1).parent == static_cast<std::int64_t>(op);
}

}  // namespace

std::vector<UnsweptCall> for_each_outermost(
    const core::DumpSource& dump, const std::function<bool(const core::OpRecord&)>& execute) {
  std::vector<UnsweptCall> unswept;
  std::set<std::int64_t> covered;
  const auto covers = [&](const core::OpRecord& record) {
    if (!gives_results(record)) return false;
    try {
      if (core::is_of_ranks(*record.op)) {
        cannot(fmt::format(
                   "op {} {}: other ranks take part in it", record.index, record.op->full_name()),
               "");
      }
      return execute(record);
    } catch (const core::Error& error) {
      if (error.kind() == core::ErrorKind::kDumpDamaged) throw;
      if (!has_parts(dump, record.index)) unswept.push_back({record.index, error.what()});
      return false;
    }
  };
  for (std::uint64_t op = 0; op < dump.op_count(); ++op) {
    const core::OpHead head = dump.op_head(op);
    const bool is_inside = head.parent >= 0 && covered.contains(head.parent);
    if (is_inside || (!core::is_named_values(head) && covers(dump.op(op)))) {
      covered.insert(static_cast<std::int64_t>(op));
    }
  }
  return unswept;
}

}  // namespace repro_check::replay
