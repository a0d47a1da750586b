// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/tensor/content.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/block_row.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"
#include "dumpers/journal/rows.h"

namespace repro_check::journal {

/// The files of a recording, in its directory.
inline constexpr const char* kJournalName = "journal.bin";
inline constexpr const char* kContentsName = "contents.bin";

/// Contents up to this size belong into the journal; it takes none above kLargestInline.
inline constexpr std::size_t kSmallContent = std::size_t{32} << 10U;
inline constexpr std::size_t kLargestInline = std::size_t{16} << 20U;

struct Failure {
  std::string message;
};

/// Where the bytes of a content are. The files stand in the directory of the journal; an entry
/// names a file of this list only, never a path.
enum class ContentPlace : std::uint8_t {
  kInline = 0,     ///< in the entry
  kTrace = 1,      ///< in trace.h5
  kContents = 2,   ///< in contents.bin
  kReference = 3,  ///< in none of ours: in the dump that a core::TraceReference names
};

/// A content that the recording keeps. That its bytes have arrived where they are said to be is
/// not promised: who reads them holds them against key.digest.
struct StoredContent {
  core::ContentKey key;
  ContentPlace place = ContentPlace::kInline;
  std::uint64_t offset = 0;          ///< in that file; 0 inline and in a reference
  std::uint64_t size = 0;            ///< what dtype and shape of the key make
  std::span<const std::byte> bytes;  ///< inline: borrowed until the next entry is read
  ContentRow row = {};               ///< of one that was read, without `packed`
};

/// A content of which only a slice is kept: as the content core::slice_key() of the two.
struct SlicedContent {
  core::ContentKey key;
  core::ContentSlice slice;
  SliceRow row = {};  ///< of one that was read
};

/// A call of a block, or a parameter that was read.
struct Block {
  core::BlockRow block;
  BlockLine row = {};
};
struct Parameter {
  core::ParameterRow parameter;
  ParameterLine row = {};
};

/// What was known of the run before its first operator.
struct Begun {
  std::string manifest;  ///< text of the manifest
};

/// The recording has come to its end.
struct Finished {
  std::string manifest;
};

/// What happened in a recording, in order: a head is an operator entered, a reference the dump that
/// it refers to instead of keeping contents itself, without a word of how many.
using Event = std::variant<core::OpRecord,
                           core::OpHead,
                           Failure,
                           StoredContent,
                           Begun,
                           Finished,
                           core::TraceReference,
                           SlicedContent,
                           Block,
                           Parameter>;

static_assert(std::endian::native == std::endian::little, "the journal is little-endian");

inline constexpr std::array<char, 8> kMagic{'R', 'C', 'J', 'O', 'U', 'R', 'N', '\n'};
/// Raised by every change to what an entry's bytes mean. A journal of another version is refused:
/// what recorded it reads it.
inline constexpr std::uint32_t kJournalVersion = 7;

struct FileHeader {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kJournalVersion;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(FileHeader) == 16);

/// What is numbered has its numbers in order, from 0; of texts, 0 is the empty one.
enum class EntryKind : std::uint32_t {
  kText = 1,        ///< bytes of the next text
  kSizes = 2,       ///< sizes or strides, behind those before
  kOperator = 3,    ///< OperatorRow
  kSite = 4,        ///< SiteRow, and its rows of frames
  kForm = 5,        ///< the words of a call
  kEnter = 6,       ///< words of a call that has nothing but its OpRow
  kRecord = 7,      ///< words of a call
  kFail = 8,        ///< the bytes of the message
  kContent = 9,     ///< ContentEntry, and the bytes where the place is kInline
  kFinished = 10,   ///< the bytes of the manifest
  kBegun = 11,      ///< the bytes of a manifest, as far as it is known
  kReference = 12,  ///< index digest of the dump referred to, the bytes of its run's name
  kSlice = 13,      ///< SliceRow
  kRoots = 14,      ///< core::RootNames of all texts, each name with a null behind it
  kBlock = 15,      ///< BlockLine
  kParameter = 16,  ///< ParameterLine
};

/// Before every payload. The checksum covers all that follows it: length, kind and payload. No kind
/// is 0, so the zeros after the last entry are no entry.
struct EntryHeader {
  std::uint64_t checksum = 0;
  std::uint32_t length = 0;  ///< of the payload, in bytes, without the padding behind it
  std::uint32_t kind = 0;
};
static_assert(sizeof(EntryHeader) == 16);

/// What the words of a call begin with; behind it come its OpRow, values, tensors, statistics,
/// counts, substitutions and generator, as many as these and the OpRow say.
struct CallHead {
  std::uint64_t index = 0;
  std::uint32_t stats = 0;
  std::uint32_t non_finite = 0;
};

struct ContentEntry {
  ContentRow row;  ///< without `packed`
  std::uint64_t offset = 0;
  std::uint64_t place = 0;  ///< a ContentPlace
};

inline constexpr std::size_t kChecksummedFrom = sizeof(std::uint64_t);
inline constexpr std::size_t kAlignment = 8;

constexpr std::size_t padded(std::size_t size) noexcept {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

// The words of a call are mostly those of an earlier one: an entry holds the number of a form plus
// one, a bit for each of its words, set where the call has another, and those. For kNoForm the
// words follow as they are.

inline constexpr std::uint64_t kNoForm = 0;
using Word = std::uint32_t;
/// No more forms are kept, and none of more words, so that neither a trace in which everything
/// changes all the time nor a small hostile file fills the memory, or the day, of whoever reads it.
inline constexpr std::size_t kMostForms = std::size_t{1} << 14U;
inline constexpr std::size_t kLargestForm = 512;

inline constexpr std::size_t kMaskBits = 32;
constexpr std::size_t mask_words(std::size_t words) noexcept {
  return (words + kMaskBits - 1) / kMaskBits;
}

/// What one call may have: far beyond what any has, and little enough to be asked for.
inline constexpr std::size_t kMostValues = std::size_t{1} << 22U;
inline constexpr std::size_t kMostTensors = std::size_t{1} << 20U;

/// The bytes of something that is its own spelling.
template <typename Row>
requires std::is_trivially_copyable_v<Row> std::span<const std::byte> bytes_of(const Row& row) {
  return std::as_bytes(std::span(&row, 1));
}

/// One entry being put together, header included. Kept between entries, so that its memory is
/// asked for once.
class EntryBuffer {
 public:
  void begin(EntryKind kind) noexcept {
    kind_ = kind;
    size_ = sizeof(EntryHeader);
  }
  void put_bytes(std::span<const std::byte> bytes) {
    std::byte* to = room(bytes.size());
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    took(bytes.size());
  }
  void put_bytes(std::string_view text) { put_bytes(std::as_bytes(std::span(text))); }
  /// Where the next bytes go; took() says how many of them came.
  std::byte* room(std::size_t most) {
    if (size_ + most > bytes_.size()) [[unlikely]] {
      bytes_.resize(2 * (size_ + most));
    }
    return bytes_.data() + size_;
  }
  void took(std::size_t bytes) noexcept { size_ += bytes; }

  /// The entry as it goes into the file, padding included; valid until the next begin() or room().
  std::span<const std::byte> finish();

 private:
  EntryKind kind_ = EntryKind::kFail;
  std::size_t size_ = sizeof(EntryHeader);
  std::vector<std::byte> bytes_ = std::vector<std::byte>(1024);
};

/// Checksum of what stands behind EntryHeader::checksum.
std::uint64_t entry_checksum(std::span<const std::byte> covered) noexcept;

}  // namespace repro_check::journal
