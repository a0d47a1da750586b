// SPDX-License-Identifier: Apache-2.0
#include "cmd/recorder/replay_verb.h"

#include <fstream>
#include <iterator>
#include <map>
#include <vector>

#include "cmd/replay/replay_message.h"
#include "core/error.h"
#include "dumpers/capture/settings/determinism.h"
#include "dumpers/replay/replay.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::recorder {
namespace {

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

std::string fact(const std::string& name) {
  for (const core::EnvironmentFact& fact : capture::read_environment()) {
    if (fact.name == name) return fact.value;
  }
  return "unknown";
}

}  // namespace

std::string replay(const std::filesystem::path& request_file) {
  std::ifstream in(request_file, std::ios::binary);
  const cmd::ReplayQuestion question =
      cmd::parse_question(std::string{std::istreambuf_iterator<char>(in), {}});
  capture::check_variables();
  const auto dump = store::open_dump(question.recorded.dump, question.recorded.references);
  cmd::ReplayAnswer answer;
  const capture::DeterminismPin pin(recorded_pins(dump->manifest(), answer.notes));
  replay::Outcome outcome = replay::replay(*dump, question.how);
  answer.libtorch = fact("libtorch.version");
  answer.cpu_capability = fact("cpu.capability");
  answer.rounds = std::move(outcome.rounds);
  answer.notes.insert(answer.notes.end(), outcome.notes.begin(), outcome.notes.end());
  if (question.float64) {
    answer.baseline = replay::distance_to_float64(*dump, question.recorded.op);
    if (const auto& side = question.against) {
      const auto other = store::open_dump(side->dump, side->references);
      answer.candidate = replay::distance_to_float64(*other, side->op);
    }
  }
  return cmd::to_text(answer);
}

}  // namespace repro_check::recorder
