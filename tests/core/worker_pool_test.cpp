// SPDX-License-Identifier: Apache-2.0
#include "core/system/worker_pool.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <string>

namespace repro_check::core {
namespace {

TEST_CASE("each worker is asked once, work after work") {
  WorkerPool pool(4);
  CHECK(pool.size() == 4);
  for (unsigned workers = 1; workers <= 4; ++workers) {
    std::atomic<unsigned> seen{0};
    for (int round = 0; round < 50; ++round) {
      pool.run(workers, [&](unsigned worker) { seen += 1U << (8 * worker); });
    }
    unsigned expected = 0;
    for (unsigned worker = 0; worker < workers; ++worker) expected += 50U << (8 * worker);
    CHECK(seen == expected);
  }
}

TEST_CASE("the exception of the lowest worker comes out, and the pool goes on") {
  WorkerPool pool(3);
  const auto fail = [](unsigned worker) {
    if (worker != 0) throw std::runtime_error(std::to_string(worker));
  };
  CHECK_THROWS_WITH(pool.run(3, fail), "1");
  CHECK_NOTHROW(pool.run(3, [](unsigned) {}));
}

TEST_CASE("a pool of as many threads as there are processors has one at least") {
  CHECK(WorkerPool(0).size() >= 1);
}

}  // namespace
}  // namespace repro_check::core
