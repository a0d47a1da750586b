// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace repro_check::capture {

/// What a front end tells of the lanes of a program that forks. While a Capture::Scope is alive,
/// what a thread launches inherits its lane with the rest of LibTorch's thread-local state; on
/// which thread a lane goes on, only the front end knows. Work of a thread of which it was not told
/// is recorded as of the lane's pool, without an order. Outside a scope all of this does nothing.

/// This thread goes on with its lane, at a place that only the front end understands.
void go_on_at(std::int64_t place) noexcept;

/// Where the lane of this thread stands; empty when this thread is not known to go on with it.
std::optional<std::int64_t> place_here() noexcept;

/// Where the lane that this thread began with stands, whichever thread it is on by now.
std::optional<std::int64_t> place_of_lane() noexcept;

/// From here to end_fork() this thread launches the next fork of its lane. Operators that it runs
/// itself meanwhile are not the program's, and are not recorded: LibTorch's compiler runs some.
void begin_fork();
void end_fork() noexcept;

/// The lane may go on on another thread.
void leave_thread() noexcept;

/// Sets `value` to `least` where it is less.
inline void raise(std::atomic<std::uint32_t>& value, std::uint32_t least) noexcept {
  std::uint32_t now = value.load(std::memory_order_relaxed);
  while (now < least && !value.compare_exchange_weak(now, least, std::memory_order_relaxed)) {
  }
}

/// One lane. Travels with LibTorch's thread-local state, which forks and what goes on after a wait
/// take along from thread to thread.
class LaneState final : public c10::DebugInfoBase, public std::enable_shared_from_this<LaneState> {
 public:
  /// One that LibTorch itself uses in tests alone.
  static c10::DebugInfoKind kind() noexcept { return c10::DebugInfoKind::TEST_INFO_2; }

  LaneState(std::uint64_t capture_id, std::uint32_t lane) : capture(capture_id), number(lane) {}

  /// Null when this thread inherited none.
  static LaneState* current() noexcept {
    return static_cast<LaneState*>(c10::ThreadLocalDebugInfo::get(kind()));
  }

  const std::uint64_t capture;  ///< ThreadState::capture
  const std::uint32_t number;
  std::atomic<std::int64_t> place = -1;

  [[nodiscard]] std::uint32_t step() const noexcept {
    return step_.load(std::memory_order_relaxed);
  }
  /// @param of_ancestors  those that it was forked from go on with what it has made: where they are
  ///                      in an earlier step, they are in this one too
  void set_step(std::uint32_t step, bool of_ancestors) noexcept;

  void hold() noexcept { holder_.store(this_thread(), std::memory_order_relaxed); }
  void release() noexcept { holder_.store(nullptr, std::memory_order_relaxed); }
  [[nodiscard]] bool is_held_here() const noexcept {
    return holder_.load(std::memory_order_relaxed) == this_thread();
  }

  /// Whether what a thread of a device runs of the lane's backward passes is the lane's: it waits
  /// for that meanwhile. Of several devices, which run side by side, the first one's is.
  bool has_backward_of(int device) noexcept {
    int first = kNoDevice;
    return backward_device_.compare_exchange_strong(first, device) || first == device;
  }

  /// The next fork, in the step in which this lane is. On the thread that holds it.
  std::shared_ptr<LaneState> fork();
  /// This thread launches it, until launched().
  void launch() noexcept { launcher_.store(this_thread(), std::memory_order_relaxed); }
  void launched() noexcept { launcher_.store(nullptr, std::memory_order_relaxed); }
  [[nodiscard]] bool is_launched_here() const noexcept {
    return launcher_.load(std::memory_order_relaxed) == this_thread();
  }

 private:
  /// An address that only this thread has.
  static const void* this_thread() noexcept {
    thread_local const char own = 0;
    return &own;
  }

  std::weak_ptr<LaneState> parent_;  ///< a thread that starts the next one may be gone by then
  std::atomic<std::uint32_t> step_ = 0;
  std::uint32_t forks_ = 0;  ///< whoever holds the lane counts them
  static constexpr int kNoDevice = -1;
  std::atomic<int> backward_device_ = kNoDevice;
  std::atomic<const void*> holder_ = nullptr;
  std::atomic<const void*> launcher_ = nullptr;
};

}  // namespace repro_check::capture
