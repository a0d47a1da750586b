// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comparators/audit/audit.h"
#include "comparators/report/finding.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// What is changed under recorded calls that are executed again.
struct SweepSetting {
  FindingId found{};  ///< where a result depends on it
  std::string text;   ///< `threads=1`, `MKL_CBWR=COMPATIBLE`
};

/// A call that gave another result under a setting.
struct SweepDifference {
  std::uint64_t op = 0;
  std::size_t setting = 0;  ///< which of SweptDump::settings
  std::string slot;         ///< of the output that differs most; empty = none is measured
  std::uint64_t elements = 0;
  std::uint64_t differing = 0;
  std::optional<double> max_abs;
  double largest = 0;               ///< magnitude among the recorded finite numbers of that output
  std::optional<double> condition;  ///< of an argument whose last bits were turned
  std::string argument;             ///< that was
};

/// A dump whose calls were executed again, each by itself.
struct SweptDump {
  const core::DumpSource* dump = nullptr;
  std::optional<std::uint32_t> rank;
  std::vector<SweepSetting> settings;
  std::vector<std::size_t> had;  ///< settings that could be had, and differ from the recorded
  SweepCoverage coverage;        ///< but for its settings
  std::vector<SweepDifference> differences;
};

/// The rules of sweeps: none of them is among audit_rules().
std::span<const AuditRule> sweep_rules() noexcept;

/// The one of them that is asked for by itself.
const AuditRule* batch_rule() noexcept;

/// @param plan  its rules are those of the settings
/// @return a finding for each operator of one line and each kind of setting
AuditReport audit_sweep(std::span<const SweptDump> swept, AuditPlan plan);

}  // namespace repro_check::comparators
