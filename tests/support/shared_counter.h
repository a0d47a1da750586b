// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>

namespace repro_check::test_support {

/// A counter that a child process and its parent both see.
class SharedCounter {
 public:
  SharedCounter()
      : counter_(static_cast<std::atomic<std::uint64_t>*>(::mmap(nullptr,
                                                                 sizeof(*counter_),
                                                                 PROT_READ | PROT_WRITE,
                                                                 MAP_SHARED | MAP_ANONYMOUS,
                                                                 -1,
                                                                 0))) {
    if (static_cast<void*>(counter_) == MAP_FAILED) throw std::runtime_error("no shared memory");
  }
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  SharedCounter(SharedCounter&&) = delete;
  SharedCounter& operator=(SharedCounter&&) = delete;
  ~SharedCounter() { ::munmap(counter_, sizeof(*counter_)); }
  std::atomic<std::uint64_t>& operator*() const { return *counter_; }

 private:
  std::atomic<std::uint64_t>* counter_;
};

}  // namespace repro_check::test_support
