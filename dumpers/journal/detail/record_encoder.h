// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/op_record.h"
#include "dumpers/journal/detail/entry_buffer.h"
#include "dumpers/journal/detail/interner.h"

namespace repro_check::journal {

/// Spells `record` as the payload of an entry of kind kRecord; texts and objects that are new are
/// defined in the log on the way.
void encode(const core::OpRecord& record, Interner& interner, EntryBuffer& into);

}  // namespace repro_check::journal
