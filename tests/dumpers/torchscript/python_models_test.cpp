// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"
#include "core/trace/op_record.h"
#include "dumpers/torchscript/torchscript_run.h"
#include "fixtures.h"

namespace repro_check::torchscript {
namespace {

using nlohmann::json;

/// Records the model beside `facts` and checks what its operators are said to stand in.
void check_model(const std::filesystem::path& facts_file) {
  DOCTEST_INFO(facts_file.string());
  std::ifstream in(facts_file);
  const json facts = json::parse(in);
  std::filesystem::path model = facts_file;
  configs::RunSpec run = test::run_of(model.replace_extension(".pt"));
  configs::InputSpec input = test::generated(facts.at("shape"), configs::Distribution::kOnes);
  auto& generated = std::get<configs::GeneratedInput>(input.source);
  generated.dtype = core::parse_dtype(facts.at("dtype").get<std::string>()).value();
  run.calls[0].push_back(input);
  test::MemorySink sink;
  prepare_run(run, {})->record(sink, {});

  const std::vector<std::string> modules = facts.at("modules");
  std::vector<std::string> linear;
  std::vector<std::uint32_t> items;
  for (const core::OpRecord& record : sink.records) {
    DOCTEST_REQUIRE(record.site != nullptr);
    DOCTEST_CHECK_MESSAGE(std::ranges::count(modules, record.site->module_path) == 1,
                          (record.op->name + " stands in " + record.site->module_path));
    if (record.op->name == "aten::item") {
      DOCTEST_REQUIRE(core::display_frame(*record.site) != nullptr);
      items.push_back(core::display_frame(*record.site)->line);
    }
    if (record.op->name != "aten::linear") continue;
    linear.push_back(record.site->module_path);
    DOCTEST_CHECK(record.site->module_type == "Linear");
    const core::SourceFrame* frame = core::display_frame(*record.site);
    DOCTEST_REQUIRE(frame != nullptr);
    DOCTEST_CHECK(frame->line > 0);
    DOCTEST_CHECK(frame->file.find("/torch/nn/") == std::string::npos);
  }
  std::ranges::sort(items);
  const std::vector<std::uint32_t> known = facts.at("items");
  DOCTEST_CHECK((known.empty() || items == known));
  DOCTEST_CHECK(linear == facts.at("linear").get<std::vector<std::string>>());
}

DOCTEST_TEST_CASE("models made by Python stand in the modules that Python names") {
  const test_support::TempDirectory dir;
  const std::string command = std::string(REPRO_CHECK_TEST_PYTHON) + " " +
                              REPRO_CHECK_MODEL_SCRIPT + " " + dir.path().string();
  DOCTEST_REQUIRE(std::system(command.c_str()) == 0);
  std::size_t models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    if (entry.path().extension() != ".json") continue;
    check_model(entry.path());
    ++models;
  }
  DOCTEST_CHECK(models >= 2);
}

}  // namespace
}  // namespace repro_check::torchscript
