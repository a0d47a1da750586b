// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <unordered_set>
#include <vector>

#include "core/content/content.h"
#include "core/tensor/tensor_record.h"
#include "dumpers/journal/journal_writer.h"
#include "dumpers/store/contents/staging_queue.h"
#include "dumpers/store/file/trace_file.h"

namespace repro_check::store {

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
  /// Keeps no bytes: they are in the dump that the journal has named.
  void refer(const core::ContentKey& key);
  /// @throws core::Error{kIo} when a content put before could not be written
  void check();
  /// Waits until all that was put is written. @throws core::Error{kIo}
  void drain();

  std::vector<KeptContent> kept;     ///< in order of arrival; keys are in known_
  std::uint64_t small_contents = 0;  ///< of those, the ones in the journal
  std::uint64_t small_bytes = 0;
  std::unordered_set<core::ContentKey, ContentKeyHash> referred;
  std::uint64_t referred_bytes = 0;
  Slices slices;
  std::atomic<std::uint64_t> stored_bytes{0};  ///< readable from any thread
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
  std::vector<std::byte> small_;
  std::optional<DirectFile> file_;     ///< from the first big content on
  std::optional<StagingQueue> queue_;  ///< likewise; goes before the file it writes to
};

}  // namespace repro_check::store
