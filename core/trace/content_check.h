// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "core/trace/dump_source.h"

namespace repro_check::core {

struct ContentCheck {
  /// 0 = as many as there are processors for this process.
  unsigned threads = 0;
  /// Contents that need not be looked at; none where it is empty.
  std::function<bool(const ContentKey&)> skip;
  /// Told the bytes of each content that is done with, by one thread at a time, in no order.
  std::function<void(std::uint64_t)> progress;
};

/// Reads the contents of a dump and verifies each against its digest. No thread holds more than
/// kDigestChunk bytes of a content that the dump reads in parts.
/// @throws Error{kDumpDamaged} for the first content of the dump that does not match, whatever the
///         number of threads; Error{kIo}
void verify_contents(const DumpSource& dump, const ContentCheck& check = {});

}  // namespace repro_check::core
