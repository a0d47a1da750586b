// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/entry_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/error.h"
#include "dumpers/journal/detail/entry_buffer.h"

namespace repro_check::journal {
namespace {

constexpr std::size_t kReadAhead = std::size_t{1} << 20U;

core::Error io_error(const std::string& path, int code) {
  return {
      core::ErrorKind::kIo,
      fmt::format("{}: cannot read the journal: {}", path, std::generic_category().message(code))};
}

}  // namespace

EntryReader::EntryReader(const std::filesystem::path& file)
    : path_(file.string()),
      file_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a FIFO must not hang us
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0) throw io_error(path_, errno);
  if (!S_ISREG(status.st_mode)) throw io_error(path_, EINVAL);
  file_size_ = static_cast<std::uint64_t>(status.st_size);
  check_header();
}

void EntryReader::check_header() {
  const std::span<const std::byte> bytes = peek(sizeof(FileHeader));
  const FileHeader expected;
  // Killed before the header was written: the file is empty, cut short, or still all zeros.
  const bool zeros = std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
  const auto start = std::as_bytes(std::span(&expected, 1)).first(bytes.size());
  const bool prefix = std::ranges::equal(bytes, start);
  ended_ = zeros || (prefix && bytes.size() < sizeof(FileHeader));
  if (ended_) return;
  if (bytes.size() < sizeof(FileHeader) ||
      std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    throw core::Error(core::ErrorKind::kDumpUnknown,
                      fmt::format("{}: not a journal of repro-check", path_));
  }
  FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.version != kJournalVersion) {
    throw core::Error(
        core::ErrorKind::kDumpUnknown,
        fmt::format("{}: journal version {} cannot be read: this repro-check reads version {}",
                    path_,
                    header.version,
                    kJournalVersion),
        "use the repro-check that recorded it");
  }
  position_ = sizeof(FileHeader);
}

std::span<const std::byte> EntryReader::peek(std::size_t size) {
  const auto available =
      static_cast<std::size_t>(std::min<std::uint64_t>(size, file_size_ - position_));
  const bool buffered =
      position_ >= buffer_begin_ && position_ - buffer_begin_ + available <= buffer_size_;
  if (!buffered) {
    buffer_.resize(static_cast<std::size_t>(
        std::min<std::uint64_t>(std::max(available, kReadAhead), file_size_ - position_)));
    buffer_begin_ = position_;
    buffer_size_ = 0;
    while (buffer_size_ < buffer_.size()) {
      const ssize_t got = ::pread(file_.get(),
                                  buffer_.data() + buffer_size_,
                                  buffer_.size() - buffer_size_,
                                  static_cast<off_t>(position_ + buffer_size_));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw io_error(path_, errno);
      if (got == 0) break;  // cut by somebody while we read
      buffer_size_ += static_cast<std::size_t>(got);
    }
  }
  const auto begin = static_cast<std::size_t>(position_ - buffer_begin_);
  return std::span<const std::byte>(buffer_).subspan(begin,
                                                     std::min(available, buffer_size_ - begin));
}

std::optional<Entry> EntryReader::next() {
  if (ended_) return std::nullopt;
  ended_ = true;  // unless the entry proves whole
  std::span<const std::byte> bytes = peek(sizeof(EntryHeader));
  if (bytes.size() < sizeof(EntryHeader)) return std::nullopt;
  EntryHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::size_t whole = sizeof(EntryHeader) + std::size_t{header.length};
  if (header.kind == 0 || whole > file_size_ - position_) return std::nullopt;
  bytes = peek(whole);
  if (bytes.size() < whole) return std::nullopt;
  if (entry_checksum(bytes.subspan(kChecksummedFrom)) != header.checksum) return std::nullopt;
  const Entry entry{
      static_cast<EntryKind>(header.kind), position_, bytes.subspan(sizeof(EntryHeader))};
  position_ = std::min<std::uint64_t>(position_ + padded(whole), file_size_);
  ended_ = false;
  return entry;
}

}  // namespace repro_check::journal
