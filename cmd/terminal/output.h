// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "cmd/terminal/new_file.h"

namespace repro_check::cmd {

/// Writes the whole document. A reader that has gone away (`| head`) is not an error.
/// @throws core::Error{kIo}
void write_stdout(std::string_view document);

/// The same for a document that is made while it is written. Nothing was written where `produce`
/// throws before its first piece.
/// @throws core::Error{kIo}, and what `produce` throws
void write_stdout_pieces(const std::function<void(const TextSink&)>& produce);

/// Writes beside the file and renames over it, so that a reader finds the old or the new, whole.
/// @throws core::Error{kIo}
void write_file(const std::filesystem::path& file, std::string_view document);

/// Fails early, before anything is recorded or compared, when write_file() could not succeed.
/// @throws core::Error{kUsage}
void require_writable(const std::filesystem::path& file);

/// `path` as a person who stands here would type it: relative where it lies below the current
/// directory, else unchanged.
std::filesystem::path from_here(const std::filesystem::path& path);

[[nodiscard]] bool stdout_is_terminal() noexcept;
[[nodiscard]] bool stderr_is_terminal() noexcept;

}  // namespace repro_check::cmd
