// SPDX-License-Identifier: Apache-2.0
#include "cmd/recorder/answers.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "cmd/recorder/json_line.h"
#include "core/trace/run_manifest.h"
#include "dumpers/capture/settings/determinism.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/torchscript/torchscript_run.h"
#include "dumpers/torchscript/weight_versions.h"

namespace repro_check::recorder {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const std::vector<core::EnvironmentFact>& facts) {
  Json list = Json::array();
  for (const core::EnvironmentFact& fact : facts) {
    list.push_back({{"name", fact.name}, {"value", fact.value}});
  }
  return list;
}

}  // namespace

std::string describe(const std::filesystem::path& model, const std::string& method) {
  const torchscript::ModelDescription description = torchscript::describe_model(model, method);
  Json arguments = Json::array();
  for (const torchscript::MethodArgument& argument : description.arguments) {
    arguments.push_back({{"name", argument.name},
                         {"type", argument.type},
                         {"has_default", argument.has_default},
                         {"default_value", argument.default_value}});
  }
  return to_line({{"method", description.method},
                  {"methods", description.methods},
                  {"arguments", std::move(arguments)}});
}

std::string weights(const std::filesystem::path& first, const std::filesystem::path& second) {
  const torchscript::WeightVersions versions = torchscript::compare_weights(first, second);
  Json different = Json::array();
  for (const torchscript::WeightDifference& each : versions.different) {
    different.push_back({{"names", each.names},
                         {"what", each.what},
                         {"elements", each.elements},
                         {"differing", each.differing ? Json(*each.differing) : Json(nullptr)}});
  }
  return to_line({{"names", versions.names},
                  {"different", std::move(different)},
                  {"obstacle", versions.obstacle},
                  {"mend", versions.mend}});
}

std::string environment() {
  return to_line({{"settings", to_json(capture::read_settings())},
                  {"environment", to_json(capture::read_environment())}});
}

std::string version() {
  std::string libtorch = "unknown";
  for (const core::EnvironmentFact& fact : capture::read_environment()) {
    if (fact.name == "libtorch.version") libtorch = fact.value;
  }
  return to_line(
      {{"tool", REPRO_CHECK_VERSION},
       {"libtorch", libtorch},
       {"hdf5", store::hdf5_version()},
       {"dump_format",
        std::to_string(core::kDumpFormatMajor) + "." + std::to_string(core::kDumpFormatMinor)}});
}

}  // namespace repro_check::recorder
