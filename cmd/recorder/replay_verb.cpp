// SPDX-License-Identifier: Apache-2.0
#include "cmd/recorder/replay_verb.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "cmd/recorder/json_line.h"
#include "core/digest/digest.h"
#include "core/error.h"
#include "dumpers/capture/replay/replay.h"
#include "dumpers/capture/settings/determinism.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::recorder {
namespace {

using Json = nlohmann::ordered_json;

Json read_replay_request(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Json request = Json::parse(text, nullptr, false);
  if (!request.is_object()) {
    throw core::Error(core::ErrorKind::kUsage,
                      file.string() + ": no request",
                      "a recorder is started by `repro-check replay`");
  }
  return request;
}

std::unique_ptr<core::DumpSource> open(const Json& side) {
  std::vector<std::filesystem::path> references;
  for (const Json& reference : side.at("references")) {
    references.emplace_back(reference.get<std::string>());
  }
  return store::open_dump(side.at("dump").get<std::string>(), references);
}

core::GradMode grad_mode(const std::string& name) {
  for (const auto mode : {core::GradMode::kEnabled, core::GradMode::kInference}) {
    if (core::name_of(mode) == name) return mode;
  }
  return core::GradMode::kDisabled;
}

/// Whether this process can have the setting.
bool can_be_set(const std::string& name, const std::string& value) {
  try {
    capture::PinRequest request;
    request.settings = {{name, value}};
    const capture::DeterminismPin tried(request);
    return true;
  } catch (const core::Error&) {
    return false;
  }
}

/// The settings of the recorded run, as far as they can be had here.
capture::PinRequest recorded_pins(const core::RunManifest& manifest,
                                  std::vector<std::string>& notes) {
  std::map<std::string, std::string> now;
  for (const core::EnvironmentFact& fact : capture::read_settings()) now[fact.name] = fact.value;
  capture::PinRequest request;
  request.grad = grad_mode(manifest.grad);
  for (const core::Setting& setting : manifest.settings) {
    const auto here = now.find(setting.name);
    const bool elsewhere = setting.name == "grad_mode" || setting.name == "threads.inter_op" ||
                           setting.used.rfind("unreadable", 0) == 0;
    if (here == now.end() || elsewhere || here->second == setting.used) continue;
    if (can_be_set(setting.name, setting.used)) {
      request.settings[setting.name] = setting.used;
    } else {
      notes.push_back("setting " + setting.name + " was `" + setting.used +
                      "` in the recorded run and is `" + here->second + "` here");
    }
  }
  return request;
}

Json number(const std::optional<double>& value) {
  if (!value) return nullptr;
  if (std::isfinite(*value)) return *value;
  return std::isnan(*value) ? "nan" : "inf";
}

Json to_json(const std::vector<capture::OutputDistance>& distances) {
  Json list = Json::array();
  for (const capture::OutputDistance& distance : distances) {
    list.push_back({{"slot", distance.slot},
                    {"elements", distance.elements},
                    {"differing", distance.differing},
                    {"incomparable", distance.incomparable},
                    {"max_abs", number(distance.max_abs)},
                    {"rmse", number(distance.rmse)}});
  }
  return list;
}

Json to_json(const capture::ReplayRound& round) {
  Json results = Json::array();
  for (const capture::ReplayResult& result : round.results) {
    results.push_back(
        {{"digest", core::to_hex(result.digest)},
         {"calls", result.calls},
         {"first", result.first},
         {"as_recorded", result.as_recorded ? Json(*result.as_recorded) : Json(nullptr)},
         {"to_recorded", to_json(result.to_recorded)}});
  }
  return {{"threads", round.threads}, {"sequence", round.sequence}, {"results", results}};
}

Json to_json(const capture::ReferenceDistance& distance) {
  return {{"outputs", to_json(distance.outputs)}, {"problem", distance.problem}};
}

std::string fact(const std::string& name) {
  for (const core::EnvironmentFact& fact : capture::read_environment()) {
    if (fact.name == name) return fact.value;
  }
  return "unknown";
}

Json answer(const Json& request) {
  capture::check_variables();
  const auto dump = open(request);
  std::vector<std::string> notes;
  const capture::DeterminismPin pin(recorded_pins(dump->manifest(), notes));

  capture::ReplayRequest order;
  order.op = request.at("op").get<std::uint64_t>();
  order.calls = request.at("calls").get<unsigned>();
  order.threads = request.at("threads").get<std::vector<int>>();
  order.device = request.at("device").get<std::string>();
  const capture::ReplayOutcome outcome = capture::replay(*dump, order);

  Json rounds = Json::array();
  for (const capture::ReplayRound& round : outcome.rounds) rounds.push_back(to_json(round));
  notes.insert(notes.end(), outcome.notes.begin(), outcome.notes.end());
  Json document{{"libtorch", fact("libtorch.version")},
                {"cpu_capability", fact("cpu.capability")},
                {"rounds", std::move(rounds)}};
  if (request.value("float64", false)) {
    document["float64"]["baseline"] = to_json(capture::distance_to_float64(*dump, order.op));
    if (request.contains("against")) {
      const Json& side = request.at("against");
      const auto other = open(side);
      document["float64"]["candidate"] =
          to_json(capture::distance_to_float64(*other, side.at("op").get<std::uint64_t>()));
    }
  }
  document["notes"] = notes;
  return document;
}

}  // namespace

std::string replay(const std::filesystem::path& request_file) {
  try {
    return to_line(answer(read_replay_request(request_file)));
  } catch (const nlohmann::json::exception& error) {
    throw core::Error(core::ErrorKind::kUsage,
                      request_file.string() + ": " + error.what(),
                      "the recorder and repro-check are of different versions");
  }
}

}  // namespace repro_check::recorder
