// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "core/content/content.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"
#include "dumpers/journal/journal.h"
#include "dumpers/store/contents/staging_queue.h"
#include "dumpers/store/file/trace_creation.h"

namespace repro_check::store {

/// How many elements of a content `rule` has stored; empty where it is to be stored whole.
/// @param bytes  of the content
std::optional<std::uint64_t> sliced_length(const core::SliceRule& rule,
                                           const core::ContentKey& key,
                                           std::uint64_t bytes);

/// The elements of a slice, one behind the other.
/// @param length  as of sliced_length()
std::vector<std::byte> slice_bytes(const core::ContentBytes& bytes,
                                   std::size_t element_size,
                                   std::uint64_t length,
                                   std::uint64_t stride);

/// Which contents are left out because of DumpWriterOptions::max_bytes, and where that shows.
class ByteLimit {
 public:
  explicit ByteLimit(std::optional<std::uint64_t> most) noexcept : most_(most) {}

  /// Whether `more` bytes may be stored beside `stored`; an answer of no is remembered.
  bool admits(std::uint64_t stored, std::uint64_t more) noexcept {
    if (!most_ || (stored <= *most_ && more <= *most_ - stored)) return true;
    refused_ = true;
    return false;
  }

  /// Told of every record that is appended.
  void note(const core::OpRecord& record) {
    if (!refused_ || (reached_at_ && *reached_at_ < record.index)) return;
    const bool lacks = std::ranges::any_of(record.tensors, [](const core::TensorRecord& tensor) {
      return tensor.state == core::ContentState::kHashed && !tensor.stored;
    });
    if (lacks) reached_at_ = record.index;
  }

  /// The lowest op index of a record that lacks bytes.
  [[nodiscard]] std::optional<std::uint64_t> reached_at() const noexcept { return reached_at_; }

 private:
  std::optional<std::uint64_t> most_;
  bool refused_ = false;
  std::optional<std::uint64_t> reached_at_;
};

struct ContentKeyHash {
  std::size_t operator()(const core::ContentKey& key) const noexcept {
    return static_cast<std::size_t>(key.digest.low ^ static_cast<std::uint64_t>(key.dtype));
  }
};

// Where a content is, as ContentRow::packed says it, when not in `/packed`.
inline constexpr std::int64_t kOwnDataset = -1;
inline constexpr std::int64_t kInReference = -2;  ///< in the dump that this one refers to

/// What is stored of contents that are not stored whole.
using Slices = std::map<core::ContentKey, core::ContentSlice>;

/// A content of a recording.
struct KeptContent {
  const core::ContentKey* key;
  /// kOwnDataset, kInReference or, for one in the journal, how many bytes of such are before it.
  std::int64_t journal_offset;
};

/// Keeps contents, each key once. A big one gets its dataset at once, and a thread of its own
/// writes the bytes there. A small one goes into the journal, because making a dataset costs more
/// than the operator that made the tensor. The journal knows of both before their bytes are in the
/// file, and by the digest of what was read.
class ContentWriter {
 public:
  /// @param trace     the file that big contents go to
  /// @param datasets  of that file; borrowed, as is `journal`
  /// @param memory    bytes between the model and the disk
  ContentWriter(std::filesystem::path trace,
                const ContentDatasets& datasets,
                journal::JournalWriter& journal,
                std::size_t memory);

  [[nodiscard]] bool has(const core::ContentKey& key) const { return known_.contains(key); }
  /// @throws core::Error{kIo}, for earlier contents as well
  void put(const core::ContentKey& key, const core::ContentBytes& bytes);
  /// Notes what is stored of a content: that was put before, as the content core::slice_key().
  void note_slice(const core::ContentKey& key, const core::ContentSlice& slice);
  [[nodiscard]] bool is_sliced(const core::ContentKey& key) const { return slices_.contains(key); }
  [[nodiscard]] const Slices& slices() const noexcept { return slices_; }
  /// Keeps no bytes: they are in the dump that the journal has named.
  void refer(const core::ContentKey& key);
  /// @throws core::Error{kIo} when a content put before could not be written
  void check();
  /// Waits until all that was put is written. @throws core::Error{kIo}
  void drain();

  /// In order of arrival.
  [[nodiscard]] std::span<const KeptContent> kept() const noexcept { return kept_; }
  /// Of those, the ones in the journal: how many, and their bytes.
  [[nodiscard]] std::uint64_t small_contents() const noexcept { return small_contents_; }
  [[nodiscard]] std::uint64_t small_bytes() const noexcept { return small_bytes_; }
  /// Those that were referred to, and their bytes.
  [[nodiscard]] std::uint64_t referred_contents() const noexcept { return referred_.size(); }
  [[nodiscard]] std::uint64_t referred_bytes() const noexcept { return referred_bytes_; }
  [[nodiscard]] bool is_referred(const core::ContentKey& key) const {
    return referred_.contains(key);
  }
  /// Readable from any thread.
  [[nodiscard]] std::uint64_t stored_bytes() const noexcept { return stored_bytes_; }
  /// Whether bytes have gone past the page cache.
  [[nodiscard]] bool direct() const noexcept { return file_ && file_->direct(); }

 private:
  /// @return where in the file it will be
  std::uint64_t stage(const core::ContentKey& key, const core::ContentBytes& bytes);
  /// What was staged as `key` is another content: the dataset becomes that one's, or goes.
  void relabel(const core::ContentKey& key, const core::ContentKey& read);

  std::filesystem::path trace_;
  const ContentDatasets& datasets_;
  journal::JournalWriter& journal_;
  std::size_t memory_;
  std::unordered_set<core::ContentKey, ContentKeyHash> known_;
  std::vector<KeptContent> kept_;  ///< keys are in known_
  std::vector<std::byte> small_;
  Slices slices_;
  std::unordered_set<core::ContentKey, ContentKeyHash> referred_;
  std::uint64_t referred_bytes_ = 0;
  std::uint64_t small_contents_ = 0;
  std::uint64_t small_bytes_ = 0;
  std::atomic<std::uint64_t> stored_bytes_{0};
  std::optional<DirectFile> file_;     ///< from the first big content on
  std::optional<StagingQueue> queue_;  ///< likewise; goes before the file it writes to
};

}  // namespace repro_check::store
