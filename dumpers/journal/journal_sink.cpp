// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/journal_sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/system/signals_blocked.h"

namespace repro_check::journal {

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kPiece = std::size_t{1} << 20U;

}  // namespace

ContentsFile::ContentsFile(std::filesystem::path file) : file_(std::move(file)) {}

std::uint64_t ContentsFile::append(const core::ContentBytes& bytes) {
  const core::SizeSignalGuard guard;
  if (opened_.get() < 0) {
    constexpr mode_t kMode = 0666;
    opened_ =
        core::FileDescriptor(::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
    if (opened_.get() < 0) core::write_failed(file_, "cannot create the file", errno);
  }
  const std::uint64_t begin = (end_ + kPage - 1) / kPage * kPage;
  for (std::size_t done = 0; done < bytes.size(); done += piece_.size()) {
    piece_.resize(std::min(kPiece, bytes.size() - done));
    bytes.read(done, piece_);
    if (!core::write_all_at(opened_.get(), begin + done, piece_)) {
      core::write_failed(file_, "cannot write", errno);
    }
  }
  end_ = begin + bytes.size();
  return begin;
}

void ContentsFile::sync() {
  if (opened_.get() >= 0 && ::fsync(opened_.get()) != 0)
    core::write_failed(file_, "cannot force to the disk", errno);
}

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
  if (code) core::write_failed(directory, "cannot create the directory", code.value());
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
  core::sync_path(directory_ / kJournalName);
  journal_.finished(core::to_json_text(manifest));
  journal_.close();
  core::sync_path(directory_ / kJournalName);
  core::sync_path(directory_);
}

}  // namespace repro_check::journal
