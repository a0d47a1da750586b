// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Text of one line, made of pieces; escapes what it is given.
class Line {
 public:
  Line() = default;
  explicit Line(std::string_view text, Role role = Role::kPlain) { put(text, role); }

  Line& put(std::string_view text, Role role = Role::kPlain);
  Line& put(const Line& other);
  /// @param file  that a terminal may open; without effect where it is not absolute
  Line& link(std::string_view text, Role role, std::string_view file);

  [[nodiscard]] std::size_t columns() const noexcept;
  /// Whole, in lines that break at spaces, and inside a word that is wider than a line.
  /// @param first  columns of the first line
  /// @param width  of the others; 0 = one line, whatever its length
  [[nodiscard]] std::vector<Line> wrapped(std::size_t first, std::size_t width) const;
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
  class Wrapping;

  std::vector<Piece> pieces_;
  std::string raw_;
};

/// Paragraphs under labels: two spaces, the label padded to kBodyColumn, the body.
class Page {
 public:
  static constexpr std::size_t kBodyColumn = 13;

  /// @param label  shown in front of the body; empty for one that belongs to the last label
  void add(std::string_view label, Line body);
  /// The same of sentences, and nothing where `text` is empty.
  void prose(std::string_view label, std::string_view text, Role role = Role::kPlain);
  /// The first so many of them, under one label.
  void list(std::string_view label,
            const std::vector<std::string>& texts,
            std::size_t most = std::string::npos);
  /// `... and 3 more: -v`, where some are left. @param how  to see them
  void left_out(std::uint64_t left, std::string_view how);

  /// Every line ends in a newline.
  /// @param columns  that the lines are wrapped to; 0 = a line a paragraph
  [[nodiscard]] std::string str(bool color,
                                std::string_view link_host = {},
                                std::size_t columns = 0) const;

 private:
  struct Paragraph {
    std::string label;
    Line body;
  };
  std::vector<Paragraph> paragraphs_;
};

}  // namespace repro_check::cmd
