// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/Parallel.h>

#include "core/system/pinned.h"

namespace repro_check::replay {

/// Threads of LibTorch, for as long as it lives.
class ThreadCount : core::Pinned {
 public:
  explicit ThreadCount(int count) : found_(at::get_num_threads()) { at::set_num_threads(count); }
  ~ThreadCount() { at::set_num_threads(found_); }

 private:
  int found_;
};

}  // namespace repro_check::replay
