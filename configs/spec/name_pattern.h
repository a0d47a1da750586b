// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace re2 {
class RE2;
}

namespace repro_check::configs {

/// A regular expression that matches whole names only: `aten::add` does not match `aten::addmm`.
/// RE2's syntax, in time linear in the name, so that no dump can make it slow. Cheap to copy.
class NamePattern {
 public:
  /// Longer names come from nobody's model, and match no pattern.
  static constexpr std::size_t kLongestName = 4096;

  /// @throws core::Error{kUsage} when `text` is no regular expression
  explicit NamePattern(const std::string& text);

  /// What is wrong with a regular expression; empty when nothing is.
  static std::string problem(const std::string& text);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] bool matches(std::string_view name) const;

  /// `replacement` with what the groups matched in the place of `\1` to `\9`; empty where the
  /// pattern does not match. `\0` is the whole name, `\\` a backslash.
  [[nodiscard]] std::optional<std::string> rewrite(std::string_view name,
                                                   const std::string& replacement) const;
  /// What is wrong with a replacement; empty when nothing is.
  [[nodiscard]] std::string replacement_problem(const std::string& replacement) const;

  bool operator==(const NamePattern& other) const noexcept { return text_ == other.text_; }

 private:
  std::string text_;
  std::shared_ptr<const re2::RE2> expression_;
};

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
