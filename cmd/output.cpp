// SPDX-License-Identifier: Apache-2.0
#include "cmd/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/error.h"

namespace repro_check::cmd {
namespace {

std::string reason() { return std::strerror(errno); }

/// @return false with errno set
bool write_all(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

void write_stdout(std::string_view document) {
  if (write_all(STDOUT_FILENO, document) || errno == EPIPE) return;
  throw core::Error(core::ErrorKind::kIo, "cannot write to stdout: " + reason());
}

void write_file(const std::filesystem::path& file, std::string_view document) {
  // Devices and pipes are written as they are: renaming would put a plain file in their place.
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(file, ignored);
  const bool in_place =
      std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  const std::string target = in_place ? file.string() : file.string() + ".new";
  const int descriptor = ::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool whole = descriptor >= 0 && write_all(descriptor, document);
  std::string why = whole ? "" : reason();
  if (descriptor >= 0 && ::close(descriptor) != 0 && whole) {
    whole = false;
    why = reason();
  }
  if (whole && !in_place && ::rename(target.c_str(), file.c_str()) != 0) {
    whole = false;
    why = reason();
  }
  if (whole) return;
  if (!in_place) ::unlink(target.c_str());
  throw core::Error(core::ErrorKind::kIo, "cannot write " + file.string() + ": " + why);
}

void require_writable(const std::filesystem::path& file) {
  std::filesystem::path directory = file.parent_path();
  if (directory.empty()) directory = ".";
  std::error_code ignored;
  std::string why;
  if (std::filesystem::is_directory(file, ignored)) {
    why = "it is a directory";
  } else if (!std::filesystem::is_directory(directory, ignored)) {
    why = "there is no directory " + directory.string();
  } else if (::access(directory.c_str(), W_OK) != 0) {
    // A device such as /dev/null is written in place, so its directory does not matter.
    if (::access(file.c_str(), W_OK) == 0) return;
    why = reason();
  }
  if (why.empty()) return;
  throw core::Error(core::ErrorKind::kUsage, "cannot write " + file.string() + ": " + why);
}

std::filesystem::path from_here(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  if (error || !path.is_absolute()) return path;
  const std::filesystem::path relative = path.lexically_relative(here);
  const bool is_below = !relative.empty() && *relative.begin() != ".." && relative != ".";
  return is_below ? relative : path;
}

bool stdout_is_terminal() noexcept { return ::isatty(STDOUT_FILENO) == 1; }

bool stderr_is_terminal() noexcept { return ::isatty(STDERR_FILENO) == 1; }

}  // namespace repro_check::cmd
