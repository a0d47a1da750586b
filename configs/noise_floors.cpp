// SPDX-License-Identifier: Apache-2.0
#include "configs/spec/noise_floors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "configs/setting_changes.h"
#include "core/digest/digest.h"
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

}  // namespace repro_check::configs
