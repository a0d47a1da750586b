// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/journal_sink.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "core/error.h"
#include "dumpers/journal/write_error.h"

namespace repro_check::journal {
namespace {

namespace fs = std::filesystem;

/// The directory, made where it is missing; a recording never goes on top of another.
const fs::path& prepared(const fs::path& directory) {
  std::error_code code;
  for (const char* name : {kJournalName, kContentsName, "trace.h5", "manifest.json"}) {
    if (!fs::exists(directory / name, code)) continue;
    const bool busy = is_being_written(directory / kJournalName);
    throw core::Error(
        core::ErrorKind::kUsage,
        fmt::format("{}: {}",
                    directory.string(),
                    busy ? "another recording is being written there"
                         : fmt::format("holds {} of another recording", name)),
        busy ? "wait for it, or record to another directory" : "record to another directory");
  }
  fs::create_directories(directory, code);
  if (code) write_failed(directory, "cannot create the directory", code.value());
  return directory;
}

}  // namespace

JournalSink::JournalSink(const fs::path& directory)
    : directory_(prepared(directory)),
      journal_(directory_ / kJournalName),
      contents_(directory_ / kContentsName) {}

bool JournalSink::put_content(const core::ContentKey& key, const core::ContentBytes& bytes) {
  if (has_content(key)) return true;
  const bool small = bytes.size() <= kSmallContent;
  std::uint64_t offset = 0;
  if (small) {
    small_.resize(bytes.size());
    if (!small_.empty()) bytes.read(0, small_);
  } else {
    // The bytes first: an entry that is there speaks of bytes that are there.
    offset = contents_.append(bytes);
  }
  core::ContentKey read = core::key_of_read(key, bytes);
  if (has_content(read)) return true;
  if (small) {
    journal_.content(read, small_);
  } else {
    journal_.content(read, ContentPlace::kContents, offset);
  }
  known_.insert(std::move(read));
  stored_bytes_ += bytes.size();
  return true;
}

void JournalSink::fail(const std::string& message) {
  failed_ = true;
  journal_.fail(message);
}

void JournalSink::finish(core::RunManifest manifest) {
  if (std::exchange(failed_, true)) {
    throw core::Error(core::ErrorKind::kInternal,
                      "a recording that failed, or is finished, cannot be finished");
  }
  core::TraceSummary& trace = manifest.trace;
  journal_.check_counts(trace);
  trace.contents = known_.size();
  trace.stored_bytes = stored_bytes_;
  // The last word is said when all that it speaks of has reached the disk.
  contents_.sync();
  sync_path(directory_ / kJournalName);
  journal_.finished(core::to_json_text(manifest));
  journal_.close();
  sync_path(directory_ / kJournalName);
  sync_path(directory_);
}

}  // namespace repro_check::journal
