// SPDX-License-Identifier: Apache-2.0
#include "dumpers/probe/worker_batches.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "core/trace/run_manifest.h"
#include "dumpers/journal/journal_reader.h"

namespace repro_check::probe {
namespace {

constexpr const char* kUnnamed = "open";  ///< of the batch that is being made

}  // namespace

BatchSink::BatchSink(std::filesystem::path directory) : directory_(std::move(directory)) {
  std::filesystem::remove_all(directory_);
  std::filesystem::create_directories(directory_);
}

journal::JournalSink& BatchSink::journal() {
  if (!journal_) journal_.emplace(directory_ / kUnnamed);
  return *journal_;
}

void BatchSink::close(const std::string& batch, const std::vector<std::string>& warnings) {
  if (!failure_.empty()) journal().fail(failure_);
  core::RunManifest manifest;
  manifest.warnings = warnings;
  if (!warnings.empty()) journal().begin(manifest);
  journal();  // one without operators is there as well
  journal_.reset();
  std::filesystem::rename(directory_ / kUnnamed, directory_ / batch);
}

WorkerBatch::WorkerBatch(const std::filesystem::path& directory)
    : contents_(::open((directory / journal::kContentsName).c_str(), O_RDONLY | O_CLOEXEC)) {
  journal::JournalReader reader(directory / journal::kJournalName);
  while (std::optional<journal::Event> event = reader.next_event()) {
    if (auto* record = std::get_if<core::OpRecord>(&*event)) {
      records.push_back(std::move(*record));
    } else if (const auto* content = std::get_if<journal::StoredContent>(&*event)) {
      const bool is_inline = content->place == journal::ContentPlace::kInline;
      spots_[content->key] = {
          content->offset, {content->bytes.begin(), content->bytes.end()}, is_inline};
    } else if (const auto* begun = std::get_if<journal::Begun>(&*event)) {
      warnings = core::manifest_from_json_text(begun->manifest, directory.string()).warnings;
    } else if (const auto* failed = std::get_if<journal::Failure>(&*event)) {
      failure = failed->message;
    }
  }
  std::ranges::sort(records, {}, &core::OpRecord::index);
}

std::optional<std::span<const std::byte>> WorkerBatch::read(const core::ContentKey& key) {
  const auto found = spots_.find(key);
  if (found == spots_.end()) return std::nullopt;
  if (found->second.is_inline) return found->second.bytes;
  bytes_.resize(core::content_size(key));
  const auto got = core::read_at(contents_.get(), found->second.offset, bytes_);
  return got == bytes_.size() ? std::optional<std::span<const std::byte>>(bytes_) : std::nullopt;
}

}  // namespace repro_check::probe
