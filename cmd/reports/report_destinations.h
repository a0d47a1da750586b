// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/render/formats.h"
#include "cmd/terminal/output.h"

namespace repro_check::cmd {

/// Where one `--report FORMAT=DEST` goes.
struct ReportDestination {
  const ReportFormat* format = nullptr;
  std::filesystem::path file;  ///< empty = stdout
  bool append = false;         ///< `+FILE`: behind what is there

  [[nodiscard]] bool to_stdout() const noexcept { return file.empty(); }
};

/// `json=report.json`, `github=-`, `markdown=+summary.md`.
/// @throws core::Error{kUsage} on a word of another shape, a format nobody knows, or one that
///         cannot be appended to a file
ReportDestination parse_destination(std::string_view word);

/// Sees that a report can be written there, and makes the directories above it. What is there may
/// be replaced if it is a report, of an earlier command, or empty.
/// @param append  nothing is replaced
/// @throws core::Error{kUsage}
void require_report_place(const std::filesystem::path& file, bool append = false);

/// @throws core::Error{kUsage} when two reports want one place (text and GitHub annotations may
///         share stdout: both are lines of a log), or a file cannot be written
void check_destinations(const std::vector<ReportDestination>& destinations);

/// Writes a document to a file: beside it and renamed, or behind what is there. What could not be
/// appended whole is taken away again.
/// @throws core::Error{kIo}, and what `produce` throws
void write_report(const ReportDestination& destination,
                  const std::function<void(const TextSink&)>& produce);

/// The nearest directory from here upwards that holds `.git`; the current one where none does.
std::filesystem::path repository_root();

}  // namespace repro_check::cmd
