// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "configs/parser/builtin_files.h"
#include "tests/configs/fixture_files.h"

namespace repro_check::configs {
namespace {

TEST_CASE("the presets built in are the files of configs/presets, all of them, sorted") {
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_directory() / "configs" / "presets")) {
    ++files;
    const std::string name = entry.path().stem().string();
    CAPTURE(name);
    const auto presets = detail::builtin_presets();
    const auto found = std::ranges::find(presets, name, &detail::Preset::name);
    REQUIRE(found != presets.end());
    CHECK(found->json == test::read_file(entry.path()));
  }
  const auto presets = detail::builtin_presets();
  CHECK(presets.size() == files);
  // The schema names them, in the same order.
  const auto schema = nlohmann::ordered_json::parse(detail::builtin_schema());
  const auto& names = schema["properties"]["preset"]["enum"];
  CHECK(names.size() == files);
  CHECK(std::ranges::equal(presets, names, {}, &detail::Preset::name));
}

TEST_CASE("bitwise: one thread, deterministic or failing, equal bits") {
  const Config config = test::parse_with(R"("preset": "bitwise")");
  CHECK(config.runs[0].determinism == DeterminismMode::kError);
  CHECK(config.runs[0].threads == 1);
  CHECK(config.runs[0].rng == RngMode::kDevice);
  CHECK(config.compare.policy.kind == PolicyKind::kBitwise);
  CHECK(config.compare.policy.equal_nan == EqualNan::kBits);
  CHECK(config.compare.policy.signed_zero_distinct == true);
}

TEST_CASE("cross-device: the same random numbers everywhere, judged by tolerance") {
  const Config config = test::parse_with(R"("preset": "cross-device")");
  CHECK(config.runs[0].determinism == DeterminismMode::kWarn);
  CHECK(config.runs[0].rng == RngMode::kHost);
  CHECK(config.compare.policy.kind == PolicyKind::kTolerance);
  CHECK(config.compare.policy.equal_nan == EqualNan::kAny);
  CHECK(config.compare.policy.signed_zero_distinct == false);
}

TEST_CASE("training-parity: train mode with gradients, without dropout") {
  const Config config = test::parse_with(R"("preset": "training-parity")");
  CHECK(config.runs[0].model.mode == ModelMode::kTrain);
  CHECK(config.runs[0].grad == GradMode::kEnabled);
  CHECK(config.runs[0].determinism == DeterminismMode::kError);
  CHECK(config.runs[0].disable_dropout);
  CHECK(config.runs[0].rng == RngMode::kHost);
}

TEST_CASE("the file wins over the preset, key by key, and a model given as a path merges too") {
  const Config config = test::parse(R"({"preset": "training-parity", "model": "files/model.pt",
      "inputs": [], "grad": "disabled", "compare": {"equal_nan": "never"}})");
  CHECK(config.runs[0].model.mode == ModelMode::kTrain);
  CHECK(config.runs[0].grad == GradMode::kDisabled);
  CHECK(config.compare.policy.kind == PolicyKind::kTolerance);
  CHECK(config.compare.policy.equal_nan == EqualNan::kNever);
}

}  // namespace
}  // namespace repro_check::configs
