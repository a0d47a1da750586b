// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/write_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "core/error.h"

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

}  // namespace repro_check::journal
