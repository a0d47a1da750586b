// SPDX-License-Identifier: Apache-2.0
#include "cmd/application.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/manual/completions.h"
#include "cmd/options/choice.h"
#include "cmd/render/color.h"
#include "cmd/render/page.h"
#include "cmd/terminal/command.h"
#include "cmd/terminal/exit_table.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "cmd/version.h"
#include "core/error.h"
#include "core/text/near_miss.h"

namespace repro_check::cmd {
namespace {

const std::map<std::string, ColorMode> kColorModes{
    {"auto", ColorMode::kAuto}, {"always", ColorMode::kAlways}, {"never", ColorMode::kNever}};
const std::map<std::string, ProgressMode> kProgressModes{{"auto", ProgressMode::kAuto},
                                                         {"always", ProgressMode::kAlways},
                                                         {"never", ProgressMode::kNever}};

/// Bound to the tool and to every verb alike, so that they may stand on either side of the verb.
void add_global_options(CLI::App& app, GlobalOptions& globals) {
  const std::string group = "Everywhere";
  app.add_flag_function(
         "-q,--quiet",
         [&globals](std::int64_t) { globals.quiet = true; },
         "Print the verdict line only")
      ->group(group);
  app.add_flag_function(
         "-v,--verbose",
         [&globals](std::int64_t count) { globals.verbosity += static_cast<int>(count); },
         "Say more; twice: debug log on stderr")
      ->group(group);
  restrict_to(app.add_option_function<std::string>(
                  "--color",
                  [&globals](const std::string& mode) { globals.color = kColorModes.at(mode); },
                  "Colours"),
              {"auto", "always", "never"})
      ->group(group);
  restrict_to(
      app.add_option_function<std::string>(
          "--progress",
          [&globals](const std::string& mode) { globals.progress = kProgressModes.at(mode); },
          "Progress on stderr"),
      {"auto", "always", "never"})
      ->group(group);
}

/// @param about  only those that begin so
std::string examples_text(const Command& command, const std::string& about = {}) {
  std::string text = "Examples:\n";
  for (const std::string& example : command.examples()) {
    if (example.starts_with(about)) text += "  " + example + "\n";
  }
  return text;
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    verbs.push_back(verb->get_name());
  }
  return verbs;
}

/// The command that was chosen, down to the verb below a verb; the tool where none was.
const CLI::App* chosen_verb(const CLI::App& app) {
  const CLI::App* verb = &app;
  while (!verb->get_subcommands().empty()) verb = verb->get_subcommands().front();
  return verb;
}

/// `repro-check gate accept`
std::string words_of(const CLI::App& verb) {
  const CLI::App* above = verb.get_parent();
  return above == nullptr ? verb.get_name() : words_of(*above) + " " + verb.get_name();
}

[[noreturn]] void reject_extra(const std::string& word, const CLI::App& app, const CLI::App* verb) {
  const std::string name = word.substr(0, word.find('='));
  const std::string help = words_of(verb == nullptr ? app : *verb) + " --help";
  const bool is_option = name.starts_with("-");
  std::string message;
  std::vector<std::string> candidates;
  if (is_option) {
    message = "unknown option " + name;
    candidates = names_of(verb == nullptr ? app : *verb);
  } else if (verb == nullptr) {
    message = "unknown command \"" + name + "\"";
    candidates = verbs_of(app);
  } else {
    message = "unexpected argument \"" + word + "\"";
    candidates = verbs_of(*verb);
  }
  // Of one letter any other is near.
  const auto near =
      name.size() <= 2
          ? std::nullopt
          : core::near_miss(name,
                            std::vector<std::string_view>(candidates.begin(), candidates.end()));
  const std::string hint = near ? "did you mean " + std::string(*near) + "?" : "see `" + help + "`";
  throw core::Error(core::ErrorKind::kUsage, message, hint);
}

/// Turns CLI11's exceptions into ours. An unknown word is named before anything it may have caused,
/// such as a positional that seems to be missing.
[[noreturn]] void reject(const CLI::ParseError& error, const CLI::App& app) {
  const CLI::App* chosen = chosen_verb(app);
  const CLI::App* verb = chosen == &app ? nullptr : chosen;
  const std::vector<std::string> stray = app.remaining(true);
  const bool is_about_words = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                              dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (is_about_words && !stray.empty()) {
    // The first word is a verb, and what follows is its own. Else options come first: the word
    // after an unknown option may be its value.
    if (verb == nullptr && !stray.front().starts_with("-")) reject_extra(stray.front(), app, verb);
    for (const std::string& word : stray) {
      if (word.starts_with("-")) reject_extra(word, app, verb);
    }
    reject_extra(stray.front(), app, verb);
  }
  if (verb == nullptr && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    throw core::Error(core::ErrorKind::kUsage, "no command was given", "see `repro-check --help`");
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
  throw core::Error(core::ErrorKind::kUsage, message, "see `" + words_of(*chosen) + " --help`");
}

/// The name of what an option takes: a check may have put its own words behind it.
std::string type_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find_first_of(",: "));
}

/// Dumps are there, or the command line is wrong: told before anything is opened, and after what
/// else is wrong with the words.
void expect_paths(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options()) {
    const std::string type = type_of(*option);
    if (type != "DUMP" && type != "JOURNAL" && type != "FILE.tar.zst") continue;
    for (const std::string& given : option->results()) expect_path(given);
  }
}

/// For numbers that cannot be negative: CLI11 takes -1 for the largest one.
void refuse_negative_counts(CLI::App& app) {
  const auto check = [](std::string& given) -> std::string {
    return given.starts_with("-") ? "expected a number of 0 or more, got " + given : "";
  };
  for (CLI::Option* option : app.get_options()) {
    const std::string word = type_of(*option);
    if (word != "N" && word != "INDEX" && word != "SECONDS") continue;
    option->check(CLI::Validator(check, "", "count"));
  }
  for (CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    refuse_negative_counts(*verb);
  }
}

/// Help as wide as `columns`: what is too long goes on below where its text began.
/// @param columns  0 = as it is
std::string help_within(const std::string& help, std::size_t columns) {
  constexpr std::size_t kIndent = 6;
  constexpr std::size_t kNarrowest = 24;
  if (columns == 0) return help;
  std::string out;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
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

class Application {
 public:
  Application() : commands_(make_commands()) {
    app_.name("repro-check");
    app_.set_help_flag("-h,--help", "Print this help");
    app_.set_version_flag("--version", version_text, "Print versions");
    app_.footer(std::string(kExitTable) + "\nHelp on one command: repro-check COMMAND --help");
    app_.require_subcommand(1);
    app_.get_formatter()->label("SUBCOMMAND", "COMMAND");
    add_global_options(app_, globals_);
    for (const auto& command : commands_) {
      CLI::App* verb = app_.add_subcommand(command->name(), command->summary());
      verb->group("Commands");
      verb->set_help_flag("-h,--help", "Print this help");
      verb->footer(examples_text(*command));
      command->define(*verb);
      add_global_options(*verb, globals_);
      for (CLI::App* below : verb->get_subcommands([](const CLI::App*) { return true; })) {
        below->set_help_flag("-h,--help", "Print this help");
        below->footer(examples_text(*command, words_of(*below)));
        add_global_options(*below, globals_);
      }
    }
    refuse_negative_counts(app_);
  }

  core::ExitCode run(int argc, const char* const* argv) {
    std::vector<const char*> words(argv, argv + argc);
    if (argc > 1 && words[1] == std::string_view("help")) {
      words.erase(words.begin() + 1);
      words.push_back("--help");
    }
    // What a script of `completion` asks.
    if (words.size() > 4 && words[1] == std::string_view("completion") &&
        words[3] == std::string_view("--")) {
      write_stdout(next_words(walk(app_), {words.begin() + 4, words.end()}, words[2]));
      return core::ExitCode::kReproducible;
    }
    try {
      app_.parse(static_cast<int>(words.size()), words.data());
    } catch (const CLI::CallForVersion& version) {
      write_stdout(std::string(version.what()) + "\n");
      return core::ExitCode::kReproducible;
    } catch (const CLI::CallForHelp&) {
      // CLI11 asks for help before it looks at words.
      if (!app_.remaining(true).empty()) reject(CLI::ExtrasError(app_.remaining(true)), app_);
      write_stdout(help_within(app_.help(), text_columns(stdout_is_terminal(), &std::getenv)));
      return core::ExitCode::kReproducible;
    } catch (const CLI::ParseError& error) {
      reject(error, app_);
    }
    if (globals_.quiet && globals_.verbosity > 0) {
      throw core::Error(
          core::ErrorKind::kUsage, "-q and -v contradict each other", "give one of them");
    }
    set_log_level(globals_.verbosity, globals_.quiet);
    expect_paths(*chosen_verb(app_));
    const std::string chosen = app_.get_subcommands().front()->get_name();
    for (const auto& command : commands_) {
      if (command->name() == chosen) return command->run(globals_);
    }
    throw core::Error(core::ErrorKind::kInternal, "no code stands behind command " + chosen);
  }

 private:
  std::vector<std::unique_ptr<Command>> commands_;
  GlobalOptions globals_;
  CLI::App app_{"Finds the operator at which two runs of a PyTorch model part."};
};

}  // namespace

core::ExitCode run_application(int argc, const char* const* argv) {
  Application application;
  return application.run(argc, argv);
}

}  // namespace repro_check::cmd
