// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"
#include "dumpers/journal/journal.h"

namespace repro_check::journal {

/// Where the bytes of a content are.
struct ContentSpot {
  ContentPlace place = ContentPlace::kInline;
  std::uint64_t offset = 0;  ///< inline: in the journal itself
  std::uint64_t size = 0;
};

/// What the whole records of a journal come to, in numbers.
struct JournalTotals {
  std::uint64_t tensors = 0;
  std::uint64_t substitutions = 0;
  std::uint64_t drawing_operators = 0;
  std::uint64_t returned = 0;
  std::uint32_t deepest = 0;  ///< largest depth
};

/// Takes the events of a journal, one by one, and says what they come to.
class SummaryBuilder {
 public:
  void add(const Event& event);

  /// Entered and not yet left, by op index.
  [[nodiscard]] const std::map<std::uint64_t, EnteredOp>& open() const noexcept { return open_; }

  [[nodiscard]] JournalSummary finish() const;

 private:
  JournalSummary summary_;
  std::shared_ptr<const core::OperatorInfo> last_op_;
  std::shared_ptr<const core::CallSite> last_site_;
  std::map<std::uint64_t, EnteredOp> open_;
};

/// A journal gone through once, whose records can then be read in any order. Holds some bytes an
/// operator and each content's place; the records stay in the file.
class RecordedJournal {
 public:
  /// @throws as JournalReader; core::Error{kDumpDamaged} also when the records make no trace
  explicit RecordedJournal(const std::filesystem::path& file);

  /// One more than the highest index of a whole record.
  [[nodiscard]] std::uint64_t op_count() const noexcept { return offsets_.size(); }
  /// Operators below op_count() that were entered and never left, ascending.
  [[nodiscard]] const std::vector<std::uint64_t>& unfinished() const noexcept {
    return unfinished_;
  }
  /// @param index  below op_count(); of one that is unfinished only what was known when it was
  ///               entered: operator, place and position
  [[nodiscard]] core::OpRecord record(std::uint64_t index) const;

  [[nodiscard]] const std::map<core::ContentKey, ContentSpot>& contents() const noexcept {
    return contents_;
  }
  /// Of which contents only a slice was kept.
  [[nodiscard]] const std::map<core::ContentKey, core::ContentSlice>& slices() const noexcept {
    return slices_;
  }
  /// The dump that contents of the place kReference are in.
  [[nodiscard]] const std::optional<Referred>& reference() const noexcept { return reference_; }
  [[nodiscard]] const JournalTotals& totals() const noexcept { return totals_; }
  [[nodiscard]] const JournalSummary& summary() const noexcept { return summary_; }
  /// Manifest as far as it was known in the beginning, and of the whole recording.
  [[nodiscard]] const std::optional<std::string>& begun() const noexcept { return begun_; }
  [[nodiscard]] const std::optional<std::string>& finished() const noexcept { return finished_; }

 private:
  void add(const core::OpRecord& record);
  void add(const StoredContent& content);
  void add(const Referred& dump);
  void add(const EnteredOp& entered);
  void add(const SlicedContent& sliced) { slices_.try_emplace(sliced.key, sliced.slice); }
  void add(const Begun& begun) { begun_ = begun.manifest; }
  void add(const Finished& finished) { finished_ = finished.manifest; }
  void add(const Failure& /*failure*/) {}
  void check(std::uint64_t index, const core::OperatorInfo* op, std::int64_t parent) const;
  void check(const core::TensorRecord& tensor);
  [[noreturn]] void damaged(const std::string& what) const;

  std::string path_;
  mutable JournalReader reader_;
  SummaryBuilder builder_;
  std::vector<std::uint64_t> offsets_;  ///< of the records, by op index
  std::uint64_t entered_ = 0;
  std::int64_t last_producer_ = core::kNoProducer;
  std::vector<std::uint64_t> unfinished_;
  std::map<core::ContentKey, ContentSpot> contents_;
  std::map<core::ContentKey, core::ContentSlice> slices_;
  std::optional<Referred> reference_;
  JournalTotals totals_;
  JournalSummary summary_;
  std::optional<std::string> begun_;
  std::optional<std::string> finished_;
};

}  // namespace repro_check::journal
