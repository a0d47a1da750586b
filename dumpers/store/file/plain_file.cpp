// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/file/plain_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/system/signals_blocked.h"
#include "core/text/text.h"

namespace repro_check::store {
namespace {

using core::Error;
using core::ErrorKind;

constexpr const char* kElsewhere = "free space, or choose another disk (-o, TMPDIR)";

[[noreturn]] void system_refused(const std::string& name, const char* doing, int code) {
  const char* hint = "";
  if (code == ENOSPC || code == EDQUOT) hint = kElsewhere;
  if (code == EFBIG) hint = "raise the file size limit of the shell (ulimit -f)";
  throw core::io_error(
      fmt::format("{}: {}: {}", name, doing, std::generic_category().message(code)), hint);
}

std::string printable_name(const std::filesystem::path& file) {
  return core::printable(file.string());
}

}  // namespace

void read_failed(const std::filesystem::path& path, const char* doing, int code) {
  const bool forbidden = code == EACCES;
  throw Error(
      forbidden ? ErrorKind::kDumpUnknown : ErrorKind::kIo,
      fmt::format("{}: {}: {}", path.string(), doing, std::generic_category().message(code)),
      forbidden ? "ask its owner for permission to read it" : "");
}

void write_whole(int fd, std::span<const std::byte> bytes, const std::string& name) {
  const core::SizeSignalGuard guard;
  if (!core::write_all(fd, bytes)) system_refused(name, "cannot write", errno);
}

std::size_t read_some(int fd,
                      std::uint64_t offset,
                      std::span<std::byte> into,
                      const std::string& name) {
  const std::optional<std::size_t> got = core::read_at(fd, offset, into);
  if (!got) system_refused(name, "cannot read", errno);
  return *got;
}

core::FileDescriptor open_plain(const std::filesystem::path& file) {
  core::FileDescriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (opened.get() < 0) system_refused(printable_name(file), "cannot open", errno);
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw core::io_error(printable_name(file) + ": is not a plain file");
  }
  return opened;
}

core::FileDescriptor create_plain(const std::filesystem::path& file) {
  constexpr mode_t kMode = 0666;
  core::FileDescriptor created(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
  if (created.get() < 0) system_refused(printable_name(file), "cannot create", errno);
  return created;
}

std::uint64_t size_of(const core::FileDescriptor& file, const std::string& name) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) system_refused(name, "cannot read its size", errno);
  return static_cast<std::uint64_t>(status.st_size);
}

void expect_free_space(const std::filesystem::path& directory, std::uint64_t needed) {
  const std::optional<std::uint64_t> free = core::free_space(directory);
  if (!free || *free >= needed) return;
  throw core::io_error(fmt::format("{}: {} MiB are free there, and {} MiB are needed",
                                   printable_name(directory),
                                   *free >> 20U,
                                   (needed >> 20U) + 1),
                       kElsewhere);
}

void take_space(const core::FileDescriptor& file, std::uint64_t bytes, const std::string& name) {
  const core::SizeSignalGuard guard;
  int code = EINTR;
  while (code == EINTR) code = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  if (code != 0) system_refused(name, "cannot take the space for it", code);
}

core::TemporaryFile create_temporary(std::uint64_t needed_space) {
  const std::string directory = core::temporary_directory();
  core::TemporaryFile made = core::open_temporary(directory);
  if (made.file.get() < 0) {
    throw core::io_error(
        fmt::format("{}: cannot create a temporary file: {}",
                    core::printable(directory),
                    std::generic_category().message(errno)),
        "packs, and datasets stored in chunks, are laid out there for reading: point TMPDIR at "
        "another directory");
  }
  expect_free_space(directory, needed_space);
  return made;
}

core::TemporaryName name_temporary(const core::FileDescriptor& file) {
  constexpr int kTrials = 100;
  const std::string source = fmt::format("/proc/self/fd/{}", file.get());
  const std::string directory = core::temporary_directory();
  int code = EEXIST;
  for (int trial = 0; code == EEXIST && trial < kTrials; ++trial) {
    std::string name =
        fmt::format("{}/repro-check-{}-{}-{}", directory, ::getpid(), file.get(), trial);
    if (::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      return core::TemporaryName(std::move(name));
    }
    code = errno;
  }
  system_refused(core::printable(directory), "cannot name a temporary file", code);
}

}  // namespace repro_check::store
