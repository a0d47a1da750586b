// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/ranks.h"

#include <doctest/doctest.h>

#include <optional>

#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"

namespace core = repro_check::core;
using repro_check::comparators::number_fact;

TEST_CASE("a rank is told by a number, and by nothing else") {
  core::RunManifest manifest;
  CHECK(number_fact(manifest, core::kRank) == std::nullopt);
  manifest.environment = {{"distributed.rank", "7"}, {"distributed.ranks", "none"}};
  CHECK(number_fact(manifest, core::kRank) == 7U);
  CHECK(number_fact(manifest, core::kRanks) == std::nullopt);
}
