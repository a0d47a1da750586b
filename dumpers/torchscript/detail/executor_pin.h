// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/trace/run_manifest.h"

namespace repro_check::torchscript {

/// Holds TorchScript's executor still on the calling thread, which must be the one that runs the
/// model: no optimisation, no profiling (which makes the second run another program than the
/// first), no fusion, no autocast pass. With `optimize` nothing is changed, only read. Puts
/// everything back when destroyed.
class ExecutorPin {
 public:
  explicit ExecutorPin(bool optimize);
  ExecutorPin(const ExecutorPin&) = delete;
  ExecutorPin& operator=(const ExecutorPin&) = delete;
  ExecutorPin(ExecutorPin&&) = delete;
  ExecutorPin& operator=(ExecutorPin&&) = delete;
  ~ExecutorPin();

  /// As found before and as they are now: `jit.optimize`, `jit.profiling`, ...
  [[nodiscard]] std::vector<core::Setting> settings() const;

 private:
  struct State {
    bool optimize = false;
    bool executor = false;
    bool profiling = false;
    bool fuser = false;
    bool autocast = false;
    std::size_t profiled_runs = 0;
  };
  static State read();

  State found_;
  bool pinned_;
};

}  // namespace repro_check::torchscript
