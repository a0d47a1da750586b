// SPDX-License-Identifier: Apache-2.0
// The only file of the tool that sees CLI11, whose headers take long to compile.
#include "cmd/options/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <type_traits>

#include "cmd/render/page.h"
#include "cmd/render/render.h"
#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGlobalGroup = "Everywhere";

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

std::optional<std::string> near(const std::string& word, const std::vector<std::string>& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  const auto found = core::near_miss(word, views);
  return found ? std::optional(std::string(*found)) : std::nullopt;
}

std::vector<const CLI::App*> below(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// `repro-check gate accept`
std::string words_of(const CLI::App& verb) {
  const CLI::App* above = verb.get_parent();
  return above == nullptr ? verb.get_name() : words_of(*above) + " " + verb.get_name();
}

/// The command that was chosen, down to the verb below a verb; the tool where none was.
const CLI::App* chosen_verb(const CLI::App& app) {
  const CLI::App* verb = &app;
  while (!verb->get_subcommands().empty()) verb = verb->get_subcommands().front();
  return verb;
}

/// The name of what an option takes: a check may have put its own words behind it.
std::string type_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

[[noreturn]] void reject_extra(const std::string& word, const CLI::App& app, const CLI::App* verb) {
  const std::string name = word.substr(0, word.find('='));
  const CLI::App& place = verb == nullptr ? app : *verb;
  std::string message;
  std::vector<std::string> known;
  if (name.starts_with("-")) {
    message = "unknown option " + name;
    for (const CLI::Option* option : place.get_options()) {
      for (const std::string& each : option->get_lnames()) known.push_back("--" + each);
      for (const std::string& each : option->get_snames()) known.push_back("-" + each);
    }
  } else {
    message = verb == nullptr ? "unknown command \"" + name + "\""
                              : "unexpected argument \"" + word + "\"";
    for (const CLI::App* each : below(place)) known.push_back(each->get_name());
  }
  if (name == "-V") throw core::usage_error(message, "did you mean --version?");
  // Of one letter any other is near.
  if (name.size() < 2 || (name.size() == 2 && name.starts_with("-"))) known.clear();
  throw core::usage_error(message, near_hint(name, known, "see `" + words_of(place) + " --help`"));
}

/// Turns CLI11's exceptions into ours. An unknown word is named before anything it may have caused,
/// such as a positional that seems to be missing.
[[noreturn]] void reject(const CLI::ParseError& error, const CLI::App& app) {
  const CLI::App* chosen = chosen_verb(app);
  const CLI::App* verb = chosen == &app ? nullptr : chosen;
  std::vector<std::string> stray = app.remaining(true);
  stray.erase(std::ranges::find(stray, "--"), stray.end());  // what follows is a program's
  const bool is_required = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const bool is_about_words =
      dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr || is_required;
  if (is_about_words && !stray.empty()) {
    // The first word is a verb, and what follows is its own. Else options come first: the word
    // after an unknown option may be its value.
    if (verb == nullptr && !stray.front().starts_with("-")) reject_extra(stray.front(), app, verb);
    for (const std::string& word : stray) {
      if (word.starts_with("-")) reject_extra(word, app, verb);
    }
    reject_extra(stray.front(), app, verb);
  }
  if (verb == nullptr && is_required) {
    throw core::usage_error("no command was given", "see `repro-check --help`");
  }
  std::string message = error.what();
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    // CLI11 says "Could not convert: --op = x".
    message = message.substr(message.find(": ") + 2);
    if (const std::size_t equals = message.find(" = "); equals != std::string::npos) {
      message =
          message.substr(0, equals) + ": \"" + message.substr(equals + 3) + "\" is not a number";
    }
  }
  throw core::usage_error(message, "see `" + words_of(*chosen) + " --help`");
}

/// Of an option as Options has it: `-n,--repeat`, `N` and `Run so many times`.
struct OptionText {
  explicit OptionText(const std::string& text) {
    const std::size_t shown = text.find("  ");
    const std::size_t space = text.find(' ');
    names = text.substr(0, space);
    if (space < shown) value = text.substr(space + 1, shown - space - 1);
    help = text.substr(shown + 2);
  }
  std::string names;
  std::string value;  ///< empty for a flag
  std::string help;
};

/// Help as wide as `columns`: what is too long goes on below where its text began.
/// @param columns  0 = as it is
std::string help_within(const std::string& help, std::size_t columns) {
  constexpr std::size_t kIndent = 6;
  constexpr std::size_t kNarrowest = 24;
  if (columns == 0) return help;
  std::string out;
  for (std::string line : split(help, '\n')) {
    if (line.size() <= columns) {
      out += line + "\n";
      continue;
    }
    const std::size_t start = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t gap = line.find("  ", start);
    std::size_t indent = gap == std::string::npos ? start : line.find_first_not_of(' ', gap);
    std::string before = line.substr(0, indent);
    line.erase(0, indent);
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

CliOption to_option(const CLI::Option& option, bool positional) {
  CliOption out;
  if (positional) {
    out.names.push_back(option.get_name(true));
  } else {
    for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  }
  const bool is_flag = option.get_items_expected_max() == 0;
  out.value = is_flag ? "" : type_of(option);
  if (out.value.find('|') != std::string::npos) out.words = split(out.value, '|');
  if (out.value == "FORMAT=DEST") {
    for (const ReportFormat& format : report_formats()) {
      out.words.push_back(std::string(format.name) + "=");
    }
  }
  out.description = option.get_description();
  out.repeats = option.get_items_expected_max() > 1;
  out.required = option.get_required();
  return out;
}

CliVerb tree_of(const CLI::App& app) {
  CliVerb out;
  out.name = app.get_name();
  out.summary = app.get_description();
  const std::vector<std::string> footer = split(app.get_footer(), '\n');
  if (!footer.empty() && footer.front() == "Examples:") {
    out.examples.assign(footer.begin() + 1, footer.end());
    for (std::string& line : out.examples) line.erase(0, 2);
  }
  for (const CLI::Option* option : app.get_options()) {
    // One may be both: `config,-c,--config`.
    if (option->get_positional()) out.positionals.push_back(to_option(*option, true));
    if (!option->nonpositional()) continue;
    const bool is_global = option->get_group() == kGlobalGroup;
    (is_global ? out.global_options : out.options).push_back(to_option(*option, false));
  }
  for (const CLI::App* verb : below(app)) out.verbs.push_back(tree_of(*verb));
  return out;
}

}  // namespace

std::string near_hint(const std::string& word,
                      const std::vector<std::string>& candidates,
                      const std::string& otherwise) {
  const auto found = near(word, candidates);
  return found ? "did you mean " + *found + "?" : otherwise;
}

void expect_path(const std::string& given) {
  std::error_code ignored;
  if (fs::status(given, ignored).type() != fs::file_type::not_found) return;
  const fs::path path = given;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  const auto beside = near(path.filename().string(), names);
  throw core::usage_error(
      core::printable(given) + ": no such file or directory",
      beside ? "did you mean " + core::printable((path.parent_path() / *beside).string()) + "?"
             : "check the path");
}

Options::Options(const std::string& name, const std::string& summary)
    : tool_(std::make_unique<CLI::App>(summary, name)), app_(tool_.get()) {
  app_->set_help_flag("-h,--help", "Print this help");
  app_->require_subcommand(1);
  app_->get_formatter()->label("SUBCOMMAND", "COMMAND");
}

Options::Options(CLI::App* app) : app_(app) {}

Options::~Options() = default;

void Options::keep_to(CLI::Option& option, const std::string& value, const OptionRules& rules) {
  if (!value.empty()) option.type_name(value);
  if (global_) option.group(kGlobalGroup);
  if (rules.required) option.required();
  if (rules.repeatable) option.take_all();
  // Else one word each time, or it would take those of a program.
  const bool is_named = !option.get_lnames().empty() || !option.get_snames().empty();
  if (is_named && !rules.words) option.allow_extra_args(false);
  if (rules.commas) option.delimiter(',');
  if (rules.shows_default) option.capture_default_str();
  if (rules.excludes != nullptr) option.excludes(app_->get_option(rules.excludes));
  if (rules.range) {
    CLI::Validator range = CLI::Range(rules.range->first, rules.range->second);
    if (!rules.shows_range) range.description("");
    option.check(range);
  }
  if (rules.check) {
    const auto check = [check = rules.check](std::string& given) -> std::string {
      check(given);
      return {};
    };
    option.check(CLI::Validator(check, "", "value"));
  }
  // For numbers that cannot be negative: CLI11 takes -1 for the largest one.
  if (value == "N" || value.starts_with("N,") || value == "INDEX" || value == "SECONDS") {
    const auto count = [](std::string& given) -> std::string {
      return given.starts_with("-") ? "expected a number of 0 or more, got " + given : "";
    };
    option.check(CLI::Validator(count, "", "count"));
  }
}

void Options::value(const std::string& text, const Target& into, const OptionRules& rules) {
  const OptionText said(text);
  const auto add = [&](const auto& target) -> CLI::Option* {
    if constexpr (std::is_pointer_v<std::decay_t<decltype(target)>>) {
      return app_->add_option(said.names, *target, said.help);
    } else {
      return app_->add_option_function<std::string>(said.names, target, said.help);
    }
  };
  keep_to(*std::visit(add, into), said.value, rules);
}

void Options::word(const std::string& text, const Target& into, const OptionRules& rules) {
  value(text, into, rules);
  const OptionText said(text);
  const auto check = [known = split(said.value, '|')](std::string& given) -> std::string {
    if (std::ranges::find(known, given) != known.end()) return {};
    const auto found = near(given, known);
    return fmt::format("\"{}\" is none of {}{}",
                       given,
                       fmt::join(known, ", "),
                       found ? fmt::format("; did you mean {}?", *found) : "");
  };
  // Without a description: CLI11 would print the words a second time in the help.
  const std::string last = said.names.substr(said.names.rfind(',') + 1);
  app_->get_option(last)->check(CLI::Validator(check, "", "words"));
}

void Options::flag(const std::string& text, const FlagTarget& into, const OptionRules& rules) {
  const OptionText said(text);
  const auto add = [&](const auto& target) -> CLI::Option* {
    using Given = std::decay_t<decltype(target)>;
    if constexpr (std::is_same_v<Given, bool*>) {
      return app_->add_flag(said.names, *target, said.help);
    } else if constexpr (std::is_pointer_v<Given>) {
      const auto take = [target](std::int64_t number) {
        *target = static_cast<std::uint64_t>(std::max<std::int64_t>(0, number));
      };
      return app_->add_flag_function(said.names, take, said.help);
    } else {
      return app_->add_flag_function(said.names, target, said.help);
    }
  };
  keep_to(*std::visit(add, into), "", rules);
}

void Options::command(const std::string& text, std::vector<std::string>* into) {
  const OptionRules rules{.check = [](const std::string& word) {
    throw core::usage_error("unexpected argument \"" + word + "\"",
                            "the command of a program stands behind --");
  }};
  value(text, into, rules);
  command_ = into;
}

std::vector<const char*> Options::take_command(std::vector<const char*> words) const {
  const auto dashes = std::ranges::find(words, std::string_view("--"));
  if (dashes == words.end()) return words;
  const auto verb = std::find_if(words.begin() + 1, dashes, [&](std::string_view word) {
    return std::ranges::any_of(verbs_, [&](const auto& one) { return one->name() == word; });
  });
  if (verb == dashes) return words;
  for (const auto& one : verbs_) {
    if (one->name() != *verb || one->command_ == nullptr) continue;
    one->command_->assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
    break;
  }
  return words;
}

Options& Options::verb(const std::string& name, const std::string& summary) {
  const bool is_tool = tool_ != nullptr;
  if (!is_tool) app_->require_subcommand(0, 1);
  CLI::App* verb = app_->add_subcommand(name, summary);
  if (is_tool) {
    verb->group("Commands");
    verb->set_help_flag("-h,--help", "Print this help");
  }
  verbs_.emplace_back(new Options(verb));
  return *verbs_.back();
}

std::string Options::name() const { return app_->get_name(); }

std::string Options::words() const { return words_of(*app_); }

bool Options::is_chosen() const { return app_->parsed(); }

void Options::footer(const std::string& text) { app_->footer(text); }

void Options::begin_globals() {
  // Of a verb below a verb behind what is its own.
  if (app_->get_parent() != nullptr && app_->get_parent()->get_parent() != nullptr) {
    app_->set_help_flag("-h,--help", "Print this help");
  }
  global_ = true;
}

void Options::version(const std::function<std::string()>& text) {
  app_->set_version_flag("--version", text, "Print versions");
}

std::optional<std::string> Options::parse(const std::vector<const char*>& words,
                                          std::size_t columns) {
  const std::vector<const char*> own = take_command(words);
  try {
    app_->parse(static_cast<int>(own.size()), own.data());
  } catch (const CLI::CallForVersion& version) {
    return std::string(version.what()) + "\n";
  } catch (const CLI::CallForHelp&) {
    // CLI11 asks for help before it looks at words.
    if (!app_->remaining(true).empty()) reject(CLI::ExtrasError(app_->remaining(true)), *app_);
    return help_within(app_->help(), columns);
  } catch (const CLI::ParseError& error) {
    reject(error, *app_);
  }
  return std::nullopt;
}

void Options::expect_paths() const {
  for (const CLI::Option* option : chosen_verb(*app_)->get_options()) {
    const std::string type = type_of(*option);
    if (type != "DUMP" && type != "JOURNAL" && type != "FILE.tar.zst") continue;
    for (const std::string& given : option->results()) expect_path(given);
  }
}

void OptionGroup::define(Options& options) {
  for (const auto& add : members_) add(options);
}

CliVerb Options::tool_tree() const {
  const CLI::App* app = app_;
  while (app->get_parent() != nullptr) app = app->get_parent();
  return tree_of(*app);
}

}  // namespace repro_check::cmd
