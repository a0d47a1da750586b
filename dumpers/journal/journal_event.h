// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "core/content/content.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"

namespace repro_check::journal {

/// The files of a recording, in its directory.
inline constexpr const char* kJournalName = "journal.bin";
inline constexpr const char* kContentsName = "contents.bin";

/// Contents up to this size belong into the journal; it takes none above kLargestInline.
inline constexpr std::size_t kSmallContent = std::size_t{32} << 10U;
inline constexpr std::size_t kLargestInline = std::size_t{16} << 20U;

/// Lists in lists in an argument are kept this deep; a deeper one becomes core::Opaque.
inline constexpr int kMaxListDepth = 64;

struct Failure {
  std::string message;
};

/// Where the bytes of a content are. The files stand in the directory of the journal; an entry
/// names a file of this list only, never a path.
enum class ContentPlace : std::uint8_t {
  kInline = 0,     ///< in the entry
  kTrace = 1,      ///< in trace.h5
  kContents = 2,   ///< in contents.bin
  kReference = 3,  ///< in none of ours: in the dump that Referred names
};

/// The recording refers to contents of this dump instead of keeping them itself.
struct Referred {
  core::Digest index_digest;
  std::string run_name;
  bool operator==(const Referred&) const = default;
};

/// A content that the recording keeps. That its bytes have arrived where they are said to be is
/// not promised: who reads them holds them against key.digest.
struct StoredContent {
  core::ContentKey key;
  ContentPlace place = ContentPlace::kInline;
  std::uint64_t offset = 0;          ///< in that file; 0 inline and in a reference
  std::uint64_t size = 0;            ///< what dtype and shape of the key make
  std::span<const std::byte> bytes;  ///< inline: borrowed until the next entry is read
};

/// A content of which only a slice is kept: as the content core::slice_key() of the two.
struct SlicedContent {
  core::ContentKey key;
  core::ContentSlice slice;
};

/// What was known of the run before its first operator.
struct Begun {
  std::string manifest;  ///< text of the manifest
};

/// The recording has come to its end.
struct Finished {
  std::string manifest;
};

/// What happened in a recording, in order: a head is an operator entered.
using Event = std::variant<core::OpRecord,
                           core::OpHead,
                           Failure,
                           StoredContent,
                           Begun,
                           Finished,
                           Referred,
                           SlicedContent>;

}  // namespace repro_check::journal
