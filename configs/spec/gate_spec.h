// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "configs/spec/name_pattern.h"

namespace repro_check::configs {

/// Where baselines are, and which of them count.
struct BaselinesSpec {
  std::filesystem::path directory = "baselines";  ///< absolute once parsed
  std::string name;                 ///< of the gate; by default the configuration's, without .json
  std::vector<std::string> any_of;  ///< keys of platforms whose baselines are taken as well
  /// Where the dumps are that baselines were made from, with `{root}`, `{gate}` and `{key}` in it;
  /// absolute once parsed. Empty = nowhere.
  std::string store;
};

enum class Happens {
  kAlways,     ///< an agreement is news
  kSometimes,  ///< a race may agree by luck
};

/// The furthest an expected divergence may go; one of the three is set, or none.
struct LimitSpec {
  std::optional<std::uint64_t> ulp;
  std::optional<double> atol;  ///< greatest absolute error
  std::optional<double> rtol;  ///< greatest relative error
};

/// A divergence, or a finding of an audit, that somebody answers for, for a while.
struct ExpectedSpec {
  std::optional<NamePattern> op;      ///< name with or without its overload
  std::optional<NamePattern> module;  ///< module path; the root's is empty
  std::optional<NamePattern> phase;   ///< forward, backward, optimizer
  std::string id;                     ///< of the divergence's cause, or the finding; empty = any
  std::string platform;               ///< a key, or its first digits; empty = any
  LimitSpec limit;
  Happens happens = Happens::kAlways;
  std::string reason;
  std::string issue;
  std::string owner;
  std::chrono::sys_days expires;  ///< the last day on which it excuses anything
};

/// The longest a divergence can be expected ahead.
inline constexpr std::chrono::days kLongestExpectation{180};

/// Whether a gate may be called so: its name is part of the names of files.
bool is_gate_name(std::string_view text);

struct GateSpec {
  BaselinesSpec baselines;
  std::vector<ExpectedSpec> expected;
  /// Operators that must be left to judge; required where anything is expected.
  std::optional<std::uint64_t> min_judged;
};

/// Which findings of an audit make a command fail.
enum class AuditFailure { kProof, kSuspicion, kNever };

struct AuditSpec {
  AuditFailure fail_on = AuditFailure::kNever;  ///< of commands that audit what they recorded
  std::vector<ExpectedSpec> expected;           ///< each has an id
};

}  // namespace repro_check::configs
