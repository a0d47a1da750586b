// SPDX-License-Identifier: Apache-2.0
#include "core/system/workers.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <string>

namespace repro_check::core {
namespace {

TEST_CASE("each worker is asked once, work after work") {
  for (unsigned workers = 1; workers <= 4; ++workers) {
    std::atomic<unsigned> seen{0};
    for (int round = 0; round < 50; ++round) {
      run_workers(workers, [&](unsigned worker) { seen += 1U << (8 * worker); });
    }
    unsigned expected = 0;
    for (unsigned worker = 0; worker < workers; ++worker) expected += 50U << (8 * worker);
    CHECK(seen == expected);
  }
}

TEST_CASE("the exception of the lowest worker comes out, and the next work is done") {
  const auto fail = [](unsigned worker) {
    if (worker != 0) throw std::runtime_error(std::to_string(worker));
  };
  CHECK_THROWS_WITH(run_workers(3, fail), "1");
  CHECK_NOTHROW(run_workers(3, [](unsigned) {}));
}

TEST_CASE("as many workers as were asked for, or as there are processors, one at least") {
  CHECK(worker_count(4) == 4);
  CHECK(worker_count(0) >= 1);
}

}  // namespace
}  // namespace repro_check::core
