// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comparators/report/report.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// A fact of the environment: a call that the package for Python made of a function, one of several
/// in one process. `kept`: what it changed stayed for the next call; `restored`.
inline constexpr std::string_view kStateOfCalls = "process.state";
inline constexpr std::string_view kKeptState = "kept";

/// Whether a run is a call of a function, one of several in one process.
bool is_call(const core::RunManifest& manifest);

/// Where generators that no operator draws from (Python's `random`, NumPy's global one) stood in
/// two runs of a program.
class HostGenerators {
 public:
  /// Both are borrowed, and read when they are asked for.
  HostGenerators(const core::DumpSource& baseline, const core::DumpSource& candidate)
      : baseline_(baseline), candidate_(candidate) {}

  /// Why one that moved at about this operator stood elsewhere in each run: it was never seeded, or
  /// seeded otherwise, or one run drew more from it, and between which lines; nothing where none
  /// did.
  /// @param op  of the dump that has it
  [[nodiscard]] std::optional<Cause> apart_at(std::uint64_t op, bool in_baseline) const;

 private:
  /// What one record says.
  struct Reading {
    std::uint64_t op = 0;
    std::string where;                         ///< `op 3 repro_check::batch`
    std::map<std::string, std::string> state;  ///< by generator, as a digest
    std::map<std::string, std::string> moved;  ///< by generator, between which lines
  };
  using Readings = std::vector<Reading>;

  static Readings read(const core::DumpSource& dump);
  void read_both() const;
  [[nodiscard]] std::optional<Cause> apart(const std::string& name, std::size_t until) const;

  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  mutable std::optional<Readings> here_;
  mutable Readings there_;
};

/// Each that drew, and who seeded it.
Phrases moved_generators(const core::RunManifest& manifest);

}  // namespace repro_check::comparators
