// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/journal_sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "dumpers/journal/detail/contents_file.h"
#include "dumpers/journal/journal.h"
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

void sync_file(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  // Some file systems know no fsync of a directory, and say EINVAL.
  const int code = fd >= 0 && (::fsync(fd) == 0 || errno == EINVAL) ? 0 : errno;
  if (fd >= 0) ::close(fd);
  if (code != 0) write_failed(file, "cannot force to the disk", code);
}

}  // namespace

class JournalSink::Impl {
 public:
  explicit Impl(const fs::path& directory)
      : directory_(prepared(directory)),
        journal_(directory_ / kJournalName),
        contents_(directory_ / kContentsName) {}

  [[nodiscard]] JournalWriter& journal() noexcept { return journal_; }
  [[nodiscard]] bool has(const core::ContentKey& key) const { return known_.contains(key); }
  [[nodiscard]] std::uint64_t stored_bytes() const noexcept { return stored_bytes_; }

  void put(const core::ContentKey& key, const core::ContentBytes& bytes) {
    if (has(key)) return;
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
    if (has(read)) return;
    if (small) {
      journal_.content(read, small_);
    } else {
      journal_.content(read, ContentPlace::kContents, offset);
    }
    known_.insert(std::move(read));
    stored_bytes_ += bytes.size();
  }

  void append(const core::OpRecord& record) {
    journal_.append(record);
    ++operators_;
    if (core::is_returned(record)) ++returned_;
    tensors_ += record.tensors.size();
  }

  void fail(const std::string& message) {
    failed_ = true;
    journal_.fail(message);
  }

  void finish(core::RunManifest manifest) {
    if (std::exchange(failed_, true)) {
      throw core::Error(core::ErrorKind::kInternal,
                        "a recording that failed, or is finished, cannot be finished");
    }
    core::TraceSummary& trace = manifest.trace;
    if (trace.operators != operators_ || trace.returned != returned_ || trace.tensors != tensors_) {
      throw core::Error(core::ErrorKind::kInternal,
                        fmt::format("the recorder counted {} operators, {} of them returned "
                                    "values, and {} tensors, the journal {}, {} and {}",
                                    trace.operators,
                                    trace.returned,
                                    trace.tensors,
                                    operators_,
                                    returned_,
                                    tensors_));
    }
    trace.contents = known_.size();
    trace.stored_bytes = stored_bytes_;
    // The last word is said when all that it speaks of has reached the disk.
    contents_.sync();
    sync_file(directory_ / kJournalName);
    journal_.finished(core::to_json_text(manifest));
    journal_.close();
    sync_file(directory_ / kJournalName);
    sync_file(directory_);
  }

 private:
  fs::path directory_;
  JournalWriter journal_;
  ContentsFile contents_;
  std::set<core::ContentKey> known_;
  std::vector<std::byte> small_;
  std::atomic<std::uint64_t> stored_bytes_{0};
  std::uint64_t operators_ = 0;
  std::uint64_t returned_ = 0;
  std::uint64_t tensors_ = 0;
  bool failed_ = false;
};

JournalSink::JournalSink(const fs::path& directory) : impl_(std::make_unique<Impl>(directory)) {}

JournalSink::~JournalSink() = default;

void JournalSink::begin(const core::RunManifest& manifest) {
  impl_->journal().begun(core::to_json_text(manifest));
}
void JournalSink::enter(const core::OpEntry& entry) { impl_->journal().enter(entry); }
bool JournalSink::has_content(const core::ContentKey& key) const { return impl_->has(key); }
bool JournalSink::put_content(const core::ContentKey& key, const core::ContentBytes& bytes) {
  impl_->put(key, bytes);
  return true;
}
void JournalSink::append(const core::OpRecord& record) { impl_->append(record); }
void JournalSink::fail(const std::string& message) { impl_->fail(message); }
std::uint64_t JournalSink::stored_bytes() const noexcept { return impl_->stored_bytes(); }
void JournalSink::finish(core::RunManifest manifest) { impl_->finish(std::move(manifest)); }

}  // namespace repro_check::journal
