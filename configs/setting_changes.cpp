// SPDX-License-Identifier: Apache-2.0
#include "configs/setting_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "configs/parser/json_document.h"
#include "configs/parser/run_serializer.h"
#include "configs/spec/input_leaves.h"

namespace repro_check::configs {
namespace {

using detail::Json;

class Differ {
 public:
  Differ(const RunSpec& baseline, const RunSpec& candidate)
      : baseline_(baseline),
        candidate_(candidate),
        from_(detail::to_json(baseline, false)),
        to_(detail::to_json(candidate, false)) {}

  /// A member of RunSpec, or of what `part` gets out of it.
  template <typename Part, typename Member>
  void member(const std::string& pointer, Part part, Member member) {
    if (std::invoke(member, part(baseline_)) == std::invoke(member, part(candidate_))) return;
    auto value = std::invoke(member, part(candidate_));
    add(pointer, [part, member, value](RunSpec& run) { std::invoke(member, part(run)) = value; });
  }
  template <typename Member>
  void member(const std::string& pointer, Member place) {
    member(
        pointer, [](auto& run) -> auto& { return run; }, place);
  }

  /// Every entry of a map by itself.
  template <typename Map>
  void entries(const std::string& pointer, Map RunSpec::*place) {
    std::set<std::string> names;
    for (const RunSpec* run : {&baseline_, &candidate_}) {
      for (const auto& [name, value] : run->*place) names.insert(name);
    }
    for (const std::string& name : names) {
      const Map& from = baseline_.*place;
      const Map& to = candidate_.*place;
      const auto old = from.find(name);
      const auto now = to.find(name);
      if (old != from.end() && now != to.end() && old->second == now->second) continue;
      const bool is_there = now != to.end();
      const typename Map::mapped_type value = is_there ? now->second : typename Map::mapped_type{};
      add(fmt::format("{}/{}", pointer, name), [place, name, is_there, value](RunSpec& run) {
        if (is_there) {
          (run.*place)[name] = value;
        } else {
          (run.*place).erase(name);
        }
      });
    }
  }

  std::vector<SettingChange> take() { return std::move(changes_); }

 private:
  /// @param pointer  no name in it has `/` or `~`, which the parser sees to
  static std::string text_at(const Json& run, const std::string& pointer) {
    const Json::json_pointer place(pointer);
    return run.contains(place) ? run.at(place).dump(-1, ' ', false, Json::error_handler_t::replace)
                               : std::string("unset");
  }

  void add(const std::string& pointer, std::function<void(RunSpec&)> apply) {
    changes_.push_back({pointer, text_at(from_, pointer), text_at(to_, pointer), std::move(apply)});
  }

  const RunSpec& baseline_;
  const RunSpec& candidate_;
  Json from_;
  Json to_;
  std::vector<SettingChange> changes_;
};

/// Members that are settings themselves, and not parts of one.
bool is_opened(std::string_view pointer) {
  return pointer.empty() || pointer == "/env" || pointer == "/settings" || pointer == "/model";
}

void add_recorded_changes(const std::string& pointer,
                          const Json& from,
                          const Json& to,
                          std::vector<SettingChange>& changes) {
  std::vector<std::string> names;
  for (const Json* side : {&from, &to}) {
    for (const auto& [name, value] : side->items()) {
      if (side == &to && from.contains(name)) continue;
      names.push_back(name);
    }
  }
  const Json unset;
  for (const std::string& name : names) {
    const std::string place = fmt::format("{}/{}", pointer, name);
    if (place == "/name" || place == "/dump") continue;
    const Json& old = from.contains(name) ? from.at(name) : unset;
    const Json& now = to.contains(name) ? to.at(name) : unset;
    if (old == now) continue;
    if (is_opened(place) && old.is_object() && now.is_object()) {
      add_recorded_changes(place, old, now, changes);
    } else {
      changes.push_back({place,
                         from.contains(name) ? old.dump() : "unset",
                         to.contains(name) ? now.dump() : "unset",
                         {}});
    }
  }
}

}  // namespace

std::vector<SettingChange> setting_changes(const RunSpec& baseline, const RunSpec& candidate) {
  Differ differ(baseline, candidate);
  const auto model = [](auto& run) -> auto& { return run.model; };
  differ.member("/model/path", model, &ModelSpec::path);
  differ.member("/model/method", model, &ModelSpec::method);
  differ.member("/model/mode", model, &ModelSpec::mode);
  differ.member("/model/weights_from", model, &ModelSpec::weights_from);
  differ.member("/model/weights", model, &ModelSpec::weights);
  differ.member("/calls", &RunSpec::calls);
  differ.member("/seed", &RunSpec::seed);
  differ.member("/determinism", &RunSpec::determinism);
  differ.member("/disable_dropout", &RunSpec::disable_dropout);
  differ.member("/rng", &RunSpec::rng);
  differ.member("/grad", &RunSpec::grad);
  differ.member("/device", &RunSpec::device);
  differ.member("/dtype", &RunSpec::dtype);
  differ.member("/threads", &RunSpec::threads);
  differ.member("/interop_threads", &RunSpec::interop_threads);
  differ.member("/optimize_executor", &RunSpec::optimize_executor);
  differ.entries("/env", &RunSpec::env);
  differ.entries("/settings", &RunSpec::settings);
  differ.member("/recorder", &RunSpec::recorder);
  differ.member("/extensions", &RunSpec::extensions);
  return differ.take();
}

std::vector<SettingChange> recorded_changes(const std::string& baseline,
                                            const std::string& candidate) {
  const Json from = Json::parse(baseline, nullptr, false);
  const Json to = Json::parse(candidate, nullptr, false);
  std::vector<SettingChange> changes;
  if (from.is_object() && to.is_object()) add_recorded_changes("", from, to, changes);
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
