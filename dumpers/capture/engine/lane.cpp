// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/lane.h"

#include <utility>

#include "core/trace/op_record.h"

namespace repro_check::capture {

std::shared_ptr<LaneState> LaneState::fork() {
  auto forked = std::make_shared<LaneState>(capture, core::forked_lane(number, forks_++));
  forked->parent_ = weak_from_this();
  forked->step_ = step();
  return forked;
}

void LaneState::set_step(std::uint32_t step, bool of_ancestors) noexcept {
  step_ = step;
  if (!of_ancestors) return;
  for (auto lane = parent_.lock(); lane; lane = lane->parent_.lock()) raise(lane->step_, step);
}

void go_on_at(std::int64_t place) noexcept {
  LaneState* lane = LaneState::current();
  if (lane == nullptr) return;
  lane->hold();
  lane->place.store(place, std::memory_order_relaxed);
}

std::optional<std::int64_t> place_here() noexcept {
  const LaneState* lane = LaneState::current();
  if (lane == nullptr || !lane->is_held_here()) return std::nullopt;
  return lane->place.load(std::memory_order_relaxed);
}

std::optional<std::int64_t> place_of_lane() noexcept {
  const LaneState* lane = LaneState::current();
  if (lane == nullptr) return std::nullopt;
  return lane->place.load(std::memory_order_relaxed);
}

void begin_fork() {
  LaneState* lane = LaneState::current();
  if (lane == nullptr) return;
  lane->hold();
  auto forked = lane->fork();
  forked->launch();
  c10::ThreadLocalDebugInfo::_push(LaneState::kind(), std::move(forked));
}

void end_fork() noexcept {
  LaneState* forked = LaneState::current();
  if (forked == nullptr || !forked->is_launched_here()) return;
  forked->launched();
  c10::ThreadLocalDebugInfo::_pop(LaneState::kind());
}

void leave_thread() noexcept {
  LaneState* lane = LaneState::current();
  if (lane != nullptr) lane->release();
}

}  // namespace repro_check::capture
