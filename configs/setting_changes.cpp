// SPDX-License-Identifier: Apache-2.0
#include "configs/setting_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "configs/parser/sections.h"
#include "configs/spec/input_leaves.h"

namespace repro_check::configs {
namespace {

using detail::Json;

/// Members that are settings themselves, and not parts of one.
bool is_opened(std::string_view pointer) {
  return pointer.empty() || pointer == "/env" || pointer == "/settings" || pointer == "/model";
}

/// In the order of the documentation; names of variables and settings in that of the alphabet.
void add_changes(const std::string& pointer,
                 const Json& from,
                 const Json& to,
                 std::vector<SettingChange>& changes) {
  std::vector<std::string> names;
  for (const auto& [name, value] : from.items()) names.push_back(name);
  for (const auto& [name, value] : to.items()) {
    if (!from.contains(name)) names.push_back(name);
  }
  if (pointer == "/env" || pointer == "/settings") std::ranges::sort(names);
  const Json unset;
  const auto text = [](const Json& side, const std::string& name) {
    return side.contains(name) ? side.at(name).dump(-1, ' ', false, Json::error_handler_t::replace)
                               : "unset";
  };
  for (const std::string& name : names) {
    const std::string place = fmt::format("{}/{}", pointer, name);
    if (place == "/name" || place == "/dump") continue;
    const Json& old = from.contains(name) ? from.at(name) : unset;
    const Json& now = to.contains(name) ? to.at(name) : unset;
    // A variable that is taken away is null, and one that nothing is said of is not there.
    if (old == now && from.contains(name) == to.contains(name)) continue;
    if (is_opened(place) && old.is_object() && now.is_object()) {
      add_changes(place, old, now, changes);
    } else {
      changes.push_back({place, text(from, name), text(to, name), {}});
    }
  }
}

/// Gives a run what another one has at a place; no name in it has `/` or `~`, which the parser sees
/// to.
void copy_setting(const std::string& pointer, const Json& source, RunSpec& run) {
  const Json::json_pointer place(pointer);
  Json json = detail::to_json(run, true);
  if (source.contains(place)) {
    json[place] = source.at(place);
  } else {
    json.at(place.parent_pointer()).erase(place.back());
  }
  detail::Problems problems;
  RunSpec changed;
  changed.timeout = run.timeout;
  detail::read_resolved_run(
      {&json, "", &detail::followed(detail::config_schema().at("$defs").at("run"))},
      {problems, {}, /*resolved=*/true},
      changed);
  problems.refuse_any(run.name);
  run = std::move(changed);
}

}  // namespace

std::vector<SettingChange> setting_changes(const RunSpec& baseline, const RunSpec& candidate) {
  std::vector<SettingChange> changes;
  add_changes("", detail::to_json(baseline, false), detail::to_json(candidate, false), changes);
  const Json source = detail::to_json(candidate, true);
  for (SettingChange& change : changes) {
    change.apply = [pointer = change.pointer, source](RunSpec& run) {
      copy_setting(pointer, source, run);
    };
  }
  return changes;
}

std::vector<SettingChange> recorded_changes(const std::string& baseline,
                                            const std::string& candidate) {
  const Json from = Json::parse(baseline, nullptr, false);
  const Json to = Json::parse(candidate, nullptr, false);
  std::vector<SettingChange> changes;
  if (from.is_object() && to.is_object()) add_changes("", from, to, changes);
  return changes;
}

std::vector<std::filesystem::path> files_of(const RunSpec& run) {
  std::vector<std::filesystem::path> files;
  const auto add = [&](const std::filesystem::path& file) {
    if (std::ranges::find(files, file) == files.end()) files.push_back(file);
  };
  add(run.model.path);
  if (run.model.weights_from) add(*run.model.weights_from);
  for_each_leaf(run, [&](const InputSpec& input) {
    if (const std::filesystem::path* file = file_of(input)) add(*file);
  });
  if (run.recorder) add(*run.recorder);
  for (const std::filesystem::path& library : run.extensions) add(library);
  return files;
}

}  // namespace repro_check::configs
