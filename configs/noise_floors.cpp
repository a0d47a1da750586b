// SPDX-License-Identifier: Apache-2.0
#include "configs/spec/noise_floors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "configs/parser/config_parser.h"
#include "configs/setting_changes.h"
#include "core/digest/digest.h"
#include "core/error.h"
#include "core/text/printable.h"
#include "core/trace/manifest_lookup.h"

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
  return json.dump();
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
  return core::to_hex(core::digest_bytes(std::as_bytes(std::span(text))));
}

using Json = nlohmann::ordered_json;

std::string checksum_of(std::string_view text) {
  return core::to_hex(core::digest_bytes(std::as_bytes(std::span(text))));
}

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

/// Reads line after line of one text.
class NoiseReader {
 public:
  NoiseReader(const std::string& text, const std::string& origin) : text_(text), origin_(origin) {}

  NoiseFloors read() {
    NoiseFloors floors;
    floors.file = origin_;
    const std::size_t end = last_line();
    check_sum(end);
    try {
      const std::size_t operators = read_head(next_line(), floors);
      while (at_ < end) read_operator(next_line(), floors);
      if (floors.operators.size() != operators)
        refuse("it does not hold as many operators as it says");
    } catch (const Json::exception&) {
      refuse(fmt::format("line {} is not what `repro-check calibrate` writes", line_));
    }
    return floors;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("{}: {}", core::printable(origin_), why),
                      "make it anew with `repro-check calibrate -c config.json -n 10 -o FILE`");
  }

  [[nodiscard]] std::size_t last_line() const {
    if (text_.empty() || text_.back() != '\n') refuse("it is not whole");
    const std::size_t before =
        text_.size() < 2 ? std::string::npos : text_.rfind('\n', text_.size() - 2);
    if (before == std::string::npos) refuse("it is not whole");
    return before + 1;
  }

  void check_sum(std::size_t end) const {
    Json json = Json::parse(text_.substr(end), nullptr, false);
    const bool is_sum = json.is_object() && json.contains("checksum");
    if (!is_sum) refuse("it is not whole: its last line is no checksum");
    if (json["checksum"] != Json(checksum_of(std::string_view(text_).substr(0, end)))) {
      refuse("it does not match its checksum: it was changed after it was made");
    }
  }

  Json next_line() {
    const std::size_t end = text_.find('\n', at_);
    const Json json = Json::parse(text_.substr(at_, end - at_), nullptr, false);
    at_ = end + 1;
    ++line_;
    if (!json.is_object()) refuse(fmt::format("line {} is no JSON object", line_));
    return json;
  }

  std::size_t read_head(const Json& head, NoiseFloors& floors) const {
    if (head.value("format", "") != kNoiseFormat) refuse("it holds no noise floors");
    if (!head.at("version").get<std::string>().starts_with("1.")) {
      refuse(fmt::format("it is of version {}, and this tool reads 1",
                         core::printable(head.at("version").get<std::string>())));
    }
    floors.tool_version = head.at("tool").get<std::string>();
    floors.runs = head.at("runs").get<std::uint64_t>();
    floors.subject.model_digest = head.at("model").at("digest").get<std::string>();
    floors.subject.method = head.at("model").at("method").get<std::string>();
    floors.subject.inputs = head.at("inputs").get<std::map<std::string, std::string>>();
    floors.subject.libtorch = head.at("libtorch").get<std::string>();
    floors.subject.configuration = nlohmann::json(head.at("configuration")).dump();
    return head.at("operators").get<std::size_t>();
  }

  void read_operator(const Json& line, NoiseFloors& floors) const {
    if (line.at("op").get<std::size_t>() != floors.operators.size()) {
      refuse(fmt::format("line {} is not in its place", line_));
    }
    OperatorFloors& known = floors.operators.emplace_back();
    known.op = line.at("operator").get<std::string>();
    known.module = line.at("module").get<std::string>();
    for (const auto& [slot, json] : line.at("floors").items()) {
      OutputFloor& floor = known.outputs[slot];
      if (json.contains("none")) {
        floor.problem = json.at("none").get<std::string>();
        if (floor.problem.empty()) floor.problem = "it is not said why";
        continue;
      }
      floor.l2_rel = json.at("l2_rel").get<double>();
      floor.max_abs = json.at("max_abs").get<double>();
      for (const double number : {floor.l2_rel, floor.max_abs}) {
        if (!std::isfinite(number) || number < 0) {
          refuse(fmt::format("line {} holds a floor below 0", line_));
        }
      }
    }
  }

  const std::string& text_;
  const std::string& origin_;
  std::size_t at_ = 0;
  std::size_t line_ = 0;
};

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
  return NoiseReader(text, origin).read();
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
