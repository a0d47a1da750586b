// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/generators/generator_places.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace repro_check::capture {
namespace {

c10::GeneratorImpl& impl_of(const at::Generator& generator) {
  return *generator.unsafeGetGeneratorImpl();
}

const at::Generator& of_cpu() { return at::detail::getDefaultCPUGenerator(); }

}  // namespace

bool GeneratorPlaces::was_left_at(const GeneratorSnapshot& state) const {
  return std::ranges::any_of(
      known_, [&](const Known& one) { return one.left && same_place(one.state, state); });
}

GeneratorPlace GeneratorPlaces::place_of(const GeneratorSnapshot& state) {
  if (!state.engine) return {state.seed, state.offset / kOffsetOfDraw};
  for (const Known& one : known_) {
    if (same_place(one.state, state)) return one.place;
  }
  const GeneratorPlace place{state.seed, draws_since_seed(state).value_or(position_of(state))};
  remember({state, place, false});
  return place;
}

std::optional<GeneratorPlace> GeneratorPlaces::find(const at::Generator& generator,
                                                    bool of_process) {
  try {
    const GeneratorSnapshot state = wait_for_snapshot(impl_of(generator));
    const GeneratorPlace place = place_of(state);
    if (state.engine) return place;
    // Shows whether it can be, while the operator can still draw itself.
    set_offset(impl_of(generator), state.offset);
    if (!of_process || std::ranges::find(of_devices_, generator) != of_devices_.end()) return place;
    of_devices_.push_back(generator);
    const GeneratorPlace host = place_of(wait_for_snapshot(impl_of(of_cpu())));
    if (place.draws > 0 || place.seed != host.seed || host.draws > kFarthestSeek) return place;
    set_offset(impl_of(generator), host.draws * kOffsetOfDraw);
    return host;
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

GeneratorPlace GeneratorPlaces::move_alone(const at::Generator& generator) {
  const auto [before, after] = capture::move_on(impl_of(generator));
  const GeneratorPlace from = place_of(before);
  const bool is_far = after.engine && from.draws >= kFarthestSeek;
  remember({after, {from.seed, is_far ? position_of(after) : from.draws + 1}, true});
  return from;
}

void GeneratorPlaces::move_on(const at::Generator& generator, bool of_process) {
  const GeneratorPlace from = move_alone(generator);
  if (!of_process) return;
  const auto go_along = [&](const at::Generator& other) {
    try {
      if (place_of(wait_for_snapshot(impl_of(other))) == from) move_alone(other);
    } catch (const c10::Error&) {
      // Its device makes a graph, and nobody can tell where it stands.
    }
  };
  if (generator != of_cpu()) return go_along(of_cpu());
  for (const at::Generator& other : of_devices_) go_along(other);
}

}  // namespace repro_check::capture
