// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/recorded_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/system/file_descriptor.h"
#include "core/tensor/tensor_view.h"
#include "core/text/printable.h"
#include "dumpers/journal/entry.h"

namespace repro_check::journal {
namespace {

constexpr std::uint64_t kMissing = 0;  // the header is there, no entry

/// `aten::conv2d (backbone.conv1, model.py:40)`, without what is not known.
std::string describe(const core::OpHead& call) {
  constexpr std::size_t kLongest = 200;  // names come from outside: one line is for reading
  std::string text =
      core::printable(call.op ? call.op->full_name() : "an unknown operator", kLongest);
  if (!call.site) return text;
  std::string place = core::printable(call.site->module_path, kLongest);
  if (const core::SourceFrame* frame = core::display_frame(*call.site)) {
    if (!place.empty()) place += ", ";
    place += fmt::format(
        "{}:{}",
        core::printable(std::filesystem::path(frame->file).filename().string(), kLongest),
        frame->line);
  }
  return place.empty() ? text : fmt::format("{} ({})", text, place);
}

}  // namespace

void SummaryBuilder::add(const Event& event) {
  if (const auto* entered = std::get_if<core::OpHead>(&event)) {
    open.insert_or_assign(entered->index, *entered);
  } else if (const auto* failure = std::get_if<Failure>(&event)) {
    summary.failure = failure->message;
  } else if (const auto* record = std::get_if<core::OpRecord>(&event)) {
    ++summary.completed;
    summary.last = record->index;
    last = *record;
    open.erase(record->index);
  }
}

JournalSummary SummaryBuilder::finish() const {
  JournalSummary whole = summary;
  if (whole.last) whole.last_operator = describe(last);
  if (!open.empty()) {
    // Indices follow the order of entry: the highest is the innermost call.
    whole.entered = open.rbegin()->first;
    whole.entered_operator = describe(open.rbegin()->second);
  }
  return whole;
}

JournalSummary summarise(const std::filesystem::path& file) {
  JournalReader reader(file);
  SummaryBuilder summary;
  while (const std::optional<Event> event = reader.next_event()) summary.add(*event);
  return summary.finish();
}

bool is_being_written(const std::filesystem::path& file) noexcept {
  const core::FileDescriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return opened.get() >= 0 && ::flock(opened.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

RecordedJournal::RecordedJournal(const std::filesystem::path& file)
    : path_(file.string()), reader_(file) {
  while (const std::optional<Event> event = reader_.next_event()) {
    std::visit([this](const auto& kind) { add(kind); }, *event);
    builder_.add(*event);
  }
  summary = builder_.finish();
  for (std::uint64_t index = 0; index < offsets_.size(); ++index) {
    if (offsets_[index] != kMissing) continue;
    if (!builder_.open.contains(index)) damaged(fmt::format("op {} is missing", index));
    unfinished.push_back(index);
  }
  if (std::cmp_greater_equal(last_producer_, offsets_.size())) {
    damaged("a tensor was produced by an operator that is not there");
  }
}

void RecordedJournal::damaged(const std::string& what) const {
  throw core::Error(core::ErrorKind::kDumpDamaged,
                    fmt::format("{}: {}", path_, what),
                    "no recorder has written this; record the run again");
}

/// Every operator is entered before it is recorded, in the order of the indices: an index that
/// runs ahead would have us ask for memory without end.
void RecordedJournal::check(const core::OpHead& call) const {
  if (call.index >= entered_) damaged(fmt::format("op {} was never entered", call.index));
  if (!call.op) damaged(fmt::format("op {} names no operator", call.index));
  if (call.parent < -1 || std::cmp_greater_equal(call.parent, call.index)) {
    damaged(fmt::format("op {} has the impossible parent {}", call.index, call.parent));
  }
}

void RecordedJournal::check(const core::TensorRecord& tensor) {
  if (tensor.producer < core::kNoProducer || tensor.shape.size() > kMostDims ||
      tensor.strides.size() > kMostDims) {
    damaged("a tensor has an impossible shape or producer");
  }
  core::element_count(tensor.shape);
  last_producer_ = std::max(last_producer_, tensor.producer);
}

void RecordedJournal::add(const core::OpRecord& record) {
  check(static_cast<const core::OpHead&>(record));
  if (record.index >= offsets_.size()) offsets_.resize(record.index + 1, kMissing);
  if (std::exchange(offsets_[record.index], reader_.begin()) != kMissing) {
    damaged(fmt::format("op {} is there twice", record.index));
  }
  for (const core::TensorRecord& tensor : record.tensors) check(tensor);
  totals.tensors += record.tensors.size();
  totals.substitutions += record.substitutions.size();
  totals.drawing_operators += record.generator ? 1U : 0U;
  totals.returned += core::is_returned(record) ? 1U : 0U;
  totals.deepest = std::max(totals.deepest, record.depth);
}

void RecordedJournal::add(const core::OpHead& call) {
  ++entered_;
  check(call);
}

void RecordedJournal::add(const StoredContent& content) {
  const bool is_inline = content.place == ContentPlace::kInline;
  if (content.place == ContentPlace::kReference && !reference) {
    damaged("a content lies in another dump, and none was named");
  }
  const std::uint64_t offset = is_inline ? reader_.end() - content.size : content.offset;
  contents.try_emplace(content.key, ContentSpot{content.place, offset, content.size});
}

void RecordedJournal::add(const Referred& dump) {
  if (reference && *reference != dump) damaged("it refers to two dumps");
  reference = dump;
}

core::OpRecord RecordedJournal::record(std::uint64_t index) const {
  if (offsets_.at(index) != kMissing) return reader_.record_at(offsets_[index]);
  return {builder_.open.at(index)};
}

}  // namespace repro_check::journal
