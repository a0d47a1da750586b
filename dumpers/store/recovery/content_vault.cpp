// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/recovery/content_vault.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <utility>

#include "core/digest/digest.h"
#include "dumpers/store/directory/dump_directory.h"

namespace repro_check::store {
namespace {

const char* name_of(journal::ContentPlace place) {
  switch (place) {
    case journal::ContentPlace::kTrace:
      return kTraceName;
    case journal::ContentPlace::kContents:
      return kContentsName;
    case journal::ContentPlace::kInline:
    case journal::ContentPlace::kReference:
      break;
  }
  return kJournalName;
}

bool read_all(int fd, std::uint64_t offset, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return true;
}

}  // namespace

ContentVault::ContentVault(std::filesystem::path directory, const journal::RecordedJournal& journal)
    : directory_(std::move(directory)), journal_(journal) {}

ContentVault::~ContentVault() {
  for (const File& file : files_) {
    if (file.fd >= 0) ::close(file.fd);
  }
}

const ContentVault::File& ContentVault::file(journal::ContentPlace place) const {
  File& file = files_.at(static_cast<std::size_t>(place));
  if (std::exchange(file.tried, true)) return file;
  const std::filesystem::path path = directory_ / name_of(place);
  file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  struct stat status {};
  if (file.fd >= 0 && ::fstat(file.fd, &status) == 0 && S_ISREG(status.st_mode)) {
    file.size = static_cast<std::uint64_t>(status.st_size);
  }
  return file;
}

bool ContentVault::read(const core::ContentKey& key, std::vector<std::byte>& into) const {
  const auto found = journal_.contents().find(key);
  if (found == journal_.contents().end()) return false;
  const journal::ContentSpot& spot = found->second;
  if (spot.place == journal::ContentPlace::kReference) return false;
  const File& from = file(spot.place);
  // Before memory is asked for: a journal may speak of more than its files hold.
  if (from.fd < 0 || spot.offset > from.size || spot.size > from.size - spot.offset) return false;
  into.resize(spot.size);
  return read_all(from.fd, spot.offset, into) && core::digest_bytes(into) == key.digest;
}

}  // namespace repro_check::store
