// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/system/pinned.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "dumpers/journal/entry.h"
#include "dumpers/journal/journal_writer.h"

namespace repro_check::probe {

/// Where a worker process of a data loader records: a journal for each batch, which whoever is
/// handed that batch reads and removes. Batches are made ahead, and some are taken by nobody.
class BatchSink final : public core::DumpSink {
 public:
  /// @param directory  made here; what another process of that number has left there goes
  explicit BatchSink(std::filesystem::path directory);

  void enter(const core::OpHead& call) override { journal().enter(call); }
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    return journal_ && journal_->has_content(key);
  }
  using core::DumpSink::put_content;
  bool put_content(const core::ContentKey& key, const core::ContentBytes& bytes) override {
    return journal().put_content(key, bytes);
  }
  void append(const core::OpRecord& record) override { journal().append(record); }
  void fail(const std::string& message) override { failure_ = message; }

  /// What was recorded since the last call made `batch`, the name of a folder.
  /// @param warnings  all that there are so far
  void close(const std::string& batch, const std::vector<std::string>& warnings);

 private:
  journal::JournalSink& journal();

  std::filesystem::path directory_;
  std::optional<journal::JournalSink> journal_;
  std::string failure_;  ///< of the recording, which goes on no more
};

/// What a worker has recorded of one batch.
class WorkerBatch : core::Pinned {
 public:
  /// @throws as journal::JournalReader
  explicit WorkerBatch(const std::filesystem::path& directory);

  std::vector<core::OpRecord> records;  ///< ascending by index
  std::vector<std::string> warnings;
  std::string failure;  ///< why there are no more; empty = nothing failed

  /// Empty where they are not there; valid until the next call.
  std::optional<std::span<const std::byte>> read(const core::ContentKey& key);

 private:
  struct Spot {
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;  ///< where they are not in the file
    bool is_inline = false;
  };

  core::FileDescriptor contents_;
  std::map<core::ContentKey, Spot> spots_;
  std::vector<std::byte> bytes_;
};

}  // namespace repro_check::probe
