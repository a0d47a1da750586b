// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "dumpers/journal/journal.h"
#include "dumpers/journal/journal_event.h"

namespace repro_check::journal {

/// Takes the events of a journal, one by one, and says what they come to.
class SummaryBuilder {
 public:
  void operator()(const core::OpRecord& record);
  void operator()(const EnteredOp& entered) { open_.insert_or_assign(entered.index, entered); }
  void operator()(const Failure& failure) { summary_.failure = failure.message; }
  void operator()(const StoredContent& /*content*/) {}
  void operator()(const Begun& /*begun*/) {}
  void operator()(const Finished& /*finished*/) {}
  void operator()(const Referred& /*dump*/) {}
  void operator()(const SlicedContent& /*content*/) {}

  /// Entered and not yet left, by op index.
  [[nodiscard]] const std::map<std::uint64_t, EnteredOp>& open() const noexcept { return open_; }

  [[nodiscard]] JournalSummary finish() const;

 private:
  JournalSummary summary_;
  std::shared_ptr<const core::OperatorInfo> last_op_;
  std::shared_ptr<const core::CallSite> last_site_;
  std::map<std::uint64_t, EnteredOp> open_;
};

}  // namespace repro_check::journal
