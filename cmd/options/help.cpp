// SPDX-License-Identifier: Apache-2.0
#include "cmd/options/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "cmd/render/page.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

constexpr std::size_t kTextColumn = 30;

/// `-n,--repeat N`
std::string left_of(const CliOption& option) {
  std::string text = fmt::format("{}", fmt::join(option.names, ","));
  if (!option.value.empty()) text += " " + option.value;
  return text + (option.repeats ? " ..." : "");
}

std::string right_of(const CliOption& option) {
  return option.description + (option.required ? " (required)" : "");
}

std::string row(const std::string& left, const std::string& right) {
  std::string text = "  " + left;
  if (text.size() + 1 > kTextColumn) text += "\n" + std::string(kTextColumn, ' ');
  return fmt::format("{:<{}}{}\n", text, kTextColumn, right);
}

/// Rows below their headings, in the order in which these are met first.
class Sections {
 public:
  void add(const std::string& heading, const std::string& row) {
    auto found = std::ranges::find(sections_, heading, &Section::first);
    if (found == sections_.end()) found = sections_.insert(found, {heading, ""});
    found->second += row;
  }
  void add(std::span<const CliOption> options) {
    for (const CliOption& option : options) {
      add(option.heading, row(left_of(option), right_of(option)));
    }
  }
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const auto& [heading, rows] : sections_) text += fmt::format("\n{}:\n{}", heading, rows);
    return text;
  }

 private:
  using Section = std::pair<std::string, std::string>;
  std::vector<Section> sections_;
};

/// `Usage: repro-check replay [OPTIONS] --op INDEX dump`
std::string usage(const CliVerb& verb, const std::string& words) {
  std::string text = "Usage: " + words + " [OPTIONS]";
  for (const CliOption& option : verb.options) {
    if (option.required) text += fmt::format(" {} {}", option.names.back(), option.value);
  }
  for (const CliOption& positional : verb.positionals) {
    std::string name = positional.names.front() + (positional.repeats ? "..." : "");
    if (positional.takes == Takes::kCommand) name.insert(0, "-- ");
    text += positional.required ? fmt::format(" {}", name) : fmt::format(" [{}]", name);
  }
  const bool below_tool = words.find(' ') != std::string::npos;
  if (!verb.verbs.empty()) text += below_tool ? " [COMMAND]" : " COMMAND";
  return text + "\n";
}

std::string within(const std::string& help, std::size_t columns) {
  constexpr std::size_t kIndent = 6;
  constexpr std::size_t kNarrowest = 24;
  std::string out;
  std::vector<std::string_view> lines = core::split(help, '\n');
  lines.pop_back();  // behind the last newline
  for (std::string_view line : lines) {
    if (columns == 0 || line.size() <= columns) {
      out.append(line) += '\n';
      continue;
    }
    const std::size_t start = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t gap = line.find("  ", start);
    std::size_t indent = gap == std::string::npos ? start : line.find_first_not_of(' ', gap);
    std::string before(line.substr(0, indent));
    line.remove_prefix(indent);
    if (gap == std::string::npos) {
      indent += 2;
    } else if (indent + kNarrowest > columns) {
      out += before.substr(0, gap) + "\n";
      indent = kIndent;
      before.assign(indent, ' ');
    }
    const std::size_t width = std::max(columns, indent + 4) - indent;
    for (const Line& piece : Line(line).wrapped(width, width)) {
      out += before + piece.str(false) + "\n";
      before.assign(indent, ' ');
    }
  }
  return out;
}

}  // namespace

std::string option_line(const CliOption& option) {
  return left_of(option) + "  " + right_of(option);
}

std::string help_text(const CliVerb& verb,
                      const std::string& words,
                      const std::string& footer,
                      std::size_t columns) {
  Sections sections;
  for (const CliOption& positional : verb.positionals) {
    sections.add("Positionals", row(left_of(positional), right_of(positional)));
  }
  Sections verbs;
  for (const CliVerb& below : verb.verbs) verbs.add(below.heading, row(below.name, below.summary));
  sections.add(verb.options);
  Sections globals;
  globals.add(verb.global_options);
  std::string text =
      verb.summary + "\n" + usage(verb, words) + verbs.text() + sections.text() + globals.text();
  if (!verb.examples.empty()) text += "\nExamples:\n";
  for (const std::string& example : verb.examples) text += "  " + example + "\n";
  return within(text + "\n" + footer, columns);
}

}  // namespace repro_check::cmd
