// SPDX-License-Identifier: Apache-2.0
#include "cmd/options/config_options.h"

#include <CLI/App.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "configs/parser/config_parser.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

configs::ConfigOverride parse_set(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || !text.starts_with("/")) {
    throw core::Error(core::ErrorKind::kUsage,
                      "--set " + text + ": expected a JSON pointer, =, and a value",
                      "for example --set /determinism=error, or --set '/threads=2'");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

std::string quoted(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw core::Error(core::ErrorKind::kUsage, "\"" + text + "\" is not valid UTF-8");
  }
}

void ConfigOptions::define(CLI::App& app, bool required) {
  app.add_option("-c,--config", file_, "Configuration")->type_name("FILE")->required(required);
  app.add_option("--seed", seed_, "Seed of every generator, in place of /seed")->type_name("N");
  app.add_option("--device", device_, "Device, in place of /device")->type_name("NAME");
  app.add_option("--timeout", timeout_, "Kill a run after so many seconds, in place of /timeout")
      ->type_name("SECONDS");
  app.add_option("--set", sets_, "Set one value of the configuration; repeatable")
      ->type_name("/POINTER=VALUE")
      ->take_all()
      ->allow_extra_args(false);
}

std::vector<std::string> ConfigOptions::flags() const {
  std::vector<std::string> words;
  if (seed_) words.insert(words.end(), {"--seed", std::to_string(*seed_)});
  if (device_) words.insert(words.end(), {"--device", *device_});
  for (const std::string& set : sets_) words.insert(words.end(), {"--set", set});
  return words;
}

configs::Config ConfigOptions::load(const std::optional<std::string>& dump_directory,
                                    const std::optional<std::uint64_t>& repeat) const {
  std::vector<configs::ConfigOverride> overrides;
  overrides.reserve(sets_.size() + 5);
  for (const std::string& set : sets_) overrides.push_back(parse_set(set));
  if (seed_) overrides.push_back({"/seed", std::to_string(*seed_)});
  if (timeout_) overrides.push_back({"/timeout", std::to_string(*timeout_)});
  if (device_) overrides.push_back({"/device", quoted(*device_)});
  if (repeat) overrides.push_back({"/repeat", std::to_string(*repeat)});
  if (dump_directory) {
    // A path on the command line is relative to where the user stands, not to the configuration.
    const std::string absolute = std::filesystem::absolute(*dump_directory).string();
    overrides.push_back({"/dump/directory", quoted(absolute)});
  }
  return configs::load_config(file_, overrides);
}

}  // namespace repro_check::cmd
