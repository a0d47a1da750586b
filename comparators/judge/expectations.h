// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comparators/report/report.h"
#include "configs/spec/gate_spec.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// What one expected divergence did.
struct ExpectedOutcome {
  enum class What {
    kExcused,         ///< it was there, and is excused
    kAgreed,          ///< it sometimes happens, and did not
    kUnexpectedPass,  ///< it always happens, and did not
    kBeyondLimit,     ///< it went further than was said, or nobody can tell
    kNotJudged,       ///< what diverged leaves nobody able to tell whether this did
    kExpired,         ///< its day is over: it excuses nothing
    kElsewhere,       ///< it is about another platform
  };
  std::string match;  ///< `operator aten::.*, module encoder\..*`
  std::string reason;
  std::string issue;
  std::string owner;
  std::string expires;  ///< `2026-12-31`
  What what = What::kAgreed;
  std::uint64_t operators = 0;  ///< divergences it excused
  Phrases detail;               ///< why it is beyond its limit
  /// At most kMostFound of the operators it is about: those it excused, or would have excused
  /// before it expired. Of one that fails although all of them agree, the first it names: without
  /// outputs.
  std::vector<OpDivergence> found = {};
  static constexpr std::size_t kMostFound = 100;

  [[nodiscard]] bool fails() const noexcept {
    return what == What::kUnexpectedPass || what == What::kBeyondLimit || what == What::kExpired;
  }
};

/// What an entry says of itself, before anything was seen of it.
ExpectedOutcome described(const configs::ExpectedSpec& entry);

/// Whether two entries of reports on the same two runs, or on repeats of them, are about one call.
bool is_same_call(const OpDivergence& left, const OpDivergence& right);

/// The expected divergences of a gate, over all comparisons that it makes.
class Expectations {
 public:
  /// @param platform  key of the platform in hexadecimal; empty = not known
  Expectations(std::vector<configs::ExpectedSpec> entries,
               std::string platform,
               std::chrono::sys_days today);

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

  /// @throws core::Error{kUsage} naming the entries that match no operator of `dump`
  void require_matches(const core::DumpSource& dump);

  /// Takes the origins that are expected out of a report on a divergence: they and what lies
  /// downstream of them count as not judged, also by module. Divergences of weights and inputs, and
  /// operators that are missing, are never excused, nor is anything of a report that does not list
  /// all.
  void excuse(Report& report);

  /// Once every report has been seen: what every entry did. An entry that fails makes a pass a
  /// divergence of kind kExpectation; too few operators left to judge makes it not comparable.
  std::vector<ExpectedOutcome> settle(const std::optional<std::uint64_t>& min_judged,
                                      Report& report) const;

 private:
  struct Seen {
    std::uint64_t excused = 0;
    Phrases beyond;  ///< why an occurrence was not excused
    std::vector<OpDivergence> found;
    OpDivergence named;  ///< the first operator that the entry matches, as the dump has it
  };

  /// Notes an operator at the entries that it is about.
  /// @param expired  at those whose day is over, which excuse nothing; else at the others
  /// @return whether it is excused
  bool takes(const OpDivergence& op, bool expired);
  [[nodiscard]] ExpectedOutcome outcome_of(std::size_t index) const;

  std::vector<configs::ExpectedSpec> entries_;
  std::string platform_;
  std::chrono::sys_days today_;
  std::vector<Seen> seen_;
  /// Some report diverged without an operator, or in a way that is never excused.
  bool is_hidden_ = false;
};

}  // namespace repro_check::comparators
