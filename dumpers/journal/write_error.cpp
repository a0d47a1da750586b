// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/write_error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "core/error.h"
#include "core/system/file_descriptor.h"

namespace repro_check::journal {

void write_failed(const std::filesystem::path& file, std::string_view what, int code) {
  std::string hint;
  if (code == ENOSPC || code == EDQUOT) {
    hint = "free space there, or record to another disk (dump.directory)";
  } else if (code == EFBIG) {
    hint = "raise the file size limit of the shell (ulimit -f)";
  } else if (code == EACCES || code == EROFS || code == EPERM) {
    hint = "choose a directory you may write to (dump.directory)";
  }
  throw core::Error(
      core::ErrorKind::kIo,
      fmt::format("{}: {}: {}", file.string(), what, std::generic_category().message(code)),
      hint);
}

void sync_path(const std::filesystem::path& path) {
  const core::FileDescriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (opened.get() < 0) write_failed(path, "cannot open for syncing", errno);
  // Some file systems know no fsync of a directory, and say EINVAL.
  if (::fsync(opened.get()) != 0 && errno != EINVAL) {
    write_failed(path, "cannot force to the disk", errno);
  }
}

}  // namespace repro_check::journal
