// SPDX-License-Identifier: Apache-2.0
#include "cmd/options/compare_options.h"

#include <algorithm>
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

/// To a list as JSON; the first word that such a flag has stands for what is there, which is true.
void add_word(const std::string& word, std::string& json) {
  if (json.empty()) json = "true";
  if (word == configs::kRecordedNumbers) return;
  nlohmann::json words = nlohmann::json::parse(json);
  if (!words.is_array()) words = nlohmann::json::array();
  words.push_back(word);
  json = words.dump();
}

}  // namespace

void PolicyFlags::define(Options& options) {
  using Kind = configs::CompareFlag::Takes;
  for (const configs::CompareFlag& flag : configs::compare_flags()) {
    OptionRules rules{.heading = flag.heading};
    const std::string text =
        flag.name + (flag.value.empty() ? "" : " ") + flag.value + "  " + flag.help;
    const auto take = [this, flag](const std::string& given) {
      given_[flag.key] = flag.takes == Kind::kNumber ? number_or_text(given) : quoted(given);
    };
    switch (flag.takes) {
      case Kind::kNothing:
        options.flag(
            text, [this, flag](std::int64_t) { given_[flag.key] = "true"; }, rules);
        continue;
      case Kind::kWords:
        options.some_words(
            text,
            [this, flag](const std::string& given) { add_word(given, given_[flag.key]); },
            rules);
        continue;
      case Kind::kWord:
        options.word(text, take, rules);
        continue;
      case Kind::kNumber:
        rules.takes = Takes::kNumber;
        break;
      case Kind::kFile:
        rules.takes = Takes::kFile;
        break;
      case Kind::kDump:
        rules.takes = Takes::kDump;
        break;
    }
    options.value(text, take, rules);
  }
}

void NumbersFlag::define(Options& options) {
  const auto flags = configs::compare_flags();
  const auto flag = std::ranges::find(flags, "numbers", &configs::CompareFlag::key);
  options.some_words(flag->name + " " + flag->value + "  " + flag->help,
                     [this](const std::string& given) { add_word(given, json_); });
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
