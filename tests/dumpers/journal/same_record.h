// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "core/trace/op_record.h"
#include "dumpers/journal/entry.h"

namespace repro_check::test_support {

/// Whether two records hold the same, member by member; doubles by their bits.
bool same_record(const core::OpRecord& left, const core::OpRecord& right);

/// The next completed record of a journal; empty at the end. Other events are passed over.
template <typename Reader>
std::optional<core::OpRecord> next_record(Reader&& reader) {
  while (std::optional<journal::Event> event = reader.next_event()) {
    if (auto* record = std::get_if<core::OpRecord>(&*event)) return std::move(*record);
  }
  return std::nullopt;
}

}  // namespace repro_check::test_support
