// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/recorded_journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/tensor/tensor_view.h"
#include "dumpers/journal/detail/journal_format.h"
#include "dumpers/journal/detail/journal_scan.h"
#include "dumpers/journal/detail/summary_builder.h"

namespace repro_check::journal {
namespace {

constexpr std::uint64_t kMissing = 0;  // the header is there, no entry

core::OpRecord unfinished_record(const EnteredOp& entered) {
  core::OpRecord record;
  record.index = entered.index;
  record.op = entered.op;
  record.site = entered.site;
  record.parent = entered.parent;
  record.phase = entered.phase;
  record.depth = entered.depth;
  record.step = entered.step;
  record.rank = entered.rank;
  record.lane = entered.lane;
  return record;
}

}  // namespace

class RecordedJournal::Impl {
 public:
  explicit Impl(const std::filesystem::path& file) : path_(file.string()), scan_(file) {
    while (const std::optional<Event> event = scan_.next()) {
      std::visit(*this, *event);
      std::visit(builder_, *event);
    }
    close();
  }

  void operator()(const core::OpRecord& record) {
    check(record.index, record.op.get(), record.parent);
    if (record.index >= offsets_.size()) offsets_.resize(record.index + 1, kMissing);
    if (std::exchange(offsets_[record.index], scan_.begin()) != kMissing) {
      damaged(fmt::format("op {} is there twice", record.index));
    }
    for (const core::TensorRecord& tensor : record.tensors) check(tensor);
    totals.tensors += record.tensors.size();
    totals.substitutions += record.substitutions.size();
    totals.drawing_operators += record.generator ? 1U : 0U;
    totals.returned += core::is_returned(record) ? 1U : 0U;
    totals.deepest = std::max(totals.deepest, record.depth);
  }

  void operator()(const EnteredOp& entered) {
    ++entered_;
    check(entered.index, entered.op.get(), entered.parent);
  }

  void operator()(const StoredContent& content) {
    const bool is_inline = content.place == ContentPlace::kInline;
    if (content.place == ContentPlace::kReference && !reference) {
      damaged("a content lies in another dump, and none was named");
    }
    const std::uint64_t offset = is_inline ? scan_.end() - content.size : content.offset;
    contents.try_emplace(content.key, ContentSpot{content.place, offset, content.size});
  }

  void operator()(const Begun& event) { begun = event.manifest; }
  void operator()(const Finished& event) { finished = event.manifest; }
  void operator()(const Failure& /*failure*/) {}
  void operator()(const SlicedContent& event) { slices.try_emplace(event.key, event.slice); }
  void operator()(const Referred& event) {
    if (reference && *reference != event) damaged("it refers to two dumps");
    reference = event;
  }

  [[nodiscard]] std::uint64_t op_count() const noexcept { return offsets_.size(); }

  [[nodiscard]] core::OpRecord record(std::uint64_t index) {
    if (offsets_.at(index) != kMissing) return scan_.record_at(offsets_[index]);
    return unfinished_record(builder_.open().at(index));
  }

  std::vector<std::uint64_t> unfinished;
  std::map<core::ContentKey, ContentSpot> contents;
  std::map<core::ContentKey, core::ContentSlice> slices;
  std::optional<Referred> reference;
  JournalTotals totals;
  JournalSummary summary;
  std::optional<std::string> begun;
  std::optional<std::string> finished;

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw core::Error(core::ErrorKind::kDumpDamaged,
                      fmt::format("{}: {}", path_, what),
                      "no recorder has written this; record the run again");
  }

  /// Every operator is entered before it is recorded, in the order of the indices: an index that
  /// runs ahead would have us ask for memory without end.
  void check(std::uint64_t index, const core::OperatorInfo* op, std::int64_t parent) const {
    if (index >= entered_) damaged(fmt::format("op {} was never entered", index));
    if (op == nullptr) damaged(fmt::format("op {} names no operator", index));
    if (parent < -1 || std::cmp_greater_equal(parent, index)) {
      damaged(fmt::format("op {} has the impossible parent {}", index, parent));
    }
  }

  void check(const core::TensorRecord& tensor) {
    if (tensor.producer < core::kNoProducer || tensor.shape.size() > kMostDims ||
        tensor.strides.size() > kMostDims) {
      damaged("a tensor has an impossible shape or producer");
    }
    core::element_count(tensor.shape);
    last_producer_ = std::max(last_producer_, tensor.producer);
  }

  void close() {
    summary = builder_.finish();
    for (std::uint64_t index = 0; index < offsets_.size(); ++index) {
      if (offsets_[index] != kMissing) continue;
      if (!builder_.open().contains(index)) damaged(fmt::format("op {} is missing", index));
      unfinished.push_back(index);
    }
    if (std::cmp_greater_equal(last_producer_, offsets_.size())) {
      damaged("a tensor was produced by an operator that is not there");
    }
  }

  std::string path_;
  JournalScan scan_;
  SummaryBuilder builder_;
  std::vector<std::uint64_t> offsets_;  ///< of the records, by op index
  std::uint64_t entered_ = 0;
  std::int64_t last_producer_ = core::kNoProducer;
};

RecordedJournal::RecordedJournal(const std::filesystem::path& file)
    : impl_(std::make_unique<Impl>(file)) {}

RecordedJournal::~RecordedJournal() = default;

std::uint64_t RecordedJournal::op_count() const noexcept { return impl_->op_count(); }
const std::vector<std::uint64_t>& RecordedJournal::unfinished() const noexcept {
  return impl_->unfinished;
}
core::OpRecord RecordedJournal::record(std::uint64_t index) const { return impl_->record(index); }
const std::map<core::ContentKey, ContentSpot>& RecordedJournal::contents() const noexcept {
  return impl_->contents;
}
const std::map<core::ContentKey, core::ContentSlice>& RecordedJournal::slices() const noexcept {
  return impl_->slices;
}
const std::optional<Referred>& RecordedJournal::reference() const noexcept {
  return impl_->reference;
}
const JournalTotals& RecordedJournal::totals() const noexcept { return impl_->totals; }
const JournalSummary& RecordedJournal::summary() const noexcept { return impl_->summary; }
const std::optional<std::string>& RecordedJournal::begun() const noexcept { return impl_->begun; }
const std::optional<std::string>& RecordedJournal::finished() const noexcept {
  return impl_->finished;
}

}  // namespace repro_check::journal
