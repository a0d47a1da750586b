// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cmd/render/text.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

constexpr std::size_t kLeastColumns = 40;

/// By Role, between the start and the end of an escape sequence.
constexpr std::string_view kAnsi = "|1;32|1;31|1;33|1|36|31|34|35|2";

}  // namespace

Line& Line::put(std::string_view text, Role role) {
  if (!text.empty()) {
    pieces_.push_back({escape_name(text), role, {}});
    raw_ += text;
  }
  return *this;
}

Line& Line::put(const Line& other) {
  pieces_.insert(pieces_.end(), other.pieces_.begin(), other.pieces_.end());
  raw_ += other.raw_;
  return *this;
}

Line& Line::link(std::string_view text, Role role, std::string_view file) {
  put(text, role);
  if (!text.empty() && file.starts_with('/')) pieces_.back().path = uri_path(file);
  return *this;
}

std::size_t Line::columns() const noexcept {
  std::size_t total = 0;
  for (const Piece& piece : pieces_) total += cmd::columns(piece.text);
  return total;
}

std::string Line::str(bool color, std::string_view link_host) const {
  std::string out;
  for (const Piece& piece : pieces_) {
    const std::string_view code =
        color ? core::word_at(kAnsi, static_cast<std::size_t>(piece.role)) : "";
    const bool is_link = color && !link_host.empty() && !piece.path.empty();
    // OSC 8: the path is percent-encoded, so nothing in it can end the sequence.
    if (is_link) {
      out.append("\x1b]8;;file://").append(uri_path(link_host)).append(piece.path).append("\x1b\\");
    }
    out += code.empty() ? piece.text : fmt::format("\x1b[{}m{}\x1b[0m", code, piece.text);
    if (is_link) out.append("\x1b]8;;\x1b\\");
  }
  // Two harmless pieces may have made a workflow command together; colours keep them apart.
  return color ? out : escape_name(out);
}

/// Lays pieces into lines.
class Line::Wrapping {
 public:
  Wrapping(std::size_t first, std::size_t width) : first_(first), width_(width) {}

  void take(const Piece& piece) {
    for (std::string_view rest = piece.text; !rest.empty();) {
      const std::size_t space = std::min(rest.find(' '), rest.size());
      if (space != 0) {
        word_.push_back({std::string(rest.substr(0, space)), piece.role, piece.path});
        word_columns_ += cmd::columns(word_.back().text);
      }
      if (space == rest.size()) break;
      end_word();
      rest.remove_prefix(space + 1);
    }
  }

  std::vector<Line> finish() {
    end_word();
    return std::move(lines_);
  }

 private:
  [[nodiscard]] std::size_t room() const { return (lines_.size() == 1 ? first_ : width_) - taken_; }

  void next_line() {
    lines_.emplace_back();
    taken_ = 0;
  }

  /// Of one role, words and what is between them are one piece.
  void put(const Piece& piece, std::string_view text) {
    std::vector<Piece>& line = lines_.back().pieces_;
    const bool is_more =
        !line.empty() && line.back().role == piece.role && line.back().path == piece.path;
    if (!is_more) line.push_back({{}, piece.role, piece.path});
    line.back().text += text;
    taken_ += cmd::columns(text);
  }

  /// A word may be made of several pieces, `(` and a place.
  void end_word() {
    if (word_.empty()) return;
    if (taken_ != 0 && word_columns_ >= room()) next_line();
    if (taken_ != 0) {
      const bool is_same = lines_.back().pieces_.back().role == word_.front().role;
      put(is_same ? word_.front() : Piece{}, " ");
    }
    for (const Piece& piece : word_) {
      std::string_view rest = piece.text;
      for (;;) {
        const std::size_t bytes = bytes_within(rest, room());
        put(piece, rest.substr(0, bytes));
        rest.remove_prefix(bytes);
        if (rest.empty()) break;
        next_line();
        // What now begins a line may read as a workflow command.
        if (!rest.starts_with("::")) continue;
        put(piece, "\\x3a");
        rest.remove_prefix(1);
      }
    }
    word_.clear();
    word_columns_ = 0;
  }

  std::size_t first_;
  std::size_t width_;
  std::vector<Line> lines_{1};
  std::size_t taken_ = 0;  ///< columns of the last line
  std::vector<Piece> word_;
  std::size_t word_columns_ = 0;
};

std::vector<Line> Line::wrapped(std::size_t first, std::size_t width) const {
  if (width == 0 || columns() <= first) return {*this};
  Wrapping wrapping(first, width);
  for (const Piece& piece : pieces_) wrapping.take(piece);
  return wrapping.finish();
}

void Page::add(std::string_view label, Line body) {
  paragraphs_.push_back({escape_name(label), std::move(body)});
}

void Page::prose(std::string_view label, std::string_view text, Role role) {
  std::string words;
  for (const char c : text) {
    if (c != ' ' || (!words.empty() && words.back() != ' ')) words += c;
  }
  if (words.ends_with(' ')) words.pop_back();
  if (!words.empty()) add(label, Line(words, role));
}

void Page::list(std::string_view label, const std::vector<std::string>& texts, std::size_t most) {
  for (std::size_t i = 0; i < std::min(most, texts.size()); ++i) {
    prose(i == 0 ? label : "", texts[i]);
  }
}

void Page::left_out(std::uint64_t left, std::string_view how) {
  if (left == 0) return;
  add("", Line(fmt::format("... and {} more: {}", format_count(left), how), Role::kHint));
}

std::string Page::str(bool color, std::string_view link_host, std::size_t columns) const {
  const std::size_t width = columns == 0 ? 0 : std::max(columns, kLeastColumns) - kBodyColumn;
  std::string out;
  for (const Paragraph& paragraph : paragraphs_) {
    std::string front = "  ";
    Line body = paragraph.body;
    std::size_t first = width;
    if (cmd::columns(paragraph.label) + 3 > kBodyColumn) {
      // A label that names something may take more than its column.
      body = Line(paragraph.label + " ").put(paragraph.body);
      first += width == 0 ? 0 : kBodyColumn - front.size();
    } else {
      front += paragraph.label;
      front.append(kBodyColumn - cmd::columns(front), ' ');
    }
    for (const Line& line : body.wrapped(first, width)) {
      out += Line(front).put(line).str(color, link_host) + '\n';
      front.assign(kBodyColumn, ' ');
    }
  }
  return out;
}

}  // namespace repro_check::cmd
