// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "comparators/report/report.h"
#include "configs/spec/compare_spec.h"
#include "configs/spec/noise_floors.h"
#include "core/error.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

enum class ComparePhase {
  kAligning,   ///< in records of both dumps
  kComparing,  ///< in pairs, and records without a counterpart
  kVerifying,  ///< in stored bytes of both dumps
};

/// How far a phase of a comparison has come.
struct CompareProgress {
  ComparePhase phase = ComparePhase::kAligning;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
};

/// Is told of operators as they are judged, in the order in which calls ended.
struct OpObserver {
  /// Of one that is not fine, whatever CompareOptions::max_items is. What it was told stands only
  /// if the report counts divergences in the end.
  std::function<void(const OpDivergence&)> see = nullptr;
  /// Of one that is equal, within the policy, skipped, or could not be judged: its relation, kind
  /// and cause say nothing.
  std::function<void(const OpDivergence&, OpState)> see_fine = nullptr;
};

struct CompareOptions {
  configs::CompareSpec spec;
  /// What spec.noise names, where the policy noise is used; without it nothing has a floor.
  std::shared_ptr<const configs::NoiseFloors> noise = nullptr;
  /// What spec.fp64 names, where the policy fp64 is used; without it nothing is known in float64.
  std::shared_ptr<const core::DumpSource> fp64 = nullptr;
  /// Check every stored byte of both dumps against its digest, not only the bytes compared.
  bool verify_all = false;
  /// Divergent operators kept in Report::divergences; all are counted.
  std::size_t max_items = 1000;
  std::size_t max_samples = 10;
  /// Fill Report::trail: about 40 bytes an operator, and up to 1 GB more is read for its maps.
  bool keep_trail = false;
  /// Told at the begin and the end of each phase and some thousand times between, never of less
  /// than before; by one thread at a time.
  std::function<void(const CompareProgress&)> progress = nullptr;
  OpObserver observer = {};
  /// Told, before any pair is compared, which record of the candidate belongs to each of the
  /// baseline's, or 2^32 - 1: for a baseline that takes from the candidate what it does not know.
  std::function<void(std::span<const std::uint32_t>)> paired = nullptr;
};

/// Tells CompareOptions::progress how far one phase is: at its begin, at its end, and at most so
/// often between that it costs nothing where steps are many.
class Pace {
 public:
  /// @param options  borrowed
  Pace(const CompareOptions& options, ComparePhase phase, std::uint64_t total)
      : options_(options), phase_(phase), total_(total) {
    tell();
  }

  void add(std::uint64_t steps) {
    done_ += std::min(steps, total_ - done_);
    if (done_ >= next_) tell();
  }

  /// All is done, whatever was added.
  void finish() {
    done_ = total_;
    tell();
  }

 private:
  static constexpr std::uint64_t kTold = 1000;

  void tell() {
    next_ = done_ + total_ / kTold + 1;
    if (options_.progress) options_.progress({phase_, done_, total_});
  }

  const CompareOptions& options_;
  ComparePhase phase_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  std::uint64_t next_ = 0;
};

/// What `action` finds damaged of a dump, in words; empty where it finds all whole. What else it
/// throws goes on.
template <typename Action>
std::optional<std::string> damage_in(const Action& action) {
  try {
    action();
    return std::nullopt;
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
    return error.what();
  }
}

}  // namespace repro_check::comparators
