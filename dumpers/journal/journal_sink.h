// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "core/trace/dump_sink.h"
#include "core/trace/run_manifest.h"

namespace repro_check::journal {

/// A complete recording without HDF5, for a process that must not hold it: `journal.bin`, and
/// `contents.bin` beside it for contents above kSmallContent. What a call has returned for survives
/// the death of the process. `repro-check import` makes a dump of it.
class JournalSink final : public core::DumpSink {
 public:
  /// Creates the directory.
  /// @throws core::Error{kUsage} when a recording or a dump is already there; core::Error{kIo}
  explicit JournalSink(const std::filesystem::path& directory);
  ~JournalSink() override;

  void begin(const core::RunManifest& manifest) override;
  void enter(const core::OpEntry& entry) override;
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override;
  using core::DumpSink::put_content;
  bool put_content(const core::ContentKey& key, const core::ContentBytes& bytes) override;
  void append(const core::OpRecord& record) override;
  void fail(const std::string& message) override;

  /// Bytes of contents so far; readable from any thread.
  [[nodiscard]] std::uint64_t stored_bytes() const noexcept;

  /// Notes that the recording is whole, and forces it to the disk. Fills manifest.trace.contents
  /// and stored_bytes; the index, and its digest, are made by whoever imports.
  /// @throws core::Error{kIo}
  void finish(core::RunManifest manifest);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace repro_check::journal
