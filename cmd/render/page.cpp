// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/page.h"

#include <algorithm>
#include <utility>

#include "cmd/render/escape.h"
#include "cmd/render/text.h"

namespace repro_check::cmd {
namespace {

std::string_view ansi_of(Role role) {
  switch (role) {
    case Role::kGood:
      return "\x1b[1;32m";
    case Role::kBad:
      return "\x1b[1;31m";
    case Role::kTrouble:
      return "\x1b[1;33m";
    case Role::kOperator:
      return "\x1b[1m";
    case Role::kPlace:
      return "\x1b[36m";
    case Role::kOrigin:
      return "\x1b[31m";
    case Role::kPropagated:
      return "\x1b[34m";
    case Role::kMissing:
      return "\x1b[35m";
    case Role::kHint:
      return "\x1b[2m";
    case Role::kPlain:
      break;
  }
  return {};
}

/// Puts a word that takes more than `width` columns, at least 4, on lines of its own, but for its
/// end, which is returned.
std::string split_word(std::string word, std::size_t width, std::vector<std::string>& lines) {
  constexpr std::string_view kColon = "\\x3a";
  std::size_t begin = 0;
  for (;;) {
    const std::string_view rest = std::string_view(word).substr(begin);
    const std::size_t bytes = bytes_within(rest, width);
    if (bytes == rest.size()) return std::string(rest);
    lines.emplace_back(rest.substr(0, bytes));
    begin += bytes;
    // What now begins a line may read as a workflow command; what was cut off has room for more.
    if (word.compare(begin, 2, "::") == 0) {
      begin -= kColon.size() - 1;
      word.replace(begin, kColon.size(), kColon);
    }
  }
}

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
  if (!text.empty() && file.starts_with('/')) {
    pieces_.back().path = uri_path(file);
  }
  return *this;
}

std::size_t Line::columns() const noexcept {
  std::size_t total = 0;
  for (const Piece& piece : pieces_) {
    total += cmd::columns(piece.text);
  }
  return total;
}

std::string Line::str(bool color, std::string_view link_host) const {
  std::string out;
  for (const Piece& piece : pieces_) {
    const std::string_view start = color ? ansi_of(piece.role) : std::string_view{};
    const bool is_link = color && !link_host.empty() && !piece.path.empty();
    // OSC 8: the path is percent-encoded, so nothing in it can end the sequence.
    if (is_link) {
      out.append("\x1b]8;;file://").append(uri_path(link_host)).append(piece.path).append("\x1b\\");
    }
    out.append(start).append(piece.text).append(start.empty() ? "" : "\x1b[0m");
    if (is_link) {
      out.append("\x1b]8;;\x1b\\");
    }
  }
  // Two harmless pieces may have made a workflow command together; colours keep them apart.
  return color ? out : escape_name(out);
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  std::string line;
  const auto flush = [&] {
    if (!line.empty()) {
      lines.push_back(std::move(line));
      line.clear();
    }
  };
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    std::string word(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
    if (word.empty()) {
      continue;
    }
    if (!line.empty() && columns(line) + 1 + columns(word) > width) {
      flush();
    }
    line.append(line.empty() ? "" : " ").append(split_word(std::move(word), width, lines));
  }
  flush();
  return lines;
}

void Page::add(std::string_view label, const Line& body) {
  std::string front = "  " + fit(label, kBodyColumn - 3);
  front.resize(front.size() + kBodyColumn - columns(front), ' ');
  lines_.push_back(Line(front).put(body));
}

void Page::prose(std::string_view label, std::string_view text, std::size_t max_lines, Role role) {
  std::vector<std::string> body = wrap(escape_name(text), kBodyWidth);
  if (body.size() > max_lines) {
    body.resize(max_lines);
    const std::string last = body.back();
    body.back() = last.substr(0, bytes_within(last, kBodyWidth - 4)) + " ...";
  }
  for (std::size_t i = 0; i < body.size(); ++i) {
    add(i == 0 ? label : std::string_view{}, Line(body[i], role));
  }
}

void Page::append(const Page& other) {
  lines_.insert(lines_.end(), other.lines_.begin(), other.lines_.end());
}

void Page::shorten(std::size_t lines) {
  if (lines_.size() > lines) {
    lines_.resize(lines - 1);
    add("", Line("... and more: -v", Role::kHint));
  }
}

std::string Page::str(bool color, std::string_view link_host) const {
  std::string out;
  for (const Line& line : lines_) {
    out += line.str(color, link_host);
    out += '\n';
  }
  return out;
}

}  // namespace repro_check::cmd
