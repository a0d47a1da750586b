// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/summary_builder.h"

#include <fmt/format.h>

#include <string>

#include "core/text/printable.h"

namespace repro_check::journal {
namespace {

/// `aten::conv2d (backbone.conv1, model.py:40)`, without what is not known.
std::string describe(const core::OperatorInfo* op, const core::CallSite* site) {
  constexpr std::size_t kLongest = 200;  // names come from outside: one line is for reading
  std::string text =
      core::printable(op != nullptr ? op->full_name() : "an unknown operator", kLongest);
  if (site == nullptr) return text;
  std::string place = core::printable(site->module_path, kLongest);
  if (const core::SourceFrame* frame = core::display_frame(*site)) {
    if (!place.empty()) place += ", ";
    place += fmt::format(
        "{}:{}",
        core::printable(std::filesystem::path(frame->file).filename().string(), kLongest),
        frame->line);
  }
  return place.empty() ? text : fmt::format("{} ({})", text, place);
}

}  // namespace

void SummaryBuilder::operator()(const core::OpRecord& record) {
  ++summary_.completed;
  summary_.last = record.index;
  last_op_ = record.op;
  last_site_ = record.site;
  open_.erase(record.index);
}

JournalSummary SummaryBuilder::finish() const {
  JournalSummary summary = summary_;
  if (summary.last) summary.last_operator = describe(last_op_.get(), last_site_.get());
  if (!open_.empty()) {
    // Indices follow the order of entry: the highest is the innermost call.
    const EnteredOp& innermost = open_.rbegin()->second;
    summary.entered = innermost.index;
    summary.entered_operator = describe(innermost.op.get(), innermost.site.get());
  }
  return summary;
}

}  // namespace repro_check::journal
