// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "configs/spec/run_config.h"

namespace repro_check::configs {

/// `--set /json/pointer=value`: the value is JSON, or a string where it does not parse as JSON.
struct ConfigOverride {
  std::string pointer;
  std::string value;
};

/// What seeds the generators of a program whose configuration names no seed. A model is always
/// seeded, with 0 by default: no line of its file could do that.
enum class ProgramSeed {
  kNone,  ///< the program itself; 0 where `runs` lists set-ups, which are compared under one seed
  kZero,  ///< 0
};

/// Reads, overrides and checks a configuration, strictly: unknown and duplicate keys, wrong types,
/// values out of range and missing files are problems, and all of them are collected.
/// @throws core::Error{kUsage} with one line a problem: `config.json: /runs/1/sed: unknown key; did
///         you mean "seed"?`
Config load_config(const std::filesystem::path& file,
                   const std::vector<ConfigOverride>& overrides,
                   ProgramSeed program_seed = ProgramSeed::kNone);

/// As load_config, from text; relative paths are relative to `base`.
Config parse_config(const std::string& text,
                    const std::string& origin,
                    const std::filesystem::path& base,
                    const std::vector<ConfigOverride>& overrides,
                    ProgramSeed program_seed = ProgramSeed::kNone);

/// Whether a run is no program, or asks for what a recording of blocks does not have.
bool needs_operators(const RunSpec& run);

/// Where to read what a configuration may hold.
inline constexpr const char* kConfigHint =
    "docs/CONFIGURATION.md lists every key; `repro-check init MODEL.pt` writes a configuration to "
    "start from";

/// Large inputs belong into files; a configuration is read whole and parsed before anything is
/// known of it.
inline constexpr std::uintmax_t kLargestConfig = std::uintmax_t{8} << 20U;

/// The text of a configuration file, or of one that belongs to it, bounded in size.
/// @throws core::Error{kUsage} with `hint` when it is missing, no file, unreadable or too large
std::string read_config_text(const std::filesystem::path& file,
                             const std::string& hint = kConfigHint,
                             std::uintmax_t largest = kLargestConfig);

/// A flag that stands for a key of the section `compare`.
struct CompareFlag {
  enum class Takes { kNothing, kNumber, kWord, kWords, kFile, kDump };
  std::string key;
  std::string name;  ///< the key with dashes: `--max-growth`
  Takes takes = Takes::kNothing;
  std::string value;  ///< how that is called, `X`, or the words, `strict|promote`
  std::string help;
  std::string heading;  ///< that begins in the help with this flag; empty = the one before it
};
/// In the order in which help has them.
std::vector<CompareFlag> compare_flags();

/// How dumps are judged by flags, each a key of the section `compare` and its value as JSON. The
/// policy need not be given where a number of its own is.
/// @param rules  file of a list of rules, or of an object with `rules`, `unmatched`,
///               `strict_rules`, `noise` and `fp64`; flags win over what it says
/// @throws core::Error{kUsage} with a line a problem: `--rtol: ...`
CompareSpec compare_of_flags(const std::map<std::string, std::string>& flags,
                             const std::optional<std::filesystem::path>& rules);

/// The file handed to a recorder: the resolved run, where its dump goes.
struct RecordRequest {
  RunSpec run;
  std::filesystem::path dump;
  bool replace_existing = false;
  /// Say what the method returned, as digests, on the status channel.
  bool report_outputs = false;
  /// Run without any recording: no operator is intercepted and no dump is made.
  bool bare = false;
  /// What the user's shell had of the variables that the run pins; empty = not set there.
  std::map<std::string, std::optional<std::string>> found_environment;

  bool operator==(const RecordRequest&) const = default;
};

std::string to_json_text(const RecordRequest& request);
/// @throws core::Error{kUsage}
RecordRequest record_request_from_json_text(const std::string& text, const std::string& origin);

/// The resolved run alone, for the manifest.
std::string to_json_text(const RunSpec& run);

}  // namespace repro_check::configs
