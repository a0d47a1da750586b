// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/progress_thread.h"

#include <chrono>
#include <utility>

namespace repro_check::torchscript {

ProgressThread::ProgressThread(std::function<void()> report) : report_(std::move(report)) {
  if (report_) thread_ = std::thread([this] { run(); });
}

ProgressThread::~ProgressThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ProgressThread::run() {
  constexpr std::chrono::milliseconds kInterval(100);
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kInterval, [this] { return stop_; })) report_();
}

}  // namespace repro_check::torchscript
