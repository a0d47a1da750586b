// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/differences.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <ctime>
#include <string>

namespace repro_check::comparators {
namespace {

core::RunManifest with_settings(std::size_t count, const std::string& value) {
  core::RunManifest manifest;
  for (std::size_t i = 0; i < count; ++i) {
    manifest.settings.push_back({"setting" + std::to_string(i), value, value});
  }
  return manifest;
}

TEST_CASE("very many settings that differ are told apart in linear time") {
  constexpr std::size_t kMany = 160'000;
  const core::RunManifest baseline = with_settings(kMany, "on");
  const core::RunManifest candidate = with_settings(kMany, "off");
  const std::clock_t begin = std::clock();  // of the processor: the machine may be busy
  const auto suspects = suspects_of(baseline, candidate, manifest_differences(baseline, candidate));
  CHECK(std::clock() - begin < 20 * CLOCKS_PER_SEC);
  REQUIRE(suspects.size() == kMany);
  CHECK(suspects.front().text == "setting0 on -> off");
  CHECK(suspects.front().pointer == "/settings/setting0");
}

}  // namespace
}  // namespace repro_check::comparators
