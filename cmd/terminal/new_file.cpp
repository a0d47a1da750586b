// SPDX-License-Identifier: Apache-2.0
#include "cmd/terminal/new_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace repro_check::cmd {
namespace {

/// Whoever shares a terminal or a pipe with us may have made it non-blocking, for us as well.
bool wait_writable(int descriptor) noexcept {
  pollfd waiting{descriptor, POLLOUT, 0};
  return ::poll(&waiting, 1, -1) >= 0 || errno == EINTR;
}

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

}  // namespace

bool write_all(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN && wait_writable(descriptor)) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

NewFile::NewFile(const std::filesystem::path& file) : file_(file) {
  // Renaming would put a plain file in the place of a device.
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(file, ignored);
  in_place_ = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  target_ = file.string();
  descriptor_ =
      in_place_ ? ::open(target_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC) : open_beside(target_);
  if (descriptor_ < 0) fail();
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_ && !in_place_) ::unlink(target_.c_str());
}

void NewFile::put(std::string_view text) const {
  if (!write_all(descriptor_, text)) fail();
}

void NewFile::commit() {
  if (::close(std::exchange(descriptor_, -1)) != 0) fail();
  if (!in_place_ && ::rename(target_.c_str(), file_.c_str()) != 0) fail();
  committed_ = true;
}

void NewFile::fail() const {
  const std::string why = std::strerror(errno);
  throw core::Error(core::ErrorKind::kIo, "cannot write " + file_.string() + ": " + why);
}

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

}  // namespace repro_check::cmd
