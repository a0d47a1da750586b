// SPDX-License-Identifier: Apache-2.0
#include "core/system/workers.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

namespace repro_check::core {

unsigned worker_count(unsigned asked) noexcept {
  return asked != 0 ? asked : std::max(1U, std::thread::hardware_concurrency());
}

void run_workers(unsigned workers, const std::function<void(unsigned worker)>& task) {
  if (workers <= 1) return task(0);
  std::vector<std::exception_ptr> failures(workers);
  const auto attempt = [&](unsigned worker) noexcept {
    try {
      task(worker);
    } catch (...) {
      failures[worker] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned worker = 1; worker < workers; ++worker) others.emplace_back(attempt, worker);
    attempt(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace repro_check::core
