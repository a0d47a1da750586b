// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <string>

#include "core/text/text.h"

namespace repro_check::core {
namespace {

constexpr std::array<std::string_view, 5> kWords{"seed", "threads", "determinism", "env", "rng"};

TEST_CASE("one slip is forgiven: missing, surplus, wrong, swapped, case") {
  CHECK(near_miss("sed", kWords) == "seed");
  CHECK(near_miss("seeed", kWords) == "seed");
  CHECK(near_miss("sead", kWords) == "seed");
  CHECK(near_miss("sede", kWords) == "seed");
  CHECK(near_miss("SEED", kWords) == "seed");
  CHECK(near_miss("en", kWords) == "env");
}

TEST_CASE("long words forgive more, short ones do not") {
  CHECK(near_miss("determinsm", kWords) == "determinism");
  CHECK(near_miss("deterministic", kWords) == "determinism");
  CHECK_FALSE(near_miss("abcd", kWords));
  CHECK_FALSE(near_miss("", kWords));
  CHECK_FALSE(near_miss("seed", {}));
}

TEST_CASE("the nearest wins, the first among equals") {
  constexpr std::array<std::string_view, 3> kNear{"depths", "dept", "depth"};
  CHECK(near_miss("depth", kNear) == "depth");
  CHECK(near_miss("depthx", kNear) == "depths");
}

TEST_CASE("an endless word costs nothing") {
  CHECK_FALSE(near_miss(std::string(10'000'000, 'x'), kWords));
}

}  // namespace
}  // namespace repro_check::core
