// SPDX-License-Identifier: Apache-2.0
#include "configs/spec/noise_floors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "configs/parser/config_parser.h"
#include "configs/setting_changes.h"
#include "core/digest/digest.h"
#include "core/error.h"
#include "core/text/secrets.h"
#include "core/text/text.h"
#include "core/trace/run_manifest.h"

namespace repro_check::configs {
namespace {

using SortedJson = nlohmann::json;

constexpr std::size_t kLongestValue = 60;

/// Where a file lies does not change what is in it; its digest is looked at beside this.
void strip_places(SortedJson& json) {
  if (json.is_object()) json.erase("pointer");
  for (auto& [key, value] : json.items()) {
    const bool is_file = key == "npy" || key == "torch" || key == "hdf5";
    if (is_file && json.is_object() && value.is_string()) {
      value = std::filesystem::path(value.get<std::string>()).filename().string();
    } else if (value.is_structured()) {
      strip_places(value);
    }
  }
}

std::string normalised(const std::string& configuration) {
  SortedJson json = SortedJson::parse(configuration, nullptr, false);
  if (!json.is_object()) return "{}";
  for (const char* key : {"name", "dump", "recorder", "extensions"}) json.erase(key);
  if (const auto model = json.find("model"); model != json.end() && model->is_object()) {
    for (const char* key : {"path", "weights_from", "weights"}) model->erase(key);
  }
  strip_places(json);
  return core::configuration_without_secrets(json.dump());
}

/// Of the model's file, and of what was taken from another version of it.
std::string model_digest(const core::RunManifest& manifest) {
  std::string file = core::to_hex(manifest.model_digest);
  std::string text = file;
  for (const char* name : {"model.weights_digest", "model.weights"}) {
    const std::string* fact = core::environment_fact(manifest, name);
    if (fact == nullptr) return file;
    text += " " + *fact;
  }
  return core::to_hex(core::digest_bytes(text));
}

using Json = nlohmann::ordered_json;

std::string checksum_of(std::string_view text) { return core::to_hex(core::digest_bytes(text)); }

/// What a dump holds may be of any bytes; JSON holds text.
std::string line_of(const Json& json) {
  return core::tame_json(json.dump(-1, ' ', false, Json::error_handler_t::replace)) + "\n";
}

Json head_of(const NoiseFloors& floors) {
  Json head;
  head["format"] = kNoiseFormat;
  head["version"] = kNoiseVersion;
  head["tool"] = floors.tool_version;
  head["runs"] = floors.runs;
  head["operators"] = floors.operators.size();
  head["model"] = Json{{"digest", floors.subject.model_digest}, {"method", floors.subject.method}};
  head["inputs"] = Json::object();
  for (const auto& [name, content] : floors.subject.inputs) head["inputs"][name] = content;
  head["libtorch"] = floors.subject.libtorch;
  head["configuration"] = Json::parse(floors.subject.configuration);
  return head;
}

Json operator_of(const OperatorFloors& floors, std::size_t index) {
  Json line;
  line["op"] = index;
  line["operator"] = floors.op;
  line["module"] = floors.module;
  line["floors"] = Json::object();
  for (const auto& [slot, floor] : floors.outputs) {
    line["floors"][slot] = floor.problem.empty()
                               ? Json{{"l2_rel", floor.l2_rel}, {"max_abs", floor.max_abs}}
                               : Json{{"none", floor.problem}};
  }
  return line;
}

using Refuse = std::function<void(const std::string&)>;

std::size_t read_head(const Json& head, NoiseFloors& floors, const Refuse& refuse) {
  if (head.value("format", "") != kNoiseFormat) refuse("it holds no noise floors");
  const auto version = head.at("version").get<std::string>();
  if (!version.starts_with("1.")) {
    refuse(fmt::format("it is of version {}, and this tool reads 1", core::printable(version)));
  }
  head.at("tool").get_to(floors.tool_version);
  head.at("runs").get_to(floors.runs);
  head.at("model").at("digest").get_to(floors.subject.model_digest);
  head.at("model").at("method").get_to(floors.subject.method);
  head.at("inputs").get_to(floors.subject.inputs);
  head.at("libtorch").get_to(floors.subject.libtorch);
  floors.subject.configuration = normalised(nlohmann::json(head.at("configuration")).dump());
  return head.at("operators").get<std::size_t>();
}

void read_operator(const Json& line,
                   std::size_t number,
                   NoiseFloors& floors,
                   const Refuse& refuse) {
  if (line.at("op").get<std::size_t>() != floors.operators.size()) {
    refuse(fmt::format("line {} is not in its place", number));
  }
  OperatorFloors& known = floors.operators.emplace_back();
  line.at("operator").get_to(known.op);
  line.at("module").get_to(known.module);
  for (const auto& [slot, json] : line.at("floors").items()) {
    OutputFloor& floor = known.outputs[slot];
    if (json.contains("none")) {
      json.at("none").get_to(floor.problem);
      if (floor.problem.empty()) floor.problem = "a reason is missing";
      continue;
    }
    json.at("l2_rel").get_to(floor.l2_rel);
    json.at("max_abs").get_to(floor.max_abs);
    for (const double value : {floor.l2_rel, floor.max_abs}) {
      if (std::isfinite(value) && value >= 0) continue;
      refuse(fmt::format("line {} holds a floor below 0", number));
    }
  }
}

}  // namespace

const OutputFloor* NoiseFloors::find(const core::OpRecord& record,
                                     std::string_view role,
                                     std::string_view slot) const {
  if (record.index >= operators.size() || !record.op) return nullptr;
  const OperatorFloors& known = operators[record.index];
  const std::string_view module =
      record.site ? std::string_view(record.site->module_path) : std::string_view();
  if (known.op != record.op->full_name() || known.module != module) return nullptr;
  const auto found = known.outputs.find(fmt::format("{} {}", role, slot));
  if (found == known.outputs.end() || !found->second.problem.empty()) return nullptr;
  return &found->second;
}

NoiseSubject noise_subject(const core::RunManifest& manifest) {
  NoiseSubject subject;
  subject.model_digest = model_digest(manifest);
  subject.method = manifest.model_method;
  for (const core::NamedTensor& tensor : manifest.named_tensors) {
    if (tensor.kind != core::NamedTensorKind::kInput) continue;
    subject.inputs[tensor.name] = fmt::format("{} [{}] {}",
                                              core::dtype_name(tensor.dtype),
                                              fmt::join(tensor.shape, ", "),
                                              core::to_hex(tensor.digest));
  }
  subject.libtorch = core::text_or_empty(core::environment_fact(manifest, "libtorch.version"));
  subject.configuration = normalised(manifest.configuration);
  return subject;
}

std::vector<std::string> differences(const NoiseSubject& floors, const NoiseSubject& run) {
  std::vector<std::string> found;
  if (floors.model_digest != run.model_digest) found.emplace_back("another model file");
  if (floors.method != run.method) {
    found.push_back(fmt::format("method {} against {}",
                                core::printable(floors.method, kLongestValue),
                                core::printable(run.method, kLongestValue)));
  }
  if (floors.inputs != run.inputs) found.emplace_back("other inputs");
  if (floors.libtorch != run.libtorch) {
    found.push_back(fmt::format("LibTorch {} against {}",
                                core::printable(floors.libtorch, kLongestValue),
                                core::printable(run.libtorch, kLongestValue)));
  }
  const auto is_known = [](const NoiseSubject& subject) {
    return SortedJson::parse(subject.configuration, nullptr, false).is_object();
  };
  if (!is_known(floors) || !is_known(run)) {
    found.emplace_back("the configuration is not recorded");
    return found;
  }
  const auto shown = [](const std::string& json) {
    return json == "unset" ? "nothing" : core::printable(json, kLongestValue);
  };
  for (const SettingChange& change : recorded_changes(floors.configuration, run.configuration)) {
    found.push_back(fmt::format("{}: {} against {}",
                                core::printable(change.pointer),
                                shown(change.baseline),
                                shown(change.candidate)));
  }
  return found;
}

std::string to_noise_text(const NoiseFloors& floors) {
  std::string text = line_of(head_of(floors));
  for (std::size_t i = 0; i < floors.operators.size(); ++i) {
    text += line_of(operator_of(floors.operators[i], i));
  }
  return text + line_of(Json{{"checksum", checksum_of(text)}});
}

NoiseFloors parse_noise_text(const std::string& text, const std::string& origin) {
  const Refuse refuse = [&](const std::string& why) {
    throw core::usage_error(
        fmt::format("{}: {}", core::printable(origin), why),
        "write it again with `repro-check calibrate -c config.json -n 10 -o FILE`");
  };
  const std::size_t before =
      text.size() < 2 ? std::string::npos : text.rfind('\n', text.size() - 2);
  if (before == std::string::npos || text.back() != '\n') refuse("it is not complete");
  const std::string_view lines = std::string_view(text).substr(0, before + 1);
  const Json sum = Json::parse(text.substr(lines.size()), nullptr, false);
  if (!sum.is_object() || !sum.contains("checksum")) {
    refuse("it is not complete: its last line is not a checksum");
  }
  if (sum["checksum"] != Json(checksum_of(lines))) {
    refuse("it does not match its checksum: it was changed after it was made");
  }
  NoiseFloors floors;
  floors.file = origin;
  std::size_t operators = 0;
  std::size_t number = 0;
  for (std::size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
    ++number;
    try {
      const Json line = Json::parse(lines.substr(at, lines.find('\n', at) - at), nullptr, false);
      if (!line.is_object()) refuse(fmt::format("line {} is not a JSON object", number));
      if (number == 1) {
        operators = read_head(line, floors, refuse);
      } else {
        read_operator(line, number, floors, refuse);
      }
    } catch (const Json::exception&) {
      refuse(fmt::format("line {} is not what `repro-check calibrate` writes", number));
    }
  }
  if (floors.operators.size() != operators) {
    refuse("it does not hold as many operators as it says");
  }
  return floors;
}

NoiseFloors load_noise(const std::filesystem::path& file) {
  // About a million operators.
  constexpr std::uintmax_t kLargestFile = std::uintmax_t{256} << 20U;
  const std::string text = read_config_text(
      file,
      "noise floors are made by `repro-check calibrate -c config.json -n 10 -o FILE`",
      kLargestFile);
  return parse_noise_text(text, file.string());
}

}  // namespace repro_check::configs
