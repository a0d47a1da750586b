// SPDX-License-Identifier: Apache-2.0
#include "core/system/mapped_window.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>

namespace repro_check::core {

/// What the signal handler knows of a window.
struct WindowGuard {
  std::atomic<bool> is_taken;
  std::atomic<std::uintptr_t> begin;  ///< 0 = of none
  std::atomic<std::size_t> size;
  std::atomic<bool> was_cut;
};

namespace {

std::array<WindowGuard, 64> guards;
struct sigaction before;

/// Async-signal-safe.
bool replace_window_at(std::uintptr_t address) noexcept {
  for (WindowGuard& guard : guards) {
    const std::uintptr_t begin = guard.begin;
    if (begin == 0 || address - begin >= guard.size) continue;
    guard.was_cut = true;
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a guard is read by a signal handler
    void* const place = reinterpret_cast<void*>(begin);
    return ::mmap(place, guard.size, PROT_READ | PROT_WRITE, kFlags, -1, 0) != MAP_FAILED;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int code = errno;
  const bool is_fault = info->si_code > 0;  // else another process sent it
  if (is_fault && replace_window_at(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    errno = code;
    return;
  }
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    return before.sa_handler(signal);
  }
  // The fault comes again when this returns, and ends the process as it would have.
  ::sigaction(signal, &before, nullptr);
  if (!is_fault) ::raise(signal);
}

/// A handler that was set later is the program's, and stays.
void handle_bus_errors() noexcept {
  static std::atomic<bool> is_first = true;
  struct sigaction now {};
  if (::sigaction(SIGBUS, nullptr, &now) != 0) return;
  const bool is_default = (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL;
  if (!is_first.exchange(false) && !is_default) return;
  before = now;
  struct sigaction ours {};
  ours.sa_sigaction = &on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  ::sigaction(SIGBUS, &ours, nullptr);
}

WindowGuard* take_guard(void* begin, std::size_t size) noexcept {
  for (WindowGuard& guard : guards) {
    if (guard.is_taken.exchange(true)) continue;
    guard.was_cut = false;
    guard.size = size;
    guard.begin = reinterpret_cast<std::uintptr_t>(begin);
    return &guard;
  }
  return nullptr;
}

}  // namespace

MappedWindow::MappedWindow(MappedWindow&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      guard_(std::exchange(other.guard_, nullptr)) {}

MappedWindow& MappedWindow::operator=(MappedWindow&& other) noexcept {
  MappedWindow taken(std::move(other));
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  std::swap(guard_, taken.guard_);
  return *this;
}

MappedWindow::~MappedWindow() {
  if (guard_ != nullptr) {
    guard_->begin = 0;
    guard_->is_taken = false;
  }
  if (data_ != nullptr) ::munmap(data_, size_);
}

bool MappedWindow::map(int descriptor,
                       std::uint64_t begin,
                       std::size_t size,
                       int protection) noexcept {
  void* mapped =
      ::mmap(nullptr, size, protection, MAP_SHARED, descriptor, static_cast<off_t>(begin));
  if (mapped == MAP_FAILED) return false;
  data_ = static_cast<std::byte*>(mapped);
  size_ = size;
  if ((protection & PROT_WRITE) != 0) {
    handle_bus_errors();
    guard_ = take_guard(mapped, size);
  }
  return true;
}

bool MappedWindow::was_cut() const noexcept { return guard_ != nullptr && guard_->was_cut; }

}  // namespace repro_check::core
