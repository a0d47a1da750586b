// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <variant>

#include "dumpers/journal/detail/journal_scan.h"
#include "dumpers/journal/journal.h"

namespace repro_check::journal {

class JournalReader::Impl {
 public:
  explicit Impl(const std::filesystem::path& file) : scan_(file) {}

  std::optional<Event> next_event() { return scan_.next(); }

  std::optional<core::OpRecord> next() {
    while (std::optional<Event> event = scan_.next()) {
      if (auto* record = std::get_if<core::OpRecord>(&*event)) return std::move(*record);
    }
    return std::nullopt;
  }

 private:
  JournalScan scan_;
};

JournalReader::JournalReader(const std::filesystem::path& file)
    : impl_(std::make_unique<Impl>(file)) {}

JournalReader::~JournalReader() = default;

std::optional<core::OpRecord> JournalReader::next() { return impl_->next(); }

std::optional<Event> JournalReader::next_event() { return impl_->next_event(); }

}  // namespace repro_check::journal
