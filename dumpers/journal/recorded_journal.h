// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
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
struct SummaryBuilder {
  std::map<std::uint64_t, core::OpHead> open;  ///< entered and not yet left, by op index
  JournalSummary summary;                      ///< but for what finish() adds
  core::OpHead last;                           ///< of the last whole record

  void add(const Event& event);
  [[nodiscard]] JournalSummary finish() const;
};

/// A journal gone through once, whose records can then be read in any order. Holds some bytes an
/// operator and each content's place; the records stay in the file.
class RecordedJournal {
 public:
  /// @throws as JournalReader; core::Error{kDumpDamaged} also when the records make no trace
  explicit RecordedJournal(const std::filesystem::path& file);

  /// One more than the highest index of a whole record.
  [[nodiscard]] std::uint64_t op_count() const noexcept { return offsets_.size(); }
  /// @param index  below op_count(); of one that is unfinished only its head
  [[nodiscard]] core::OpRecord record(std::uint64_t index) const;

  std::vector<std::uint64_t> unfinished;  ///< below op_count(), entered and never left; ascending
  std::map<core::ContentKey, ContentSpot> contents;
  std::map<core::ContentKey, core::ContentSlice> slices;  ///< contents that were not kept whole
  std::optional<Referred> reference;  ///< the dump that contents of the place kReference are in
  JournalTotals totals;
  JournalSummary summary;
  std::optional<std::string> begun;     ///< manifest as far as it was known in the beginning
  std::optional<std::string> finished;  ///< of the whole recording

 private:
  void add(const core::OpRecord& record);
  void add(const StoredContent& content);
  void add(const Referred& dump);
  void add(const core::OpHead& call);
  void add(const SlicedContent& sliced) { slices.try_emplace(sliced.key, sliced.slice); }
  void add(const Begun& first) { begun = first.manifest; }
  void add(const Finished& last) { finished = last.manifest; }
  void add(const Failure& /*failure*/) {}
  void check(const core::OpHead& call) const;
  void check(const core::TensorRecord& tensor);
  [[noreturn]] void damaged(const std::string& what) const;

  std::string path_;
  mutable JournalReader reader_;
  SummaryBuilder builder_;
  std::vector<std::uint64_t> offsets_;  ///< of the records, by op index
  std::uint64_t entered_ = 0;
  std::int64_t last_producer_ = core::kNoProducer;
};

}  // namespace repro_check::journal
