// SPDX-License-Identifier: Apache-2.0
#include "core/trace/dump_source.h"

#include <utility>

namespace repro_check::core {

std::unique_ptr<ContentParts> DumpSource::open_content(const ContentKey& key) const {
  std::vector<std::byte> bytes;
  read_content(key, bytes);
  return std::make_unique<MemoryParts>(std::move(bytes));
}

}  // namespace repro_check::core
