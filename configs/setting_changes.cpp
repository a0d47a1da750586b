// SPDX-License-Identifier: Apache-2.0
#include "configs/setting_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "configs/parser/reader.h"
#include "core/error.h"

namespace repro_check::configs {
namespace {

using detail::Json;

/// Members that are settings themselves, and not parts of one.
bool is_opened(std::string_view pointer) {
  return pointer.empty() || pointer == "/env" || pointer == "/settings" || pointer == "/model" ||
         pointer == "/program";
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

using Values = std::map<std::string, std::string>;

/// Adds what is no tensor, as JSON text by its place.
void add_values(const std::string& pointer, const Json& node, Values& values) {
  if (!node.is_structured()) {
    values.emplace(pointer, node.dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  const auto makes_tensor = [&](const char* source) { return node.contains(source); };
  if (std::ranges::any_of(std::array{"generate", "npy", "torch", "hdf5"}, makes_tensor)) return;
  for (const auto& [name, item] : node.items()) {
    const bool is_argument_name = name == "name" && item.is_string();
    if (!is_argument_name) add_values(fmt::format("{}/{}", pointer, name), item, values);
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
  const detail::ParseContext context{problems, {}, /*resolved=*/true};
  RunSpec changed;
  changed.timeout = run.timeout;
  const Json& schema = detail::followed(detail::config_schema().at("$defs").at("run"));
  detail::read_resolved_run({&json, "", &schema, &context}, changed);
  problems.refuse_any(run.name);
  run = std::move(changed);
}

using std::filesystem::path;

/// Where a run takes a tensor from.
const path& source_of(const ModelSpec& model, const DifferingWeight& weight) {
  if (!model.weights_from) return model.path;
  const bool is_taken =
      model.weights.empty() || std::ranges::any_of(weight.names, [&](const std::string& name) {
        return std::ranges::find(model.weights, name) != model.weights.end();
      });
  return is_taken ? *model.weights_from : model.path;
}

/// Says of a model tensor by tensor where it comes from.
struct Exchange {
  WeightFiles files;
  std::vector<DifferingWeight> weights;

  /// @param number  of the tensor that is to come from `file`; empty = all but these tensors
  void set(ModelSpec& model, std::optional<std::size_t> number, const path& file) const {
    std::vector<path> sources;
    for (const DifferingWeight& weight : weights) sources.push_back(source_of(model, weight));
    (number ? sources[*number] : model.path) = file;
    model.weights_from.reset();
    model.weights.clear();
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (sources[i] != model.path) model.weights.push_back(weights[i].names.front());
    }
    if (model.weights.empty()) return;
    model.weights_from = model.path == files.first ? files.second : files.first;
  }
};

std::string text_of(const DifferingWeight& weight) {
  if (weight.names.size() == 1) return weight.what;
  return fmt::format(
      "{}, with {}", weight.what, fmt::join(std::span(weight.names).subspan(1), ", "));
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

std::vector<SettingChange> recorded_values(const std::string& baseline,
                                           const std::string& candidate) {
  const Json here = Json::parse(baseline, nullptr, false);
  const Json there = Json::parse(candidate, nullptr, false);
  if (!here.contains("calls") || !there.contains("calls")) return {};
  Values from;
  Values to;
  add_values("/calls", here.at("calls"), from);
  add_values("/calls", there.at("calls"), to);
  Values places = from;
  places.insert(to.begin(), to.end());
  const auto text = [](const Values& side, const std::string& place) {
    const auto found = side.find(place);
    return found == side.end() ? std::string("unset") : found->second;
  };
  std::vector<SettingChange> changes;
  for (const auto& [place, value] : places) {
    if (text(from, place) == text(to, place)) continue;
    changes.push_back({place, text(from, place), text(to, place), {}});
  }
  return changes;
}

std::vector<std::filesystem::path> files_of(const RunSpec& run) {
  std::vector<std::filesystem::path> files;
  const auto add = [&](const std::filesystem::path& file) {
    if (std::ranges::find(files, file) == files.end()) files.push_back(file);
  };
  if (run.program) return {};  // nobody knows what it reads
  add(run.model.path);
  if (run.model.weights_from) add(*run.model.weights_from);
  for_each_leaf(run, [&](const InputSpec& input) {
    if (const auto* file = std::get_if<FileInput>(&input.source)) add(file->path);
  });
  if (run.recorder) add(*run.recorder);
  for (const std::filesystem::path& library : run.extensions) add(library);
  return files;
}

std::optional<WeightFiles> weight_files(const RunSpec& baseline, const RunSpec& candidate) {
  const bool is_alike = baseline.model.path == candidate.model.path &&
                        baseline.model.weights_from == candidate.model.weights_from &&
                        baseline.model.weights == candidate.model.weights;
  if (is_alike) return std::nullopt;
  std::set<path> others;
  for (const RunSpec* run : {&baseline, &candidate}) {
    others.insert(run->model.path);
    if (run->model.weights_from) others.insert(*run->model.weights_from);
  }
  others.erase(baseline.model.path);
  if (others.empty()) return std::nullopt;
  if (others.size() > 1) {
    throw core::usage_error(
        fmt::format("/runs: the weights come from {} files; tensors are exchanged "
                    "between two",
                    others.size() + 1),
        "let both runs take \"path\" and \"weights_from\" from the same two files");
  }
  return WeightFiles{baseline.model.path, *others.begin()};
}

std::vector<SettingChange> weight_changes(const RunSpec& baseline,
                                          const RunSpec& candidate,
                                          const WeightFiles& files,
                                          const std::vector<DifferingWeight>& differing) {
  const Exchange exchange{files, differing};
  const auto name_of = [](const path& file) { return file.filename().string(); };
  std::vector<SettingChange> changes;
  for (std::size_t i = 0; i < differing.size(); ++i) {
    const path& from = source_of(baseline.model, differing[i]);
    const path to = source_of(candidate.model, differing[i]);
    if (from == to) continue;
    changes.push_back({"/model/weights/" + differing[i].names.front(),
                       name_of(from),
                       fmt::format("{} ({})", name_of(to), text_of(differing[i])),
                       [exchange, i, to](RunSpec& run) { exchange.set(run.model, i, to); }});
  }
  if (baseline.model.path != candidate.model.path) {
    const path to = candidate.model.path;
    changes.push_back({"/model/path",
                       name_of(baseline.model.path),
                       name_of(to) + " (all but these tensors)",
                       [exchange, to](RunSpec& run) { exchange.set(run.model, {}, to); }});
  }
  return changes;
}

bool is_of_weights(const SettingChange& change) {
  constexpr std::array<std::string_view, 3> kPointers{
      "/model/path", "/model/weights_from", "/model/weights"};
  return std::ranges::find(kPointers, change.pointer) != kPointers.end();
}

}  // namespace repro_check::configs
