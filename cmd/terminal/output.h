// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "cmd/terminal/signals.h"
#include "core/system/pinned.h"

namespace repro_check::cmd {

/// Takes a document piece by piece.
using TextSink = std::function<void(std::string_view)>;

/// Writes a document that is made while it is written, whatever its length: beside the file and
/// renamed over it, so that a reader finds the old one or the new one, whole. Devices and pipes are
/// written in place. Nothing is left behind where `produce` throws.
/// @throws core::Error{kIo}, and what `produce` throws
void write_pieces(const std::filesystem::path& file,
                  const std::function<void(const TextSink&)>& produce);

/// An empty file of a fresh name in the temporary directory, removed with the object, and by a
/// signal that leaves no time for that.
class TemporaryFile : core::Pinned {
 public:
  /// @throws core::Error{kIo}
  explicit TemporaryFile(const std::string& prefix);
  ~TemporaryFile();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<GuardedFile> guard_;
};

/// Writes the whole document. A reader that has gone away (`| head`) is not an error.
/// @throws core::Error{kIo}
void write_stdout(std::string_view document);

/// The same for a document that is made while it is written. Nothing was written where `produce`
/// throws before its first piece.
/// @throws core::Error{kIo}, and what `produce` throws
void write_stdout_pieces(const std::function<void(const TextSink&)>& produce);

/// The same of one that is there already. @throws core::Error{kIo}
void write_file(const std::filesystem::path& file, std::string_view document);

/// Writes the whole document to a file, or to stdout where none is given. @throws core::Error{kIo}
void write_document(const std::optional<std::string>& file, std::string_view document);

/// What a stream still holds, 1 GiB at most: a device may never end.
/// @param name  what errors call it
/// @throws core::Error{kIo}, or {kUsage} where it holds more
std::string read_text(std::istream& in, const std::string& name);

/// The same of a file.
std::string read_text_file(const std::filesystem::path& file);

/// Fails early, before anything is recorded or compared, when write_file() could not succeed. The
/// directory that is to hold the file is made.
/// @throws core::Error{kUsage}
void require_writable(const std::filesystem::path& file);

/// `path` as a person who stands here would type it: relative where it lies below the current
/// directory, else unchanged.
std::filesystem::path from_here(const std::filesystem::path& path);

[[nodiscard]] bool stdout_is_terminal() noexcept;
[[nodiscard]] bool stderr_is_terminal() noexcept;

}  // namespace repro_check::cmd
