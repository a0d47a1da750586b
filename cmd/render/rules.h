// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "comparators/report/report.h"

namespace repro_check::cmd {

/// Why CI systems show something. Rows are never removed and ids never used again.
enum class RuleId {
  kOrigin,
  kInherited,
  kMismatch,
  kMissing,
  kControlFlow,
  kGenerator,
  kUninitialised,
  kNondeterministic,
  kGrowth,
  kUnrepeated,
  kObserver,
  kExpected,
  kUnexpectedPass,
  kExpired,
  kStaleBaseline,
  kDamaged,
  kNotComparable,
  kRunFailed,
};

struct Rule {
  RuleId rule;
  std::string_view id;          ///< `RC1001`
  std::string_view name;        ///< `DivergenceOrigin`
  std::string_view junit_type;  ///< behind `repro_check.`
  std::string_view title;
  std::string_view description;  ///< at most 1024 characters
  std::string_view help;         ///< how to check it and what to do
};

/// All of them, by RuleId.
std::span<const Rule> rules() noexcept;
const Rule& rule(RuleId id) noexcept;

/// What the operator was given besides the results of others, if that is what differs: `weights`,
/// `inputs`, `constant`, `argument`; else empty.
std::string_view differing_source(const comparators::OpDivergence& op) noexcept;

/// The rule that an operator which is not fine falls under.
RuleId rule_of(const comparators::OpDivergence& op) noexcept;

}  // namespace repro_check::cmd
