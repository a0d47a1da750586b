// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "core/content_bytes.h"
#include "core/tensor_record.h"
#include "dumpers/store/detail/content_datasets.h"
#include "dumpers/store/detail/direct_file.h"
#include "dumpers/store/detail/staging_queue.h"

namespace repro_check::store {

struct ContentKeyHash {
  std::size_t operator()(const core::ContentKey& key) const noexcept {
    return static_cast<std::size_t>(key.digest.low ^ static_cast<std::uint64_t>(key.dtype));
  }
};

/// Keeps contents, each key once. A big one gets its dataset at once, and a thread of its own
/// writes the bytes there; small ones are kept in memory and written together, because making a
/// dataset costs more than the operator that made a small tensor.
class ContentWriter {
 public:
  /// @param trace   the file that `group` lies in
  /// @param group   `/content`, borrowed
  /// @param memory  bytes between the model and the disk
  ContentWriter(std::filesystem::path trace, hid_t group, Blame blame, std::size_t memory);

  [[nodiscard]] bool has(const core::ContentKey& key) const { return known_.contains(key); }
  /// @throws core::Error{kIo}, for earlier contents as well
  void put(const core::ContentKey& key, const core::ContentBytes& bytes);
  /// @throws core::Error{kIo} when a content put before could not be written
  void check();
  /// Writes what is still in memory, and waits for it.
  void flush();

  /// In order of arrival.
  [[nodiscard]] std::span<const core::ContentKey* const> keys() const noexcept { return keys_; }
  /// Readable from any thread.
  [[nodiscard]] std::uint64_t stored_bytes() const noexcept { return stored_bytes_; }
  /// Whether bytes have gone past the page cache.
  [[nodiscard]] bool direct() const noexcept { return file_ && file_->direct(); }

 private:
  struct Pending {
    const core::ContentKey* key;
    std::size_t offset;
    std::size_t size;
  };

  void put_big(const core::ContentKey& key, const core::ContentBytes& bytes);
  void put_small(const core::ContentKey& key, const core::ContentBytes& bytes);
  void flush_small();

  std::filesystem::path trace_;
  ContentDatasets datasets_;
  std::size_t memory_;
  std::unordered_set<core::ContentKey, ContentKeyHash> known_;
  std::vector<const core::ContentKey*> keys_;  ///< into known_
  std::vector<std::byte> arena_;
  std::vector<Pending> pending_;
  std::atomic<std::uint64_t> stored_bytes_{0};
  std::optional<DirectFile> file_;     ///< from the first big content on
  std::optional<StagingQueue> queue_;  ///< likewise; goes before the file it writes to
};

}  // namespace repro_check::store
