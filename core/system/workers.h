// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace repro_check::core {

/// @param asked  0 = as many as there are processors for this process
unsigned worker_count(unsigned asked) noexcept;

/// Runs task(0), ..., task(workers - 1) at the same time, task(0) on the calling thread, and
/// returns when all have ended. The exception of the lowest worker that threw is thrown again.
/// @param workers  not 0; 1 costs nothing but the call
void run_workers(unsigned workers, const std::function<void(unsigned worker)>& task);

}  // namespace repro_check::core
