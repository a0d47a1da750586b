// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "core/system/pinned.h"

namespace repro_check::core {

/// Threads that share the parts of one piece of work after the other. They are started when the
/// first work comes that is worth more than one. For one owner, from one thread.
class WorkerPool : Pinned {
 public:
  /// @param threads  that work together, the calling one included; 0 = as many as there are
  ///                 processors for this process
  explicit WorkerPool(unsigned threads);
  ~WorkerPool();

  [[nodiscard]] unsigned size() const noexcept { return size_; }

  /// Runs task(0), ..., task(workers - 1) at the same time, task(0) on the calling thread, and
  /// returns when all have ended. The exception of the lowest worker that threw is thrown again.
  /// @param workers  1 to size(); 1 costs nothing but the call
  void run(unsigned workers, const std::function<void(unsigned worker)>& task);

 private:
  class Impl;
  unsigned size_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace repro_check::core
