// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fixture_manifest.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "core/digest/digest.h"

namespace repro_check::test_support {
namespace {

using nlohmann::ordered_json;

core::Digest model_digest(const std::string& text) {
  if (const auto digest = core::parse_digest(text)) return *digest;
  return core::digest_bytes(std::as_bytes(std::span(text)));
}

std::vector<core::Setting> parse_settings(const ordered_json& json) {
  std::vector<core::Setting> settings;
  for (const auto& [name, value] : json.items()) {
    if (value.is_string()) {
      settings.push_back({name, value, value});
    } else {
      settings.push_back({name, value.at("found"), value.at("used")});
    }
  }
  return settings;
}

}  // namespace

core::RunManifest parse_manifest(const ordered_json& json) {
  core::RunManifest manifest;
  manifest.tool_version = json.value("tool_version", "0.1.0");
  manifest.created = json.value("created", "2026-01-02T03:04:05Z");
  manifest.configuration = json.value("configuration", "{}");
  manifest.model_path = json.value("model_path", "model.pt");
  manifest.model_method = json.value("method", "forward");
  manifest.model_digest = model_digest(json.value("model", "model"));
  manifest.seed = json.value("seed", std::uint64_t{0});
  manifest.device = json.value("device", "cpu");
  manifest.determinism = json.value("determinism", "off");
  manifest.disable_dropout = json.value("disable_dropout", false);
  manifest.rng = json.value("rng", "device");
  manifest.grad = json.value("grad", "disabled");
  manifest.settings = parse_settings(json.value("settings", ordered_json::object()));
  const ordered_json environment = json.value("environment", ordered_json::object());
  for (const auto& [name, value] : environment.items()) {
    manifest.environment.push_back({name, value});
  }
  manifest.warnings = json.value("warnings", std::vector<std::string>{});
  manifest.seconds = json.value("seconds", 0.0);
  core::TraceSummary& trace = manifest.trace;
  trace.level = json.value("level", "tensor");
  trace.depth = json.value("depth", "top");
  trace.optimizer = json.value("optimizer", "");
  trace.include = json.value("include", std::vector<std::string>{});
  trace.exclude = json.value("exclude", std::vector<std::string>{});
  for (const auto& range : json.value("keep_ops", ordered_json::array())) {
    trace.keep_ops.push_back({range.at(0), range.at(1)});
  }
  trace.digest_algorithm = json.value("digest_algorithm", std::string(core::kDigestAlgorithm));
  if (const auto limit = json.find("bytes_limit_reached_at"); limit != json.end()) {
    trace.bytes_limit_reached_at = limit->get<std::uint64_t>();
  }
  return manifest;
}

core::Value parse_value(const ordered_json& json) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_number_integer()) return {json.get<std::int64_t>()};
  if (json.is_number()) return {json.get<double>()};
  if (json.is_array()) {
    core::ValueList list;
    for (const auto& item : json) list.items.push_back(parse_value(item));
    return {std::move(list)};
  }
  if (json.is_object()) return {core::Opaque{json.at("opaque").get<std::string>()}};
  const auto text = json.get<std::string>();
  if (text == "nan") return {std::numeric_limits<double>::quiet_NaN()};
  if (text == "inf") return {std::numeric_limits<double>::infinity()};
  return {text};
}

std::optional<core::GeneratorUse> parse_generator(const ordered_json& op) {
  const auto found = op.find("generator");
  if (found == op.end()) return std::nullopt;
  core::GeneratorUse use;
  use.device = found->value("device", "cpu");
  use.seed = found->value("seed", std::uint64_t{0});
  use.position_before = found->value("before", std::uint64_t{0});
  use.position_after = found->value("after", std::uint64_t{0});
  use.drawn = found->value("drawn", std::int64_t{-1});
  return use;
}

std::vector<core::Substitution> parse_substitutions(const ordered_json& op) {
  std::vector<core::Substitution> substitutions;
  for (const auto& json : op.value("substitutions", ordered_json::array())) {
    substitutions.push_back({json.value("argument", ""),
                             json.value("from", ""),
                             json.value("to", ""),
                             json.value("reason", "")});
  }
  return substitutions;
}

}  // namespace repro_check::test_support
