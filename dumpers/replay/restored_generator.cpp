// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/restored_generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/DistributionsHelper.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "dumpers/capture/generators/generator_watch.h"
#include "dumpers/replay/recorded_call.h"

namespace repro_check::replay {
namespace {

/// Single steps before giving up: each hashes the whole state, 2.5 KB.
constexpr int kMaxSteps = 1 << 20;
/// Draws in all: half a minute.
constexpr std::int64_t kMaxDraws = std::int64_t{1} << 33U;
/// A normal sample is made of two 53-bit numbers, of two draws each, and comes with a second one.
constexpr std::int64_t kDrawsOfPair = 4;

struct Leg {
  std::uint64_t to = 0;
  std::int64_t drawn = 0;
};

/// What operators before `op` drew from its generator, by where they began.
std::unordered_map<std::uint64_t, Leg> legs_before(const core::DumpSource& dump,
                                                   const core::OpRecord& op) {
  std::unordered_map<std::uint64_t, Leg> legs;
  for (std::uint64_t i = 0; i < op.index; ++i) {
    const auto use = dump.op(i).generator;
    if (!use || use->device != op.generator->device || use->seed != op.generator->seed) continue;
    if (use->drawn <= 0) continue;
    // Of a composite operator and its parts the parts: they name every place on the way.
    const auto [found, fresh] =
        legs.try_emplace(use->position_before, Leg{use->position_after, use->drawn});
    if (!fresh && use->drawn < found->second.drawn) {
      found->second = {use->position_after, use->drawn};
    }
  }
  return legs;
}

std::uint64_t position(const at::Generator& generator) {
  capture::GeneratorSnapshot snapshot;
  capture::take_snapshot(&generator, snapshot);
  return capture::position_of(snapshot);
}

void draw(at::CPUGeneratorImpl& generator, std::int64_t count) {
  for (; count > 0; --count) generator.random();
}

void forget_samples(at::CPUGeneratorImpl& generator) {
  generator.set_next_float_normal_sample({});
  generator.set_next_double_normal_sample({});
}

/// Whether the generator stands at the end of the leg now. A call may have left the second number
/// of its last normal pair behind, which is part of the position.
bool take_leg(const at::Generator& generator, const Leg& leg) {
  auto& impl = *generator.get<at::CPUGeneratorImpl>();
  forget_samples(impl);
  const std::int64_t last = std::min(leg.drawn, kDrawsOfPair);
  draw(impl, leg.drawn - last);
  const at::mt19937 before_last = impl.engine();
  draw(impl, last);
  if (position(generator) == leg.to) return true;
  if (last < kDrawsOfPair) return false;
  const at::mt19937 end = impl.engine();
  impl.set_engine(before_last);
  at::normal_distribution<double> normal(0, 1);
  static_cast<void>(normal(&impl));
  if (position(generator) == leg.to) return true;
  impl.set_engine(end);
  forget_samples(impl);
  return false;
}

bool reach(const at::Generator& generator, const core::DumpSource& dump, const core::OpRecord& op) {
  const std::uint64_t target = op.generator->position_before;
  if (position(generator) == target) return true;
  const auto legs = legs_before(dump, op);
  auto& impl = *generator.get<at::CPUGeneratorImpl>();
  std::int64_t drawn = 0;
  for (int steps = 0; steps < kMaxSteps;) {
    const std::uint64_t here = position(generator);
    if (here == target) return true;
    const auto leg = legs.find(here);
    if (leg != legs.end()) {
      if (leg->second.drawn > kMaxDraws - drawn) return false;
      drawn += leg->second.drawn;
      if (take_leg(generator, leg->second)) continue;
    } else {
      forget_samples(impl);
      if (position(generator) == here) draw(impl, 1);
    }
    ++steps;
  }
  return false;
}

template <class Generator>
void set_philox(Generator& generator, std::uint64_t offset) {
  if constexpr (requires { generator.set_offset(offset); }) {
    generator.set_offset(offset);
  } else {
    cannot("this LibTorch cannot move a device's generator", "use LibTorch 2.2 or newer");
  }
}

}  // namespace

at::Generator restore_generator(const core::DumpSource& dump, const core::OpRecord& op) {
  const core::GeneratorUse& use = *op.generator;
  const c10::Device device(use.device);
  if (!device.is_cpu()) {
    const at::Generator* given = capture::default_generator(device);
    if (given == nullptr) {
      cannot(fmt::format(
                 "op {} drew from the generator of {}, which is not here", op.index, use.device),
             "replay it where it was recorded");
    }
    at::Generator generator = given->clone();
    generator.set_current_seed(use.seed);
    set_philox(generator, use.position_before);
    return generator;
  }
  at::Generator generator = at::detail::createCPUGenerator(use.seed);
  if (!reach(generator, dump, op)) {
    cannot(
        fmt::format("op {} drew random numbers, and its generator's position was not found on the "
                    "way from seed {}",
                    op.index,
                    use.seed),
        "something outside the recorded operators moved the generator; seed it before the call");
  }
  return generator;
}

}  // namespace repro_check::replay
