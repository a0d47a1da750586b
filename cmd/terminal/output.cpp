// SPDX-License-Identifier: Apache-2.0
#include "cmd/terminal/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <istream>
#include <system_error>

#include "core/error.h"
#include "core/system/file_descriptor.h"
#include "core/system/signals_blocked.h"

namespace repro_check::cmd {
namespace {

std::string reason() { return std::strerror(errno); }

/// A new file whose name nobody has: whoever was killed may have left one of the same number.
/// @param name  of the file beside which it is made; becomes its own
/// @return -1 with errno set
int open_beside(std::string& name) {
  for (unsigned attempt = 0;; ++attempt) {
    const std::string own =
        name + "." + std::to_string(::getpid()) + "-" + std::to_string(attempt) + ".tmp";
    const int descriptor = ::open(own.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == EEXIST) continue;
    name = own;
    return descriptor;
  }
}

/// A file that is written beside the one that is wanted, under a name that no other process takes;
/// without commit() it is taken away again.
class NewFile : core::Pinned {
 public:
  /// @throws core::Error{kIo}, as the other members
  explicit NewFile(const std::filesystem::path& file) : file_(file) {
    // Renaming would put a plain file in the place of a device.
    std::error_code ignored;
    const std::filesystem::file_status status = std::filesystem::status(file, ignored);
    in_place_ = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
    target_ = file.string();
    descriptor_ = core::FileDescriptor(
        in_place_ ? ::open(target_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC) : open_beside(target_));
    if (descriptor_.get() < 0) fail();
  }
  ~NewFile() {
    if (!committed_ && !in_place_) ::unlink(target_.c_str());
  }

  void put(std::string_view text) const {
    if (!core::write_all(descriptor_.get(), text)) fail();
  }
  void commit() {
    if (descriptor_.close() != 0) fail();
    if (!in_place_ && ::rename(target_.c_str(), file_.c_str()) != 0) fail();
    committed_ = true;
  }

 private:
  [[noreturn]] void fail() const {
    throw core::io_error("cannot write " + file_.string() + ": " + reason());
  }

  std::filesystem::path file_;
  std::string target_;
  core::FileDescriptor descriptor_;
  bool in_place_ = false;
  bool committed_ = false;
};

}  // namespace

void write_pieces(const std::filesystem::path& file,
                  const std::function<void(const TextSink&)>& produce) {
  constexpr std::size_t kPiece = std::size_t{1} << 18U;
  NewFile made(file);
  std::string waiting;
  produce([&](std::string_view piece) {
    waiting += piece;
    if (waiting.size() < kPiece) return;
    made.put(waiting);
    waiting.clear();
  });
  made.put(waiting);
  made.commit();
}

TemporaryFile::TemporaryFile(const std::string& prefix) {
  const std::string directory = core::temporary_directory();
  std::string pattern = directory + "/" + prefix + "-XXXXXX";
  const core::SignalsBlocked blocked;
  const core::FileDescriptor made(::mkostemp(pattern.data(), O_CLOEXEC));
  if (made.get() < 0) {
    throw core::io_error("cannot make a temporary file in " + directory + ": " + reason(),
                         "set TMPDIR to a directory that can be written");
  }
  guard_.emplace(pattern);
  path_ = pattern;
}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void write_stdout(std::string_view document) {
  write_stdout_pieces([&](const TextSink& sink) { sink(document); });
}

void write_stdout_pieces(const std::function<void(const TextSink&)>& produce) {
  bool is_read = true;
  produce([&](std::string_view piece) {
    if (!is_read || core::write_all(STDOUT_FILENO, piece)) return;
    if (errno != EPIPE) {
      throw core::io_error("cannot write to stdout: " + reason());
    }
    is_read = false;
  });
}

void write_file(const std::filesystem::path& file, std::string_view document) {
  write_pieces(file, [&](const TextSink& sink) { sink(document); });
}

void write_document(const std::optional<std::string>& file, std::string_view document) {
  if (file) {
    write_file(*file, document);
  } else {
    write_stdout(document);
  }
}

std::string read_text(std::istream& in, const std::string& name) {
  constexpr std::size_t kLargest = std::size_t{1} << 30U;
  constexpr std::size_t kBlock = std::size_t{1} << 16U;
  std::string text;
  while (in && text.size() <= kLargest) {
    const std::size_t before = text.size();
    text.resize(before + kBlock);
    in.read(text.data() + before, kBlock);
    text.resize(before + static_cast<std::size_t>(in.gcount()));
  }
  if (text.size() > kLargest) {
    throw core::usage_error(fmt::format("{}: is larger than {} bytes", name, kLargest),
                            "give a file that repro-check wrote, or a configuration");
  }
  if (!in.eof()) throw core::io_error("cannot read " + name);
  return text;
}

std::string read_text_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return read_text(in, file.string());
}

void require_writable(const std::filesystem::path& file) {
  std::filesystem::path directory = file.parent_path();
  if (directory.empty()) directory = ".";
  std::error_code error;
  std::string why;
  std::string hint;
  if (std::filesystem::is_directory(file, error)) {
    why = "it is a directory";
    hint = "name a file in it";
  } else if (std::filesystem::create_directories(directory, error); error) {
    why = "there is no directory " + directory.string();
    hint = "make the directory first";
  } else if (::access(directory.c_str(), W_OK) != 0) {
    why = reason();
    hint = "name a file in a directory that you may write to";
    // A device such as /dev/null is written in place, so its directory does not matter.
    if (::access(file.c_str(), W_OK) == 0) return;
  }
  if (why.empty()) return;
  throw core::usage_error("cannot write " + file.string() + ": " + why, hint);
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
