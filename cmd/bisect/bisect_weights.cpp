// SPDX-License-Identifier: Apache-2.0
#include "cmd/bisect/bisect_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "cmd/recording/recorder_process.h"
#include "configs/weight_changes.h"
#include "core/error.h"
#include "core/text/near_miss.h"
#include "core/text/printable.h"

namespace repro_check::cmd {
namespace {

/// What a recorder says of two versions of a model file.
struct Versions {
  std::vector<std::string> names;
  std::vector<configs::DifferingWeight> different;
  std::string obstacle;
  std::string mend;
};

std::string difference_text(const nlohmann::json& entry) {
  std::string what = entry.at("what").get<std::string>();
  if (entry.at("differing").is_null()) return what;
  return fmt::format("{} of {} elements, {}",
                     entry.at("differing").get<std::uint64_t>(),
                     entry.at("elements").get<std::uint64_t>(),
                     what);
}

Versions parse(const std::string& answer) {
  try {
    const nlohmann::json document = nlohmann::json::parse(answer);
    Versions versions;
    versions.names = document.at("names").get<std::vector<std::string>>();
    versions.obstacle = document.at("obstacle").get<std::string>();
    versions.mend = document.at("mend").get<std::string>();
    for (const nlohmann::json& entry : document.at("different")) {
      auto names = entry.at("names").get<std::vector<std::string>>();
      if (names.empty()) throw core::Error(core::ErrorKind::kInternal, "a tensor without a name");
      versions.different.push_back({std::move(names), difference_text(entry)});
    }
    return versions;
  } catch (const nlohmann::json::exception& error) {
    throw core::Error(core::ErrorKind::kInternal,
                      std::string("the recorder's comparison of two model files makes no sense: ") +
                          error.what());
  }
}

Versions compare(const configs::RunSpec& run, const configs::WeightFiles& files) {
  RecorderCall call{{require_recorder(run.recorder), {}}};
  for (const std::filesystem::path& library : run.extensions) {
    call.arguments.insert(call.arguments.end(), {"--extension", library.string()});
  }
  call.arguments.insert(call.arguments.end(),
                        {"weights", files.first.string(), files.second.string()});
  if (run.timeout) call.timeout = std::chrono::seconds(*run.timeout);
  call.environment = run.env;
  return parse(ask_recorder(call));
}

void require_names(const configs::RunSpec& run, const Versions& versions) {
  for (const std::string& name : run.model.weights) {
    if (std::ranges::find(versions.names, name) != versions.names.end()) continue;
    const std::vector<std::string_view> known(versions.names.begin(), versions.names.end());
    const auto near = core::near_miss(name, known);
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("/model/weights: {} has no \"{}\"{}",
                                  run.model.path.string(),
                                  core::printable(name),
                                  near ? fmt::format("; did you mean \"{}\"?", *near) : ""),
                      "`repro-check inspect DUMP -v` lists the names of a recorded model");
  }
}

}  // namespace

BisectChanges bisect_changes(const configs::RunSpec& baseline, const configs::RunSpec& candidate) {
  BisectChanges result;
  result.changes = configs::setting_changes(baseline, candidate);
  const auto files = configs::weight_files(baseline, candidate);
  if (!files) return result;
  const Versions versions = compare(baseline, *files);
  if (!versions.obstacle.empty()) {
    if (baseline.model.weights_from || candidate.model.weights_from) {
      throw core::Error(
          core::ErrorKind::kUsage, "/model/weights_from: " + versions.obstacle, versions.mend);
    }
    result.note = fmt::format(
        "the two model files are one change, since tensors of one cannot "
        "stand in the other: {}",
        core::printable(versions.obstacle));
    return result;
  }
  for (const configs::RunSpec* run : {&baseline, &candidate}) require_names(*run, versions);
  std::erase_if(result.changes, configs::is_of_weights);
  std::vector<configs::SettingChange> weights =
      configs::weight_changes(baseline, candidate, *files, versions.different);
  result.changes.insert(result.changes.begin(),
                        std::make_move_iterator(weights.begin()),
                        std::make_move_iterator(weights.end()));
  return result;
}

}  // namespace repro_check::cmd
