// SPDX-License-Identifier: Apache-2.0
#include "comparators/report/op_text.h"

#include <fmt/format.h>

namespace repro_check::comparators {

const core::OpRecord& shown_record(const OpDivergence& op) noexcept {
  return op.baseline_index ? op.baseline : op.candidate;
}

std::uint64_t shown_index(const OpDivergence& op) noexcept {
  return op.baseline_index ? *op.baseline_index : op.candidate_index.value_or(0);
}

std::string_view module_of(const core::OpRecord& record) noexcept {
  return record.site ? std::string_view(record.site->module_path) : std::string_view();
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace repro_check::comparators

namespace repro_check::comparators::detail {

std::string operator_text(const core::OpRecord& record) {
  return record.op ? record.op->full_name() : std::string("unknown operator");
}

std::string op_text(const core::OpRecord& record) {
  std::string text = fmt::format("op {} {}", record.index, operator_text(record));
  if (!module_of(record).empty()) text += fmt::format(" ({})", module_of(record));
  return text;
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
