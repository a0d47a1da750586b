// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace repro_check::torchscript {

/// Calls a function about ten times a second from a thread of its own, until destroyed.
class ProgressThread {
 public:
  /// @param report  must not throw; may be empty, then there is no thread
  explicit ProgressThread(std::function<void()> report);
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;
  ProgressThread(ProgressThread&&) = delete;
  ProgressThread& operator=(ProgressThread&&) = delete;
  ~ProgressThread();

 private:
  void run();

  std::function<void()> report_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;  // last, so that it starts when all else is there
};

}  // namespace repro_check::torchscript
