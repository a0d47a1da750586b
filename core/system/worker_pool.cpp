// SPDX-License-Identifier: Apache-2.0
#include "core/system/worker_pool.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace repro_check::core {

class WorkerPool::Impl : Pinned {
 public:
  explicit Impl(unsigned threads) {
    failures_.resize(threads);
    for (unsigned worker = 1; worker < threads; ++worker) {
      threads_.emplace_back([this, worker] { serve(worker); });
    }
  }
  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void run(unsigned workers, const std::function<void(unsigned)>& task) {
    {
      const std::lock_guard lock(mutex_);
      task_ = &task;
      workers_ = workers;
      busy_ = workers - 1;
      ++round_;
    }
    wake_.notify_all();
    attempt(task, 0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    const auto failed = std::ranges::find_if(
        failures_, [](const std::exception_ptr& failure) { return failure != nullptr; });
    if (failed == failures_.end()) return;
    const std::exception_ptr first = *failed;
    std::ranges::fill(failures_, nullptr);
    std::rethrow_exception(first);
  }

 private:
  void attempt(const std::function<void(unsigned)>& task, unsigned worker) noexcept {
    try {
      task(worker);
    } catch (...) {
      failures_[worker] = std::current_exception();
    }
  }

  void serve(unsigned worker) {
    std::uint64_t served = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stopping_ || round_ != served; });
      if (stopping_) return;
      served = round_;
      if (worker >= workers_) continue;
      const auto& task = *task_;
      lock.unlock();
      attempt(task, worker);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const std::function<void(unsigned)>* task_ = nullptr;
  unsigned workers_ = 0;
  unsigned busy_ = 0;
  std::uint64_t round_ = 0;
  bool stopping_ = false;
  std::vector<std::exception_ptr> failures_;  ///< one a worker
  std::vector<std::thread> threads_;
};

WorkerPool::WorkerPool(unsigned threads)
    : size_(threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency())) {}

WorkerPool::~WorkerPool() = default;

void WorkerPool::run(unsigned workers, const std::function<void(unsigned)>& task) {
  if (workers <= 1) return task(0);
  if (!impl_) impl_ = std::make_unique<Impl>(size_);
  impl_->run(workers, task);
}

}  // namespace repro_check::core
