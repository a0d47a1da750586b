// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "configs/parser/json_reader.h"
#include "configs/parser/problems.h"

namespace repro_check::configs::detail {

/// What every part of the parser needs to know.
struct ParseContext {
  Problems& problems;
  std::filesystem::path base;  ///< absolute; relative paths start here
  /// A request for a recorder, made by us: paths are final and unchecked, inputs carry the pointer
  /// they were given at.
  bool resolved = false;
};

enum class PathKind { kFile, kExecutable, kDirectoryToMake, kFileToMake, kDumpToMake };

/// A path, made absolute, that must lead to what `kind` says.
/// @param what  `a model file`, for the message
std::optional<std::filesystem::path> read_path(const Node& node,
                                               PathKind kind,
                                               std::string_view what,
                                               const ParseContext& context);

}  // namespace repro_check::configs::detail
