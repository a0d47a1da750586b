// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace repro_check::journal {

static_assert(std::endian::native == std::endian::little, "the journal is little-endian");

inline constexpr std::array<char, 8> kMagic{'R', 'C', 'J', 'O', 'U', 'R', 'N', '\n'};
/// Raised by every change to what an entry's bytes mean. Journals are imported and recovered, so
/// every version from kOldestVersion on stays readable.
inline constexpr std::uint32_t kJournalVersion = 3;
inline constexpr std::uint32_t kOldestVersion = 3;

struct FileHeader {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kJournalVersion;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(FileHeader) == 16);

enum class EntryKind : std::uint32_t {
  kString = 1,       ///< id, then the bytes of the text
  kOperator = 2,     ///< id, name, overload, seeded
  kSite = 3,         ///< id, module path, module type, frames
  kEnter = 4,        ///< op index, operator, site, and what places the call among others
  kRecord = 5,       ///< one OpRecord
  kFail = 6,         ///< the bytes of the message
  kContent = 7,      ///< key, place, size, offset, and the bytes where the place is kInline
  kFinished = 8,     ///< the bytes of the manifest
  kBegun = 9,        ///< the bytes of a manifest, as far as it is known
  kTensorForm = 10,  ///< what tensors of many records have in common
  kCallForm = 11,    ///< what many records have in common
  kReference = 12,   ///< index digest of the dump referred to, then the name of its run
  kSlice = 13,       ///< key of a content, elements and stride of what is kept of it, its digest
};

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
inline constexpr std::uint32_t kNoId = 0xffffffff;  ///< no site

/// Dimensions of a tensor that are believed; LibTorch has 64 at most.
inline constexpr std::size_t kMostDims = 1024;

constexpr std::size_t padded(std::size_t size) noexcept {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

/// A record refers to a form by its number plus one; kFormFollows says that the form itself
/// follows, its length and its bytes.
inline constexpr std::uint64_t kFormFollows = 0;
/// No more forms of a kind are kept, so that a trace in which everything changes all the time does
/// not fill the memory of whoever writes or reads it.
inline constexpr std::size_t kMostForms = std::size_t{1} << 16U;
/// A form is kept only up to this size, and up to so many values or dimensions: a short record that
/// names a huge form would let a small hostile file ask for hours of copying.
inline constexpr std::size_t kLargestForm = 512;
inline constexpr std::size_t kMostFormItems = 64;
/// What one call may have: far beyond what any has, and little enough to be asked for.
inline constexpr std::size_t kMostValues = std::size_t{1} << 22U;
inline constexpr std::size_t kMostTensors = std::size_t{1} << 20U;

/// How a value is spelled in a record; the numbers are those of core::Value's alternatives.
enum class ValueTag : std::uint8_t {
  kNone = 0,
  kBool = 1,
  kInt = 2,
  kDouble = 3,
  kComplex = 4,
  kString = 5,
  kSymbol = 6,
  kTensor = 7,
  kOpaque = 8,
  kList = 9,
};

inline constexpr std::uint8_t kFlagRequiresGrad = 1;
inline constexpr std::uint8_t kFlagStored = 2;
inline constexpr std::uint8_t kFlagStats = 4;    ///< statistics follow
inline constexpr std::uint8_t kFlagDigest = 8;   ///< a digest follows; else it is zero
inline constexpr std::uint8_t kFlagSteady = 16;  ///< core::InputWatch::kSteady
inline constexpr std::uint8_t kFlagMoved = 32;   ///< core::InputWatch::kMoved
/// NaN and infinities were counted: three numbers follow, or there are none.
inline constexpr std::uint8_t kFlagCounted = 64;
inline constexpr std::uint8_t kFlagNonFinite = 128;

}  // namespace repro_check::journal
