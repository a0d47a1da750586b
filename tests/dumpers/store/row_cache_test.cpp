// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "dumpers/store/index/index.h"

namespace repro_check::store {
namespace {

std::shared_ptr<const std::string> text(std::uint32_t row) {
  return std::make_shared<const std::string>(std::to_string(row));
}

TEST_CASE("a row is found until another takes its place") {
  journal::RowCache<std::string> cache(1'000'000);
  CHECK(cache.find(0) == nullptr);
  CHECK(cache.find(7) == nullptr);
  cache.keep(7, text(7), 100);
  REQUIRE(cache.find(7) != nullptr);
  CHECK(*cache.find(7) == "7");
  CHECK(cache.find(8) == nullptr);
  constexpr std::uint32_t kBeside = 7 + 65'536;
  CHECK(cache.find(kBeside) == nullptr);
  cache.keep(kBeside, text(kBeside), 100);
  CHECK(cache.find(7) == nullptr);
  CHECK(*cache.find(kBeside) == std::to_string(kBeside));
}

TEST_CASE("what is kept is bounded in bytes, however large the objects are") {
  constexpr std::size_t kLarge = std::size_t{1} << 20U;
  journal::RowCache<std::string> cache(1'000'000);
  std::size_t most = 0;
  for (std::uint32_t row = 0; row < 100; ++row) {
    cache.keep(row, text(row), kLarge);
    CHECK(*cache.find(row) == std::to_string(row));
    std::size_t kept = 0;
    for (std::uint32_t other = 0; other <= row; ++other) kept += cache.find(other) ? 1U : 0U;
    most = std::max(most, kept);
  }
  CHECK(most == 8);
  cache.keep(5, text(5), 100 * kLarge);
  CHECK(cache.find(5) == nullptr);
}

}  // namespace
}  // namespace repro_check::store
