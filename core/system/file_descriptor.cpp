// SPDX-License-Identifier: Apache-2.0
#include "core/system/file_descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cstdlib>
#include <system_error>

#include "core/error.h"

namespace repro_check::core {

bool write_all_at(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return true;
}

std::optional<std::size_t> read_at(int descriptor,
                                   std::uint64_t offset,
                                   std::span<std::byte> into) noexcept {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(
        descriptor, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::string temporary_directory() {
  const char* variable = std::getenv("TMPDIR");
  return variable != nullptr && *variable != '\0' ? variable : "/tmp";
}

TemporaryFile open_temporary(const std::string& directory) {
  constexpr mode_t kMode = 0600;
  FileDescriptor nameless(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMode));
  if (nameless.get() >= 0) return {std::move(nameless), {}};
  std::string name = directory + "/repro-check-XXXXXX";
  FileDescriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (file.get() < 0) name.clear();
  return {std::move(file), TemporaryName(std::move(name))};
}

std::optional<std::uint64_t> free_space(const std::filesystem::path& place) {
  std::error_code error;
  std::filesystem::path there = std::filesystem::absolute(place, error);
  while (!std::filesystem::exists(there, error) && there.has_relative_path()) {
    there = there.parent_path();
  }
  const std::filesystem::space_info space = std::filesystem::space(there, error);
  if (error || space.capacity == 0) return std::nullopt;
  return space.available;
}

void write_failed(const std::filesystem::path& file, std::string_view what, int code) {
  std::string hint;
  if (code == ENOSPC || code == EDQUOT) {
    hint = "free space there, or record to another disk (dump.directory)";
  } else if (code == EFBIG) {
    hint = "raise the file size limit of the shell (ulimit -f)";
  } else if (code == EACCES || code == EROFS || code == EPERM) {
    hint = "choose a directory you may write to (dump.directory)";
  }
  throw io_error(
      fmt::format("{}: {}: {}", file.string(), what, std::generic_category().message(code)), hint);
}

void sync_path(const std::filesystem::path& path) {
  const FileDescriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (opened.get() < 0) write_failed(path, "cannot open for syncing", errno);
  // Some file systems know no fsync of a directory, and say EINVAL.
  if (::fsync(opened.get()) != 0 && errno != EINVAL) {
    write_failed(path, "cannot force to the disk", errno);
  }
}

}  // namespace repro_check::core
