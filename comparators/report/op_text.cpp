// SPDX-License-Identifier: Apache-2.0
#include "comparators/report/op_text.h"

#include <fmt/format.h>

namespace repro_check::comparators::detail {

std::string operator_text(const core::OpRecord& record) {
  return record.op ? record.op->full_name() : std::string("unknown operator");
}

std::string op_text(const core::OpRecord& record) {
  std::string text = fmt::format("op {} {}", record.index, operator_text(record));
  if (record.site && !record.site->module_path.empty()) {
    text += fmt::format(" ({})", record.site->module_path);
  }
  return text;
}

const core::OpRecord& record_of(const OpDivergence& op) {
  return op.baseline_index ? op.baseline : op.candidate;
}

core::OpRecord head_of(const core::OpRecord& record) {
  core::OpRecord head;
  head.index = record.index;
  head.op = record.op;
  head.site = record.site;
  head.phase = record.phase;
  head.step = record.step;
  head.rank = record.rank;
  return head;
}

}  // namespace repro_check::comparators::detail
