// SPDX-License-Identifier: Apache-2.0
#include "cmd/options/compare_options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cmd/options/command_line.h"
#include "cmd/options/config_options.h"
#include "cmd/terminal/output.h"
#include "configs/parser/config_parser.h"
#include "configs/spec/noise_floors.h"
#include "core/error.h"
#include "core/text/text.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

/// A flag, whose name is the key with dashes.
struct Flag {
  const char* name;
  const char* value;  ///< what it takes, or the words; null = nothing
  const char* help;
};
constexpr auto kFlags = std::to_array<Flag>(
    {{"--policy",
      "bitwise|tolerance|ulp|cosine|noise|fp64|msprobe",
      "What counts as equal (bitwise)"},
     {"--rtol", "X", "Relative tolerance; together with --atol"},
     {"--atol", "X", "Absolute tolerance; together with --rtol"},
     {"--ulp", "N", "Greatest distance in ULP of the tensor's dtype"},
     {"--share", "X", "Share of elements that may be beyond --ulp (0)"},
     {"--cosine", "X", "Least cosine similarity (0.999)"},
     {"--drift", "X", "Beside --cosine, how far norms may part (0.01)"},
     {"--noise", "FILE", "Floors of `calibrate`, for --policy noise"},
     {"--fp64", "DUMP", "Dump of the baseline's run in float64, for --policy fp64"},
     {"--factor",
      "X",
      "Beside --noise or --fp64, how many times the floor or the baseline's error pass (2)"},
     {"--slack", "X", "Beside --fp64, rms error that passes on top (0)"},
     {"--equal-nan", "bits|any|never", "When NaN equals NaN"},
     {"--signed-zero", "distinct|same", "Whether +0 and -0 are the same"},
     {"--subnormals", "exact|flush", "flush: below the least normal number all is zero (exact)"},
     {"--rules", "FILE", "A policy for each kind of operator: JSON, first match wins"},
     {"--unmatched", "error|policy|ignore", "What no rule matches (error)"},
     {"--strict-rules", nullptr, "A rule that matches nothing is an error"},
     {"--lenient", nullptr, "Other dtypes are compared, other devices and strides noted"},
     {"--dtype", "strict|promote", "Whether other dtypes are compared (strict)"},
     {"--strides", "note|strict|ignore", "Other strides of a result (note)"},
     {"--device", "note|strict|ignore", "Other devices of a result (strict on one)"},
     {"--alias", "note|strict|ignore", "Results that share other memory (note)"},
     {"--align",
      "keyed|strict",
      "What pairs two operators: their names in order, or the place alone (keyed)"},
     {"--order", "strict|relaxed", "relaxed: another order passes where all is bit-equal (strict)"},
     {"--map", "FILE", "Operators and modules that have other names in the candidate"},
     {"--max-growth", "X", "Fail when the relative L2 error grows more than so many times"},
     {"--threads", "N", "Threads that compare (one a processor)"}});

/// JSON of a number where the text is one; else of the text, of which the parser says what it
/// should have been.
std::string number_or_text(const std::string& text) {
  const auto integer = core::parse_number<std::int64_t>(text);
  if (integer) return nlohmann::json(*integer).dump();
  const auto number = core::parse_number<double>(text);
  return number && std::isfinite(*number) ? nlohmann::json(*number).dump() : quoted(text);
}

void refuse_without(const std::string& flag,
                    const std::string& what,
                    const std::string& hint = {}) {
  throw core::usage_error(flag + " means nothing without " + what, hint);
}

}  // namespace

void PolicyFlags::define(Options& options) {
  for (const Flag& flag : kFlags) {
    std::string key = flag.name + 2;
    std::ranges::replace(key, '-', '_');
    if (flag.value == nullptr) {
      options.flag(
          flag.name, [this, key](std::int64_t) { given_[key] = "true"; }, flag.help);
      continue;
    }
    const std::string value = flag.value;
    const bool is_number = value == "X" || value == "N";
    const auto take = [this, key, is_number](const std::string& text) {
      given_[key] = is_number ? number_or_text(text) : quoted(text);
    };
    if (value.find('|') == std::string::npos) {
      options.value(flag.name, value, take, flag.help);
    } else {
      options.word(flag.name, value, take, flag.help);
    }
  }
}

configs::CompareSpec PolicyFlags::spec() const {
  std::map<std::string, std::string> given = given_;
  std::optional<std::filesystem::path> rules;
  if (const auto file = given.find("rules"); file != given.end()) {
    rules = nlohmann::json::parse(file->second).get<std::string>();
    given.erase(file);
  }
  configs::CompareSpec spec = configs::compare_of_flags(given, rules);
  const bool noise = configs::uses_noise(spec);
  const bool fp64 = configs::uses_fp64(spec);
  if (!rules && given.contains("strict_rules")) refuse_without("--strict-rules", "--rules");
  if (!rules && !noise && !fp64 && given.contains("unmatched")) {
    refuse_without("--unmatched", "--rules");
  }
  if (!noise && given.contains("noise")) {
    refuse_without("--noise", "the policy noise", "add --policy noise, or a rule with it");
  }
  if (!fp64 && given.contains("fp64")) {
    refuse_without("--fp64", "the policy fp64", "add --policy fp64, or a rule with it");
  }
  return spec;
}

comparators::CompareOptions compare_options(const configs::CompareSpec& spec) {
  comparators::CompareOptions options;
  options.spec = spec;
  if (configs::uses_noise(spec)) {
    configs::NoiseFloors floors = configs::load_noise(from_here(spec.noise.value()));
    options.noise = std::make_shared<const configs::NoiseFloors>(std::move(floors));
  }
  if (configs::uses_fp64(spec)) options.fp64 = store::open_dump(from_here(spec.fp64.value()));
  return options;
}

}  // namespace repro_check::cmd
