// SPDX-License-Identifier: Apache-2.0
#include "cmd/terminal/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "core/error.h"

namespace repro_check::cmd {
namespace {

std::string reason() { return std::strerror(errno); }

}  // namespace

void write_stdout(std::string_view document) {
  write_stdout_pieces([&](const TextSink& sink) { sink(document); });
}

void write_stdout_pieces(const std::function<void(const TextSink&)>& produce) {
  bool is_read = true;
  produce([&](std::string_view piece) {
    if (!is_read || write_all(STDOUT_FILENO, piece)) return;
    if (errno != EPIPE) {
      throw core::Error(core::ErrorKind::kIo, "cannot write to stdout: " + reason());
    }
    is_read = false;
  });
}

void write_file(const std::filesystem::path& file, std::string_view document) {
  NewFile made(file);
  made.put(document);
  made.commit();
}

void require_writable(const std::filesystem::path& file) {
  std::filesystem::path directory = file.parent_path();
  if (directory.empty()) directory = ".";
  std::error_code ignored;
  std::string why;
  std::string hint;
  if (std::filesystem::is_directory(file, ignored)) {
    why = "it is a directory";
    hint = "name a file in it";
  } else if (!std::filesystem::is_directory(directory, ignored)) {
    why = "there is no directory " + directory.string();
    hint = "make the directory first";
  } else if (::access(directory.c_str(), W_OK) != 0) {
    why = reason();
    hint = "name a file in a directory that you may write to";
    // A device such as /dev/null is written in place, so its directory does not matter.
    if (::access(file.c_str(), W_OK) == 0) return;
  }
  if (why.empty()) return;
  throw core::Error(core::ErrorKind::kUsage, "cannot write " + file.string() + ": " + why, hint);
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
