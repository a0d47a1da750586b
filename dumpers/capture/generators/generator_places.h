// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dumpers/capture/generators/generator_watch.h"

namespace repro_check::capture {

/// Where a generator stands, in words that mean the same on every device.
struct GeneratorPlace {
  std::uint64_t seed = 0;
  std::uint64_t draws = 0;  ///< since it was seeded; where they are too many, a digest of its state

  bool operator==(const GeneratorPlace&) const = default;
};

/// Finds generators and moves them on: a draw that is made on the host by one place, whatever it
/// draws. A place is made of a generator's own state alone, so that who sets that back has the
/// draws of then. Not to be called from several threads at once.
class GeneratorPlaces {
 public:
  /// @param of_process  it is the default one of its device. On a CPU a program has one of them
  ///                    where it has two on a device: that of the device begins where the CPU's is
  ///                    if both have one seed, and they go on together where they are at one place
  /// @return empty where it cannot be moved on
  std::optional<GeneratorPlace> find(const at::Generator& generator, bool of_process);
  void move_on(const at::Generator& generator, bool of_process);

  /// Whether it stands where move_on() left one lately: nobody else has drawn from it since.
  [[nodiscard]] bool was_left_at(const GeneratorSnapshot& state) const;

 private:
  /// A state that was met, or left, lately.
  struct Known {
    GeneratorSnapshot state;
    GeneratorPlace place;
    bool left = false;
  };

  void remember(Known one) { known_.at(oldest_++ % known_.size()) = std::move(one); }
  GeneratorPlace place_of(const GeneratorSnapshot& state);
  /// @return where it stood
  GeneratorPlace move_alone(const at::Generator& generator);

  std::array<Known, 16> known_;
  std::size_t oldest_ = 0;
  std::vector<at::Generator> of_devices_;  ///< default ones that were drawn from
};

}  // namespace repro_check::capture
