// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/any_order.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/memory_source.h"

namespace repro_check::comparators::any_order_test {
namespace {

/// A worker whose tasks each make one of these values.
std::unique_ptr<core::DumpSource> worker(std::initializer_list<int> tasks) {
  std::string tensors;
  std::string ops;
  for (const int task : tasks) {
    const std::string name = "t" + std::to_string(tensors.size());
    const std::string comma = tensors.empty() ? "" : ",";
    tensors += comma + "\"" + name + R"(":{"dtype":"float32","shape":[1],"values":[)" +
               std::to_string(task) + "]}";
    ops += comma + R"({"operator":"aten::sum","outputs":[")" + name + "\"]}";
  }
  return std::make_unique<test_support::MemorySource>(test_support::parse_dump_fixture(
      R"({"run":"r","tensors":{)" + tensors + R"(},"ops":[)" + ops + "]}"));
}

Processes workers(std::initializer_list<std::initializer_list<int>> tasks) {
  Processes processes;
  for (const auto& each : tasks) processes.push_back(worker(each));
  return processes;
}

TEST_CASE("workers of a pool are the same whoever took which task") {
  const Processes pool = workers({{1, 2, 2}, {3}});
  CHECK(same_in_any_order(pool, workers({{2, 3}, {2, 1}})) == 4);
  CHECK(same_in_any_order(pool, workers({{2, 3, 1, 2}})) == 4);
  CHECK_FALSE(same_in_any_order(pool, workers({{2, 3}, {1}})));
  CHECK_FALSE(same_in_any_order(pool, workers({{2, 3}, {1, 1}})));
  CHECK_FALSE(same_in_any_order(pool, workers({{2, 3}, {2, 4}})));
}

}  // namespace
}  // namespace repro_check::comparators::any_order_test
