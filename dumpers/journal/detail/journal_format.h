// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace repro_check::journal {

static_assert(std::endian::native == std::endian::little, "the journal is little-endian");

inline constexpr std::array<char, 8> kMagic{'R', 'C', 'J', 'O', 'U', 'R', 'N', '\n'};
/// Raised by every change to what an entry's bytes mean. A journal of another version is refused:
/// what recorded it reads it.
inline constexpr std::uint32_t kJournalVersion = 4;

struct FileHeader {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kJournalVersion;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(FileHeader) == 16);

enum class EntryKind : std::uint32_t {
  kOperator = 1,    ///< number, then what an operator consists of
  kSite = 2,        ///< number, then what a site consists of
  kTensorForm = 3,  ///< number, then what tensors of many records have in common
  kCallForm = 4,    ///< number, then what many records have in common
  kEnter = 5,       ///< operator, site, and what places the call among others
  kRecord = 6,      ///< one OpRecord
  kFail = 7,        ///< the bytes of the message
  kContent = 8,     ///< place, key, size, offset, and the bytes where the place is kInline
  kFinished = 9,    ///< the bytes of the manifest
  kBegun = 10,      ///< the bytes of a manifest, as far as it is known
  kReference = 11,  ///< index digest of the dump referred to, the name of its run
  kSlice = 12,      ///< key of a content, elements and stride of what is kept of it, its digest
};
inline constexpr std::size_t kLastDefinition = static_cast<std::size_t>(EntryKind::kCallForm);

/// Before every payload. The checksum covers all that follows it: length, kind and payload. No kind
/// is 0, so the zeros after the last entry are no entry.
struct EntryHeader {
  std::uint64_t checksum = 0;
  std::uint32_t length = 0;  ///< of the payload, in bytes, without the padding behind it
  std::uint32_t kind = 0;
};
static_assert(sizeof(EntryHeader) == 16);

inline constexpr std::size_t kChecksummedFrom = sizeof(std::uint64_t);
inline constexpr std::size_t kAlignment = 8;

/// Dimensions of a tensor that are believed; LibTorch has 64 at most.
inline constexpr std::size_t kMostDims = 1024;

constexpr std::size_t padded(std::size_t size) noexcept {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

/// Operators, sites and forms are referred to by their number plus one. kNothing is no operator and
/// no site; in place of a form it says that the form itself follows, its length and its bytes.
inline constexpr std::uint64_t kNothing = 0;
/// No more forms of a kind are kept, so that a trace in which everything changes all the time does
/// not fill the memory of whoever writes or reads it.
inline constexpr std::size_t kMostForms = std::size_t{1} << 16U;
/// A form is kept only up to this size: a short record that names a huge form would let a small
/// hostile file ask for hours of copying.
inline constexpr std::size_t kLargestForm = 512;
/// What one call may have: far beyond what any has, and little enough to be asked for.
inline constexpr std::size_t kMostValues = std::size_t{1} << 22U;
inline constexpr std::size_t kMostTensors = std::size_t{1} << 20U;

}  // namespace repro_check::journal
