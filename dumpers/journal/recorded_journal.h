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

/// A journal gone through once, whose records can then be read in any order. Holds some bytes an
/// operator and each content's place; the records stay in the file.
class RecordedJournal {
 public:
  /// @throws as JournalReader; core::Error{kDumpDamaged} also when the records make no trace
  explicit RecordedJournal(const std::filesystem::path& file);
  RecordedJournal(const RecordedJournal&) = delete;
  RecordedJournal& operator=(const RecordedJournal&) = delete;
  RecordedJournal(RecordedJournal&&) = delete;
  RecordedJournal& operator=(RecordedJournal&&) = delete;
  ~RecordedJournal();

  /// One more than the highest index of a whole record.
  [[nodiscard]] std::uint64_t op_count() const noexcept;
  /// Operators below op_count() that were entered and never left, ascending.
  [[nodiscard]] const std::vector<std::uint64_t>& unfinished() const noexcept;
  /// @param index  below op_count(); of one that is unfinished only what was known when it was
  ///               entered: operator, place and position
  [[nodiscard]] core::OpRecord record(std::uint64_t index) const;

  [[nodiscard]] const std::map<core::ContentKey, ContentSpot>& contents() const noexcept;
  /// Of which contents only a slice was kept.
  [[nodiscard]] const std::map<core::ContentKey, core::ContentSlice>& slices() const noexcept;
  /// The dump that contents of the place kReference are in.
  [[nodiscard]] const std::optional<Referred>& reference() const noexcept;
  [[nodiscard]] const JournalTotals& totals() const noexcept;
  [[nodiscard]] const JournalSummary& summary() const noexcept;
  /// Manifest as far as it was known in the beginning, and of the whole recording.
  [[nodiscard]] const std::optional<std::string>& begun() const noexcept;
  [[nodiscard]] const std::optional<std::string>& finished() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace repro_check::journal
