// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include "configs/parser/parse_context.h"
#include "core/text/printable.h"

namespace repro_check::configs::detail {
namespace {

/// What is wrong with the path, or nothing.
/// A look now saves a recorder that starts, loads LibTorch and then fails. The file may still go
/// away before it is opened, so whoever opens it checks again.
std::string flaw_of(const std::filesystem::path& path, PathKind kind) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  const bool exists = std::filesystem::exists(status);
  if (kind == PathKind::kDirectoryToMake) {
    return exists && !std::filesystem::is_directory(status) ? "is not a directory" : "";
  }
  const bool to_make = kind == PathKind::kFileToMake || kind == PathKind::kDumpToMake;
  if (to_make && !exists) return "";
  if (kind == PathKind::kDumpToMake && std::filesystem::is_directory(status)) return "";
  if (status.type() == std::filesystem::file_type::none) return error.message();
  if (!exists) return "no such file";
  if (std::filesystem::is_directory(status)) return "is a directory";
  if (!std::filesystem::is_regular_file(status)) return "is not a regular file";
  if (access(path.c_str(), R_OK) != 0) return "cannot be read";
  if (kind == PathKind::kExecutable && access(path.c_str(), X_OK) != 0) return "is not executable";
  return "";
}

}  // namespace

std::optional<std::filesystem::path> read_path(const Node& node,
                                               PathKind kind,
                                               std::string_view what,
                                               const ParseContext& context) {
  const auto text = read_text(node, what, context.problems);
  if (!text) return std::nullopt;
  if (context.resolved) return std::filesystem::path(*text);
  std::filesystem::path path = (context.base / *text).lexically_normal();
  const std::string flaw = flaw_of(path, kind);
  if (!flaw.empty()) {
    context.problems.add(
        node.pointer,
        fmt::format("expected {}; {}: {}", what, core::printable(path.string()), flaw));
    return std::nullopt;
  }
  return path;
}

}  // namespace repro_check::configs::detail
