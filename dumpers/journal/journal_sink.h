// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/content/content.h"
#include "core/system/file_descriptor.h"
#include "core/trace/dump_sink.h"
#include "core/trace/run_manifest.h"
#include "dumpers/journal/journal.h"

namespace repro_check::journal {

/// Bytes of contents, one behind the other, each at the beginning of a page. The file is made when
/// the first come.
class ContentsFile {
 public:
  explicit ContentsFile(std::filesystem::path file);

  /// @return where in the file they are; after a failure the place is used again
  /// @throws core::Error{kIo}
  std::uint64_t append(const core::ContentBytes& bytes);

  /// Forces what was appended to the disk.
  void sync();

 private:
  std::filesystem::path file_;
  core::FileDescriptor opened_;
  std::uint64_t end_ = 0;
  std::vector<std::byte> piece_;
};

/// A complete recording without HDF5, for a process that must not hold it: `journal.bin`, and
/// `contents.bin` beside it for contents above kSmallContent. What a call has returned for survives
/// the death of the process. `repro-check import` makes a dump of it.
class JournalSink final : public core::DumpSink {
 public:
  /// Creates the directory.
  /// @throws core::Error{kUsage} when a recording or a dump is already there; core::Error{kIo}
  explicit JournalSink(const std::filesystem::path& directory);

  void begin(const core::RunManifest& manifest) override {
    journal_.begun(core::to_json_text(manifest));
  }
  void enter(const core::OpHead& call) override { journal_.enter(call); }
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    return known_.contains(key);
  }
  using core::DumpSink::put_content;
  bool put_content(const core::ContentKey& key, const core::ContentBytes& bytes) override;
  void append(const core::OpRecord& record) override { journal_.append(record); }
  void fail(const std::string& message) override;

  /// Bytes of contents so far; readable from any thread.
  [[nodiscard]] std::uint64_t stored_bytes() const noexcept { return stored_bytes_; }

  /// Notes that the recording is whole, and forces it to the disk. Fills manifest.trace.contents
  /// and stored_bytes; the index, and its digest, are made by whoever imports.
  /// @throws core::Error{kIo}
  void finish(core::RunManifest manifest);

 private:
  std::filesystem::path directory_;
  JournalWriter journal_;
  ContentsFile contents_;
  std::set<core::ContentKey> known_;
  std::vector<std::byte> small_;
  std::atomic<std::uint64_t> stored_bytes_{0};
  bool failed_ = false;
};

}  // namespace repro_check::journal
