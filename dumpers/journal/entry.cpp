// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/entry.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace repro_check::journal {

std::uint64_t entry_checksum(std::span<const std::byte> covered) noexcept {
  return XXH3_64bits(covered.data(), covered.size());
}

void EntryBuffer::enlarge(std::size_t length) { bytes_.resize(2 * (size_ + length)); }

std::span<const std::byte> EntryBuffer::finish() {
  const std::size_t whole = padded(size_);
  std::memset(reserve(kAlignment), 0, kAlignment);  // a constant size: no call
  EntryHeader header;
  header.length = static_cast<std::uint32_t>(size_ - sizeof(EntryHeader));
  header.kind = static_cast<std::uint32_t>(kind_);
  std::memcpy(bytes_.data(), &header, sizeof(header));
  header.checksum = entry_checksum(
      std::span<const std::byte>(bytes_).subspan(kChecksummedFrom, size_ - kChecksummedFrom));
  std::memcpy(bytes_.data(), &header.checksum, sizeof(header.checksum));
  return std::span<const std::byte>(bytes_).first(whole);
}

}  // namespace repro_check::journal
