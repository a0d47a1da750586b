// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "core/trace/op_record.h"

namespace repro_check::capture {

/// Where a generator stands. Reading it moves nothing.
struct GeneratorSnapshot {
  c10::intrusive_ptr<c10::GeneratorImpl> generator;  ///< null = nothing is watched
  bool busy = false;  ///< nothing is watched because somebody was drawing
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  ///< of philox; generators other than the CPU's
  /// Shared with other snapshots of the same place: it has 2.5 KB, and every operator takes one.
  std::shared_ptr<const at::mt19937> engine;
  std::optional<float> cached_float;
  std::optional<double> cached_double;
};

/// Never waits for the generator: whoever holds it may be the operator that called this one.
/// @param generator  null or undefined gives an empty snapshot
void take_snapshot(const at::Generator* generator, GeneratorSnapshot& into);

struct Movement {
  bool counted = true;  ///< false where somebody was drawing, before the call or after it
  std::optional<core::GeneratorUse> use;  ///< empty when the generator has not moved
};

/// The use made of the generator since `before`. Never waits either.
Movement movement_since(const GeneratorSnapshot& before);

/// Waits for whoever holds the generator, as who draws from it does.
GeneratorSnapshot wait_for_snapshot(c10::GeneratorImpl& generator);

/// Whether both are of one place of one kind of generator.
bool same_place(const GeneratorSnapshot& left, const GeneratorSnapshot& right);

/// Where a CPU generator is left to be asked how far it is behind its seed: it takes 0.03 s.
constexpr std::uint64_t kFarthestSeek = std::uint64_t{1} << 26U;

/// How many numbers a CPU generator has drawn since it was seeded, by making them once more; empty
/// beyond kFarthestSeek.
std::optional<std::uint64_t> draws_since_seed(const GeneratorSnapshot& snapshot);

/// Has a generator draw: one number of the CPU's, and of another the shortest draw that there is.
/// @return where it stood, and where it stands
/// @throws c10::Error where it cannot be moved so, as while its device makes a graph
std::pair<GeneratorSnapshot, GeneratorSnapshot> move_on(c10::GeneratorImpl& generator);

/// What a device's generator takes of its `offset` for the shortest draw, and of which that has to
/// be a multiple.
constexpr std::uint64_t kOffsetOfDraw = 4;

/// @throws c10::Error as move_on()
void set_offset(c10::GeneratorImpl& generator, std::uint64_t offset);

/// Where it stands, as a record has it: core::GeneratorUse::position_before.
std::uint64_t position_of(const GeneratorSnapshot& snapshot);

/// The default generator a call on `device` draws from; null where there is none.
const at::Generator* default_generator(const c10::Device& device);

}  // namespace repro_check::capture
