// SPDX-License-Identifier: Apache-2.0
// `man`: the manual pages, made of the options of the tool.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/terminal/output.h"
#include "cmd/words/catalogue.h"
#include "core/error.h"

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

std::string entries(const std::vector<CliOption>& options) {
  std::string out;
  for (const CliOption& option : options) out += option_entry(option);
  return out;
}

std::string section(std::string_view title, const std::vector<CliOption>& options) {
  return options.empty() ? "" : fmt::format(".SH {}\n", title) + entries(options);
}

/// Below the headings that the help has.
std::string option_sections(const std::vector<CliOption>& options) {
  std::vector<std::string> headings;
  for (const CliOption& option : options) {
    if (std::ranges::find(headings, option.heading) == headings.end()) {
      headings.push_back(option.heading);
    }
  }
  std::string out = ".SH OPTIONS\n";
  for (const std::string& heading : headings) {
    if (heading != headings.front()) out += ".SS " + roff(heading) + "\n";
    for (const CliOption& option : options) {
      if (option.heading == heading) out += option_entry(option);
    }
  }
  return out;
}

/// `repro-check gate accept [OPTIONS] [file ...]`
std::string synopsis(const std::string& words, const CliVerb& verb) {
  std::string out = fmt::format("\\fBrepro\\-check {}\\fR [\\fIOPTIONS\\fR]", roff(words));
  for (const CliOption& positional : verb.positionals) {
    const std::string name = fmt::format(
        "\\fI{}\\fR{}", roff(positional.names.front()), positional.repeats ? " ..." : "");
    out += positional.required ? " " + name : " [" + name + "]";
  }
  return out + (verb.verbs.empty() ? "" : " [\\fICOMMAND\\fR]") + "\n";
}

/// The verbs below a verb, each with all that it takes.
std::string verbs_below(const CliVerb& verb) {
  if (verb.verbs.empty()) return {};
  std::string out = ".SH COMMANDS\n";
  for (const CliVerb& below : verb.verbs) {
    const std::string words = verb.name + " " + below.name;
    out += ".SS " + roff(words) + "\n" + synopsis(words, below) + ".PP\n" + roff(below.summary) +
           "\n" + entries(below.positionals) + entries(below.options);
  }
  return out;
}

std::string exit_status() {
  std::string out = ".SH EXIT STATUS\n";
  for (const auto& [code, text] : exit_codes().items()) {
    out += code == "several" ? ".PP\n" : fmt::format(".TP\n{}\n", code);
    out += roff(text.get<std::string>()) + "\n";
  }
  return out;
}

std::string examples(const std::vector<std::string>& lines) {
  if (lines.empty()) return {};
  std::string out = ".SH EXAMPLES\n.nf\n";
  for (const std::string& line : lines) out += roff(line) + "\n";
  return out + ".fi\n";
}

/// `repro-check.1`, in the man macros.
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

/// `repro-check-diff.1`
std::string man_page(const CliVerb& tool, const CliVerb& verb) {
  std::string out = head("repro-check-" + verb.name, verb.summary);
  out += ".SH SYNOPSIS\n" + synopsis(verb.name, verb);
  out += section("ARGUMENTS", verb.positionals) + option_sections(verb.options);
  out += verbs_below(verb);
  out += section("OPTIONS EVERYWHERE", tool.global_options) + exit_status();
  return out + examples(verb.examples) + ".SH SEE ALSO\n\\fBrepro\\-check\\fR(1)\n";
}

void write_all(const CliVerb& tool, const std::filesystem::path& directory) {
  std::error_code ignored;  // told by require_writable()
  std::filesystem::create_directories(directory, ignored);
  require_writable(directory / "repro-check.1");
  write_file(directory / "repro-check.1", man_page(tool));
  for (const CliVerb& verb : tool.verbs) {
    write_file(directory / ("repro-check-" + verb.name + ".1"), man_page(tool, verb));
  }
}

class ManCommand final : public Command {
 public:
  ManCommand() : Command({"man", "Print a manual page"}) {}

  void define(Options& options) override {
    options_ = &options;
    Command::define(options);
  }

  core::ExitCode run(const GlobalOptions& /*globals*/) override {
    const CliVerb tool = options_->tool_tree();
    if (directory_) {
      write_all(tool, *directory_);
    } else {
      write_stdout(verb_ ? man_page(tool, find(tool)) : man_page(tool));
    }
    return core::ExitCode::kReproducible;
  }

 private:
  [[nodiscard]] const CliVerb& find(const CliVerb& tool) const {
    std::vector<std::string> names;
    for (const CliVerb& verb : tool.verbs) {
      if (verb.name == *verb_) return verb;
      names.push_back(verb.name);
    }
    throw core::usage_error("unknown command \"" + *verb_ + "\"",
                            near_hint(*verb_, names, "see `repro-check --help`"));
  }

  const Options* options_ = nullptr;
  std::optional<std::string> verb_ = value(&verb_, "command COMMAND");
  std::optional<std::string> directory_ =
      value(&directory_, "--directory DIR", {.takes = Takes::kDirectory, .excludes = "command"});
};

}  // namespace

std::unique_ptr<Command> man_command() { return std::make_unique<ManCommand>(); }

}  // namespace repro_check::cmd
