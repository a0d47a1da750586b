// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "configs/spec/name_pattern.h"

namespace repro_check::configs {

/// One line of a name map: which names of the candidate are called what in the baseline.
struct NameRewrite {
  enum class Kind { kOperator, kModule };

  Kind kind = Kind::kOperator;
  NamePattern pattern;      ///< of the candidate's whole name
  std::string replacement;  ///< the baseline's; `\1` to `\9` stand for what the groups matched
  std::size_t line = 0;     ///< in its file, from 1

  bool operator==(const NameRewrite&) const = default;
};

/// Names that differ between two versions of a model or of LibTorch. The first line of its kind
/// that matches a name rewrites it; a name that none matches stays as it is.
struct NameMap {
  std::string file;
  std::vector<NameRewrite> entries;

  bool operator==(const NameMap&) const = default;
};

/// `operator`, `module`: the first word of a line.
std::string_view name_of(NameRewrite::Kind kind) noexcept;

/// Reads the text of a map: a line is empty, `# a comment`, `operator PATTERN -> REPLACEMENT` or
/// `module PATTERN -> REPLACEMENT`. The root module is the empty name.
/// @param origin    how messages call it
/// @param problems  gets a sentence for each line that is none of those: `names.map:3: ...`
NameMap parse_name_map(std::string_view text,
                       const std::string& origin,
                       std::vector<std::string>& problems);

}  // namespace repro_check::configs
