// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace repro_check::cmd {

/// What a piece of text is, which decides its colour and nothing else: words carry the meaning.
enum class Role {
  kPlain,
  kGood,     ///< the verdict of a pass
  kBad,      ///< the verdict of a divergence
  kTrouble,  ///< the verdict of exits 3, 4 and 5
  kOperator,
  kPlace,  ///< module and source
  kOrigin,
  kPropagated,
  kMissing,
  kHint,
};

/// One physical line, made of pieces; escapes what it is given.
class Line {
 public:
  Line() = default;
  explicit Line(std::string_view text, Role role = Role::kPlain) { put(text, role); }

  Line& put(std::string_view text, Role role = Role::kPlain);
  Line& put(const Line& other);
  /// @param file  that a terminal may open; without effect where it is not absolute
  Line& link(std::string_view text, Role role, std::string_view file);

  [[nodiscard]] std::size_t columns() const noexcept;
  /// Without a newline. No workflow command can begin here, whatever the pieces are.
  /// @param link_host  as RenderOptions has it; links come with colours only
  [[nodiscard]] std::string str(bool color, std::string_view link_host = {}) const;
  /// The text as it was handed in, for formats that escape by rules of their own.
  [[nodiscard]] const std::string& raw() const noexcept { return raw_; }

 private:
  struct Piece {
    std::string text;
    Role role = Role::kPlain;
    std::string path;  ///< of a URI, encoded; empty = no link
  };
  std::vector<Piece> pieces_;
  std::string raw_;
};

/// Lines under labels: two spaces, the label padded to kBodyColumn, the body.
class Page {
 public:
  static constexpr std::size_t kBodyColumn = 13;
  /// Columns of a body.
  static constexpr std::size_t kBodyWidth = 67;

  /// @param label  shown in front of the line; empty for a continuation
  /// @param body   at most kBodyWidth columns; a wider one is cut by its maker, not here
  void add(std::string_view label, const Line& body);

  /// Escapes `text` and wraps it at spaces, and inside a word that is wider than a line.
  /// @param max_lines  what does not fit in them ends in `...`
  void prose(std::string_view label,
             std::string_view text,
             std::size_t max_lines,
             Role role = Role::kPlain);

  void append(const Page& other);
  /// Keeps the first `lines` lines; the last of them says that `-v` shows the rest.
  /// @param lines  at least 1
  void shorten(std::size_t lines);
  [[nodiscard]] std::size_t size() const noexcept { return lines_.size(); }
  /// Every line ends in a newline.
  [[nodiscard]] std::string str(bool color, std::string_view link_host = {}) const;

 private:
  std::vector<Line> lines_;
};

/// `text`, escaped, in lines of at most `width` columns.
/// @param width  at least 4
std::vector<std::string> wrap(std::string_view text, std::size_t width);

}  // namespace repro_check::cmd
