// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace repro_check::configs
