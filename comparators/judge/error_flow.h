// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comparators/judge/op_judge.h"
#include "comparators/report/report.h"
#include "core/system/large_memory.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators::detail {

inline constexpr std::uint32_t kNoOp = 0xFFFF'FFFF;

/// How the relative L2 error of outputs goes from operator to operator. 12 bytes an operator, from
/// the first one that differs on.
class ErrorFlow {
 public:
  explicit ErrorFlow(std::size_t baseline_ops) : ops_(baseline_ops) {}

  /// To be told every operator whose outputs differ, or whose inputs do.
  /// @param sources  baseline ops that made its differing inputs
  void see(std::uint64_t op, const OpFindings& findings, const std::vector<std::uint32_t>& sources);

  /// Greatest relative L2 error of its floating outputs; NaN where it is not known.
  [[nodiscard]] double error_of(std::uint64_t op) const;
  /// Of its sources the one with the greatest error, or kNoOp.
  [[nodiscard]] std::uint32_t parent_of(std::uint64_t op) const;

  /// Where the path to `op` begins.
  [[nodiscard]] std::uint64_t root_of(std::uint64_t op) const;

  /// From where the error began to `op`, in order; beyond `limit` steps those that change it most.
  [[nodiscard]] std::vector<GrowthStep> path_to(std::uint64_t op,
                                                std::size_t limit,
                                                const core::DumpSource& baseline,
                                                std::uint64_t& steps) const;

  /// Counts, the first error, the steepest step; the last error is the greatest of `finals`, or of
  /// the last operator that differs.
  [[nodiscard]] Growth summary(const core::LargeVector<std::uint64_t>& finals,
                               const core::DumpSource& baseline) const;

 private:
  void count(double in, double out, std::uint64_t op);
  [[nodiscard]] GrowthStep step(std::uint64_t op, const core::DumpSource& baseline) const;

  std::size_t ops_;
  core::LargeVector<float> in_;
  core::LargeVector<float> out_;
  core::LargeVector<std::uint32_t> parent_;
  Growth counted_;
  double steepest_factor_ = 0;
  std::optional<std::uint64_t> steepest_;
  std::optional<std::uint64_t> first_;
  std::optional<std::uint64_t> last_;
};

/// An operator that makes the error more than so many times as great is worth a warning; the factor
/// of msprobe's own row warning.
inline constexpr double kSteep = 10;
/// And a trace at whose end it is more than so many times as great as where it began.
inline constexpr double kGrowing = 100;

/// `relative L2 error 1e-07 at op 3 aten::mul (m) grew to 0.0005 at op 40 aten::mm (m), 5000
/// times`; empty where it is not known how far it grew.
std::string growth_text(const Growth& growth);

/// Warns of errors that grow although every operator is within its policy, and marks those that
/// grow beyond `max_growth`.
void judge_growth(const std::optional<double>& max_growth, Report& report);

}  // namespace repro_check::comparators::detail
