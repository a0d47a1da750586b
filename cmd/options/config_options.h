// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "configs/parser/config_parser.h"
#include "configs/spec/run_config.h"

namespace repro_check::cmd {

class Options;

/// As JSON, so that a path or device that looks like a number stays a string.
/// @throws core::Error{kUsage} when it is not UTF-8
std::string quoted(const std::string& text);

/// `[-c] FILE` and the flags that override it, shared by the verbs that read a configuration.
class ConfigOptions {
 public:
  /// Adds the file, with -c or without, or the command of a program behind `--`, --seed, --device,
  /// --timeout, --set and --keep-values.
  /// @param required  whether one of both must be given; else there is no command
  /// @param with_positional  the file needs no -c, and there may be a command; not where other
  ///                         positionals are taken
  void define(Options& options, bool required, bool with_positional = true);

  /// As `--set POINTER=VALUE` does. @param value  JSON; empty: nothing is set
  void set(const std::string& pointer, const std::string& value);
  /// Whether a flag or `--set` says something of the key, or of one below it.
  [[nodiscard]] bool sets(const std::string& pointer) const;

  [[nodiscard]] bool given() const noexcept { return !file_.empty(); }
  /// As the user typed it.
  [[nodiscard]] const std::string& file() const noexcept { return file_; }
  /// Of the program that was given in place of a file; empty where there is none.
  [[nodiscard]] const std::vector<std::string>& command() const noexcept { return command_; }

  /// What the user gave beside the file: `--seed 3 --set /threads=2`, a word each, to be shown:
  /// values that may be secrets are left out.
  [[nodiscard]] std::vector<std::string> flags() const;

  /// What was given, for another verb that takes it: `-c config.json --seed 3`, `-- python
  /// train.py`.
  [[nodiscard]] std::vector<std::string> words() const;

  /// As if it had been given with `-c`.
  void take_file(std::string file) { file_ = std::move(file); }
  /// As if it had been given behind `--`: for a verb that takes other positionals.
  void take_command(std::vector<std::string> command) { command_ = std::move(command); }

  /// @param dump_directory  replaces dump.directory; relative to the current directory
  /// @param repeat          replaces repeat
  /// @throws core::Error{kUsage}; for a model, whose inputs are inferred, as ask_recorder()
  [[nodiscard]] configs::Config load(
      const std::optional<std::string>& dump_directory = {},
      const std::optional<std::uint64_t>& repeat = {},
      configs::ProgramSeed program_seed = configs::ProgramSeed::kNone) const;

 private:
  void require_one() const;

  std::string verb_;
  std::string file_;
  std::vector<std::string> command_;
  std::optional<std::uint64_t> seed_;
  std::optional<std::string> device_;
  std::optional<std::uint64_t> timeout_;
  std::vector<std::string> sets_;
  bool keep_values_ = false;
};

/// Of a program, with a folder of its own below the default one.
/// @throws core::Error{kUsage}
configs::Config config_of_program(const std::vector<std::string>& command,
                                  const std::vector<configs::ConfigOverride>& overrides,
                                  configs::ProgramSeed program_seed = configs::ProgramSeed::kNone);

/// Tells on stderr that programs get the seed 0, where they do and no seed was given.
void say_kept_seed(const configs::Config& config);

/// The run of that name; when none is named the configuration without any run's overrides, or the
/// first run where only the runs say what is to be run.
/// @return borrowed from `config`
/// @throws core::Error{kUsage} with the near miss
const configs::RunSpec& choose_run(const configs::Config& config,
                                   const std::optional<std::string>& name);

}  // namespace repro_check::cmd
