// SPDX-License-Identifier: Apache-2.0
#include "cmd/options/config_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "cmd/options/command_line.h"
#include "cmd/options/starting_config.h"
#include "cmd/recording/default_places.h"
#include "cmd/recording/kit.h"
#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "core/text/secrets.h"
#include "dumpers/model_file/model_file.h"

namespace repro_check::cmd {
namespace {

configs::ConfigOverride parse_set(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || !text.starts_with("/")) {
    throw core::usage_error("--set " + text + ": expected a JSON pointer, =, and a value",
                            "for example --set /determinism=error, or --set '/threads=2'");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

using Overrides = std::vector<configs::ConfigOverride>;

constexpr const char* kStdin = "-";

/// What is no configuration is a model, or neither. Of a pipe nothing is read here: it would be
/// gone.
/// @throws core::Error{kUsage} for what is neither, saying what it is
bool is_model(const std::filesystem::path& file) {
  std::error_code ignored;
  const auto status = std::filesystem::status(file, ignored);
  const std::string ending = file.extension().string();
  if (std::filesystem::is_regular_file(status)) {
    constexpr std::string_view kMagic = "PK\x03\x04";
    std::string head(kMagic.size(), '\0');
    std::ifstream in(file, std::ios::binary);
    // Of a zip archive its recorder says more.
    if (in.read(head.data(), static_cast<std::streamsize>(head.size())) && head == kMagic)
      return true;
    // Text, however wrong, is a configuration where it is not called anything else.
    const bool begins_so = head.find_first_not_of(" \t\r\n") == head.find('{');
    if (ending == ".json" || begins_so || head.starts_with("\xEF\xBB\xBF")) return false;
  } else if (!std::filesystem::is_directory(status)) {
    return false;
  }
  if (ending == ".py") {
    throw core::usage_error(
        file.string() + ": a Python program, not a configuration",
        fmt::format("run and compare it with repro-check run -- python {0}, or write a "
                    "configuration: repro-check init --program -o config.json -- python {0}",
                    shell_quote(file.string())));
  }
  if (is_onnx_model(file)) return true;
  const bool is_text = model_file::identify_file(file) == model_file::FileKind::kText;
  if (is_text && ending != ".pt" && ending != ".pth") return false;
  model_file::require_model(file);
  return true;
}

std::string from_stdin() {
  std::string text = read_text(std::cin, "stdin");
  if (!text.empty()) return text;
  throw core::usage_error("stdin is empty: expected a configuration");
}

/// Calls that are given take the place of inputs that are guesses.
void drop_inputs(StartingConfig& start) {
  auto document = nlohmann::ordered_json::parse(start.text);
  document.erase("inputs");
  start.text = document.dump();
  std::erase_if(start.edits, [](const StartingEdit& edit) {
    return edit.pointer.starts_with("/inputs/") && edit.pointer != kNoPlace;
  });
}

/// The configuration that `init` would write, where nothing in it is a guess that was left as it
/// is.
configs::Config config_of_model(const std::string& model, const Overrides& overrides) {
  std::string method = "forward";
  bool has_calls = false;
  for (const configs::ConfigOverride& given : overrides) {
    if (given.pointer == "/model/method") method = given.value;
    if ((given.pointer + "/").starts_with("/calls/")) has_calls = true;
  }
  StartingConfig start = ask_starting_config(model, model, method);
  if (has_calls) drop_inputs(start);
  std::string open;
  std::string mend;
  for (const StartingEdit& edit : start.edits) {
    const bool is_given =
        edit.pointer.empty() || std::ranges::any_of(overrides, [&](const auto& given) {
          return (edit.pointer + "/").starts_with(given.pointer + "/") ||
                 given.pointer.starts_with(edit.pointer + "/");
        });
    if (is_given) continue;
    open += "\n" + model + ": " + edit.text;
    if (edit.pointer != kNoPlace) mend += " --set " + edit.pointer + "=...";
  }
  if (open.empty()) {
    return configs::parse_config(start.text, model, std::filesystem::current_path(), overrides);
  }
  throw core::usage_error(open.substr(1),
                          (mend.empty() ? "" : "give it with" + mend + ", or ") +
                              std::string("write a configuration first: repro-check init ") +
                              shell_quote(model) + " -o config.json");
}

}  // namespace

std::string quoted(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw core::usage_error("\"" + text + "\" is not valid UTF-8");
  }
}

void ConfigOptions::define(Options& options, bool required, bool with_positional) {
  // A verb below a verb that was mistyped would be taken for a file.
  const auto no_mistyped_verb = [&options](const std::string& word) {
    std::error_code ignored;
    if (std::filesystem::exists(word, ignored)) return;
    std::vector<std::string> verbs;
    for (const auto& verb : options.verbs()) verbs.push_back(verb->name());
    const std::string hint = near_hint(word, verbs, "");
    if (hint.empty()) return;
    throw core::usage_error("unexpected argument \"" + word + "\"", hint);
  };
  verb_ = options.name();
  const bool with_command = required && with_positional;
  const std::string positional = with_positional ? "config," : "";
  options.value(
      positional +
          "-c,--config FILE  Configuration or model (TorchScript, .pt2, .onnx); - reads stdin",
      &file_,
      {.takes = Takes::kFile,
       .required = required && !with_command,
       .check = no_mistyped_verb,
       .heading = "Configuration"});
  if (with_command) {
    options.command("command COMMAND", &command_);
  }
  options.value("--seed N", &seed_);
  options.value("--device NAME", &device_);
  options.value("--timeout SECONDS", &timeout_);
  options.value("--set /POINTER=VALUE", &sets_);
  options.flag("--keep-values", &keep_values_);
  options.end_heading();
}

void ConfigOptions::set(const std::string& pointer, const std::string& value) {
  if (!value.empty()) sets_.push_back(pointer + "=" + value);
}

bool ConfigOptions::sets(const std::string& pointer) const {
  return std::ranges::any_of(sets_, [&](const std::string& set) {
    return set.starts_with(pointer + "=") || set.starts_with(pointer + "/");
  });
}

std::vector<std::string> ConfigOptions::flags() const {
  std::vector<std::string> words;
  if (seed_) words.insert(words.end(), {"--seed", std::to_string(*seed_)});
  if (device_) words.insert(words.end(), {"--device", *device_});
  if (timeout_) words.insert(words.end(), {"--timeout", std::to_string(*timeout_)});
  if (keep_values_) words.emplace_back("--keep-values");
  for (const std::string& set : sets_) words.insert(words.end(), {"--set", set});
  return core::without_secrets(words);
}

std::vector<std::string> ConfigOptions::words() const {
  std::vector<std::string> words = flags();
  if (given()) words.insert(words.begin(), {"-c", file_});
  if (command_.empty()) return words;
  words.emplace_back("--");
  words.insert(words.end(), command_.begin(), command_.end());
  return words;
}

const configs::RunSpec& choose_run(const configs::Config& config,
                                   const std::optional<std::string>& name) {
  if (!name) return config.base ? *config.base : config.runs.front();
  std::vector<std::string> names;
  for (const configs::RunSpec& run : config.runs) {
    if (run.name == *name) return run;
    names.push_back(run.name);
  }
  throw core::usage_error(
      "the configuration has no run \"" + *name + "\"",
      near_hint(*name, names, fmt::format("its runs are {}", fmt::join(names, ", "))));
}

void ConfigOptions::require_one() const {
  if (file_.empty() == command_.empty()) {
    throw core::usage_error(
        fmt::format("{} takes {} configuration, a TorchScript model or, behind --, a program",
                    verb_,
                    file_.empty() ? "a" : "one of a"),
        fmt::format("repro-check {0} -c config.json, or repro-check {0} -- python train.py",
                    verb_));
  }
}

configs::Config ConfigOptions::load(const std::optional<std::string>& dump_directory,
                                    const std::optional<std::uint64_t>& repeat,
                                    configs::ProgramSeed program_seed) const {
  std::vector<configs::ConfigOverride> overrides;
  overrides.reserve(sets_.size() + 6);
  for (const std::string& set : sets_) overrides.push_back(parse_set(set));
  if (seed_) overrides.push_back({"/seed", std::to_string(*seed_)});
  if (timeout_) overrides.push_back({"/timeout", std::to_string(*timeout_)});
  if (device_) overrides.push_back({"/device", quoted(*device_)});
  if (keep_values_) overrides.push_back({"/dump/keep_values", "true"});
  if (repeat) overrides.push_back({"/repeat", std::to_string(*repeat)});
  if (dump_directory) {
    // A path on the command line is relative to where the user stands, not to the configuration.
    const std::string absolute = std::filesystem::absolute(*dump_directory).string();
    overrides.push_back({"/dump/directory", quoted(absolute)});
  }
  require_one();
  if (!command_.empty()) return config_of_program(command_, overrides, program_seed);
  if (file_ == kStdin) {
    return configs::parse_config(
        from_stdin(), "stdin", std::filesystem::current_path(), overrides, program_seed);
  }
  if (is_model(file_)) return config_of_model(file_, overrides);
  return configs::load_config(file_, overrides, program_seed);
}

configs::Config config_of_program(const std::vector<std::string>& command,
                                  const std::vector<configs::ConfigOverride>& overrides,
                                  configs::ProgramSeed program_seed) {
  nlohmann::ordered_json document;
  document["program"]["command"] = command;
  document["dump"]["directory"] =
      (std::filesystem::path(kDefaultFolder) / name_of_program(command)).string();
  std::string text;
  try {
    text = document.dump();
  } catch (const nlohmann::json::exception&) {
    throw core::usage_error("the command is not valid UTF-8",
                            "record it with repro-check exec, which accepts any bytes");
  }
  return configs::parse_config(
      text, "command line", std::filesystem::current_path(), overrides, program_seed);
}

void say_kept_seed(const configs::Config& config) {
  const auto is_kept = [](const configs::RunSpec& run) { return run.program && run.seed; };
  if (config.names_seed || !std::ranges::any_of(config.runs, is_kept)) return;
  log_info(
      "programs are seeded with 0, so that only the settings differ; another seed: --seed N, none: "
      "--set /seed=null");
}

}  // namespace repro_check::cmd
