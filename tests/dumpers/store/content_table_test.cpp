// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <map>
#include <random>

#include "dumpers/store/index/index.h"

namespace repro_check::store {
namespace {

TEST_CASE("a content is found by all that makes it one, and its first place holds") {
  ContentTable table;
  std::map<core::ContentKey, std::int64_t> known;
  std::mt19937_64 random(11);
  const auto any_key = [&] {
    core::ContentKey key;
    key.dtype = random() % 2 == 0 ? core::Dtype::kFloat32 : core::Dtype::kInt32;
    for (std::size_t i = random() % 3; i > 0; --i) {
      key.shape.push_back(static_cast<std::int64_t>(random() % 3));
    }
    key.digest = {random() % 4, random() % 500};
    return key;
  };
  CHECK_FALSE(table.find(any_key()));
  for (std::int64_t place = 0; place < 20'000; ++place) {
    const core::ContentKey key = any_key();
    const bool is_new = known.try_emplace(key, place).second;
    REQUIRE(table.add(key, place) == is_new);
  }
  CHECK(known.size() > 10'000);
  for (const auto& [key, place] : known) {
    REQUIRE(table.find(key) == place);
    core::TensorRecord tensor;
    tensor.dtype = key.dtype;
    tensor.shape = key.shape;
    tensor.digest = key.digest;
    REQUIRE(table.find(tensor) == place);
    tensor.shape.push_back(1);
    const auto longer = known.find(tensor.content_key());
    REQUIRE(table.find(tensor).has_value() == (longer != known.end()));
  }
}

}  // namespace
}  // namespace repro_check::store
