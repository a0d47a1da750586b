// SPDX-License-Identifier: Apache-2.0
#include "cmd/application.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/manual/manual.h"
#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/recording/kit.h"
#include "cmd/recording/recorder_process.h"
#include "cmd/render/color.h"
#include "cmd/render/page.h"
#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "cmd/words/catalogue.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

using MakeCommand = std::unique_ptr<Command> (*)();

/// Verbs that `--help` lists below one heading.
struct VerbGroup {
  const char* heading;
  std::vector<MakeCommand> make;
};

/// In the order in which `--help` lists them.
std::vector<VerbGroup> verb_groups() {
  return {{"Commands to start",
           {&run_command,
            &exec_command,
            &record_command,
            &diff_command,
            &init_command,
            &validate_command}},
          {"Commands for CI", {&gate_command, &report_command}},
          {"Commands to look",
           {&inspect_command, &audit_command, &ranks_command, &relate_command, &env_command}},
          {"Commands to explain",
           {&bisect_command,
            &calibrate_command,
            &precision_command,
            &replay_command,
            &extract_command}},
          {"Commands for files",
           {&verify_command,
            &pack_command,
            &unpack_command,
            &recover_command,
            &import_command,
            &completion_command,
            &man_command}}};
}

/// Bound to the tool and to every verb alike, so that they may stand on either side of the verb.
void add_global_options(Options& options, GlobalOptions& globals) {
  static const std::map<std::string, ColorMode> colors{
      {"auto", ColorMode::kAuto}, {"always", ColorMode::kAlways}, {"never", ColorMode::kNever}};
  static const std::map<std::string, ProgressMode> progress{{"auto", ProgressMode::kAuto},
                                                            {"always", ProgressMode::kAlways},
                                                            {"never", ProgressMode::kNever}};
  options.begin_globals();
  options.flag("-q,--quiet", &globals.quiet);
  options.flag("-v,--verbose",
               [&globals](std::int64_t count) { globals.verbosity += static_cast<int>(count); });
  options.word("--color auto|always|never",
               [&globals](const std::string& mode) { globals.color = colors.at(mode); });
  options.word("--progress auto|always|never",
               [&globals](const std::string& mode) { globals.progress = progress.at(mode); });
}

/// @param about  only those that begin so
std::vector<std::string> examples_of(const Command& command, const std::string& about) {
  std::vector<std::string> examples = example_commands(command.about.name);
  std::erase_if(examples, [&](const std::string& each) { return !each.starts_with(about); });
  return examples;
}

std::string exit_codes_text() {
  std::string out = "Exit codes:\n";
  for (const auto& [code, text] : exit_codes().items()) {
    if (code != "several") out += fmt::format("{:>5}  ", code);
    out += text.get<std::string>() + "\n";
  }
  return out;
}

/// The last line of every help. A tool that is not installed lies beside its sources.
std::string documentation_text() {
  const auto installed = find_documentation();
  return fmt::format("Documentation: {}\n",
                     installed ? escape_name(installed->string()) : "docs/ of the source tree");
}

/// Whether `-c` stands among the options of a verb, and no command behind `--`.
bool names_configuration(const std::vector<const char*>& words) {
  bool found = false;
  for (const std::string_view word : words) {
    if (word == "--") return false;
    found = found || word.starts_with("-c") || word.starts_with("--config");
  }
  return found;
}

/// A spelling of an earlier release, which is told and then obeyed.
struct FormerSpelling {
  const char* former;
  const char* now;
  const char* verb;  ///< takes the place of the first word
};

std::optional<FormerSpelling> former_spelling(const std::vector<const char*>& words) {
  if (words.size() < 2) return std::nullopt;
  const std::string_view verb = words[1];
  if (verb == "exec" && names_configuration(words)) return {{"exec -c", "run -c", "run"}};
  return std::nullopt;
}

std::string libtorch_text() {
  const auto recorder = find_recorder();
  if (!recorder) return "none (no recorder found)";
  try {
    const auto answer = nlohmann::json::parse(ask_recorder({{*recorder, {"version"}}}));
    return escape_name(answer.at("libtorch").get<std::string>()) + " (" +
           escape_name(recorder->string()) + ")";
  } catch (const core::Error& error) {
    return "unknown: " + escape_name(error.what());
  } catch (const nlohmann::json::exception&) {
    return "unknown: " + escape_name(recorder->string()) + " gave no version";
  }
}

std::string version_text() {
  return fmt::format("repro-check {}\ndump format {}.{}\nHDF5 {}\nLibTorch {}",
                     REPRO_CHECK_VERSION,
                     core::kDumpFormatMajor,
                     core::kDumpFormatMinor,
                     store::hdf5_version(),
                     libtorch_text());
}

void define_verb(Command& command,
                 const std::string& heading,
                 const std::string& documentation,
                 Options& tool,
                 GlobalOptions& globals) {
  Options& verb = tool.verb(command.about.name, command.about.summary);
  verb.set_heading(heading);
  command.define(verb);
  std::vector<Options*> all{&verb};
  for (const auto& below : verb.verbs()) all.push_back(below.get());
  for (Options* each : all) {
    each->set_examples(examples_of(command, each == &verb ? "" : each->words()));
    each->set_footer(documentation);
    add_global_options(*each, globals);
  }
}

}  // namespace

core::ExitCode run_application(int argc, const char* const* argv) {
  std::vector<std::unique_ptr<Command>> commands;
  GlobalOptions globals;
  Options tool("repro-check",
               "Find the first operator at which two runs of a PyTorch program differ.");
  tool.version(version_text);
  const std::string documentation = documentation_text();
  tool.set_footer(exit_codes_text() + "\nHelp on one command: repro-check COMMAND --help\n" +
                  documentation);
  add_global_options(tool, globals);
  for (const VerbGroup& group : verb_groups()) {
    for (const MakeCommand make : group.make) {
      define_verb(*commands.emplace_back(make()), group.heading, documentation, tool, globals);
    }
  }

  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1 && words[1] == std::string_view("help")) {
    words.erase(words.begin() + 1);
    words.push_back("--help");
  }
  const auto former = former_spelling(words);
  if (former) words[1] = former->verb;
  // What a script of `completion` asks.
  if (words.size() > 4 && words[1] == std::string_view("completion") &&
      words[3] == std::string_view("--")) {
    write_stdout(next_words(tool.tool_tree(), {words.begin() + 4, words.end()}, words[2]));
    return core::ExitCode::kReproducible;
  }
  if (const auto asked = tool.parse(words, text_columns(stdout_is_terminal(), &std::getenv))) {
    write_stdout(*asked);
    return core::ExitCode::kReproducible;
  }
  if (globals.quiet && globals.verbosity > 0) {
    throw core::usage_error("-q and -v contradict each other", "give one of them");
  }
  set_log_level(globals.verbosity, globals.quiet);
  if (former) {
    log_warning(
        fmt::format("`{}` is now `repro-check {}`; the next release removes the old spelling",
                    former->former,
                    former->now));
  }
  tool.expect_paths();
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (tool.verbs()[i]->is_chosen()) return commands[i]->run(globals);
  }
  throw core::internal_error("no code stands behind the command");
}

}  // namespace repro_check::cmd
