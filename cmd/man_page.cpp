// SPDX-License-Identifier: Apache-2.0
#include "cmd/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cmd/exit_table.h"

namespace repro_check::cmd {
namespace {

/// Text of a line: a backslash is one, a hyphen can be searched for, and no line begins a request.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string head(const std::string& page, const std::string& summary) {
  std::string upper = page;
  std::ranges::transform(upper, upper.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  // Without a date: two builds of one version are to be the same bytes.
  return fmt::format(".TH {} 1 \"\" \"repro\\-check {}\"\n.SH NAME\n{} \\- {}\n",
                     upper,
                     REPRO_CHECK_VERSION,
                     roff(page),
                     roff(summary));
}

std::string option_entry(const CliOption& option) {
  std::string names;
  for (const std::string& name : option.names) {
    names += (names.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
  }
  if (!option.value.empty()) names += " \\fI" + roff(option.value) + "\\fR";
  if (option.repeats) names += " ...";
  return ".TP\n" + names + "\n" + roff(option.description) + "\n";
}

std::string section(std::string_view title, const std::vector<CliOption>& options) {
  if (options.empty()) return {};
  std::string out = fmt::format(".SH {}\n", title);
  for (const CliOption& option : options) out += option_entry(option);
  return out;
}

std::string exit_status() {
  std::string out = ".SH EXIT STATUS\n";
  std::istringstream in(kExitTable);
  std::string line;
  std::getline(in, line);  // the heading of the help
  while (std::getline(in, line)) {
    line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
    const std::size_t gap = line.find("  ");
    if (gap == std::string::npos) {
      out += ".PP\n" + roff(line) + "\n";
    } else {
      out += fmt::format(".TP\n{}\n{}\n", line.substr(0, gap), roff(line.substr(gap + 2)));
    }
  }
  return out;
}

std::string examples(const std::vector<std::string>& lines) {
  if (lines.empty()) return {};
  std::string out = ".SH EXAMPLES\n.nf\n";
  for (const std::string& line : lines) out += roff(line) + "\n";
  return out + ".fi\n";
}

}  // namespace

std::string man_page(const CliVerb& tool) {
  std::string out = head("repro-check", tool.summary);
  out += ".SH SYNOPSIS\n\\fBrepro\\-check\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH COMMANDS\n";
  for (const CliVerb& verb : tool.verbs) {
    out += fmt::format(
        ".TP\n\\fBrepro\\-check\\-{}\\fR(1)\n{}\n", roff(verb.name), roff(verb.summary));
  }
  return out + section("OPTIONS", tool.options) +
         section("OPTIONS EVERYWHERE", tool.global_options) + exit_status();
}

std::string man_page(const CliVerb& tool, const CliVerb& verb) {
  std::string out = head("repro-check-" + verb.name, verb.summary);
  out += fmt::format(".SH SYNOPSIS\n\\fBrepro\\-check {}\\fR [\\fIOPTIONS\\fR]", roff(verb.name));
  for (const CliOption& positional : verb.positionals) {
    const std::string words = fmt::format(
        "\\fI{}\\fR{}", roff(positional.names.front()), positional.repeats ? " ..." : "");
    out += positional.required ? " " + words : " [" + words + "]";
  }
  out += fmt::format(
      "\n{}{}", section("ARGUMENTS", verb.positionals), section("OPTIONS", verb.options));
  out += section("OPTIONS EVERYWHERE", tool.global_options) + exit_status();
  return out + examples(verb.examples) + ".SH SEE ALSO\n\\fBrepro\\-check\\fR(1)\n";
}

}  // namespace repro_check::cmd
