// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/tensor/tensor_record.h"
#include "dumpers/journal/detail/entry_buffer.h"
#include "dumpers/journal/journal_event.h"

namespace repro_check::journal {

/// Spell the payload of an entry of kind kContent.
/// @throws core::Error{kInternal} when `bytes` are not what the key says, or too many
void encode_inline(const core::ContentKey& key,
                   std::span<const std::byte> bytes,
                   EntryBuffer& into);
void encode_elsewhere(const core::ContentKey& key,
                      ContentPlace place,
                      std::uint64_t offset,
                      EntryBuffer& into);

/// @throws core::Error{kDumpDamaged}, saying what the entry does wrong
StoredContent decode_content(std::span<const std::byte> payload);

void encode_sliced(const SlicedContent& content, EntryBuffer& into);
SlicedContent decode_sliced(std::span<const std::byte> payload);

}  // namespace repro_check::journal
