// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/error_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "comparators/report/op_text.h"
#include "core/tensor/dtype.h"

namespace repro_check::comparators::detail {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
/// Below and above, an operator is said to hand the error on as it is.
constexpr double kDamps = 0.5;
constexpr double kAmplifies = 2;

/// Integers and bools have no error that grows: an index is another one.
double greatest_error(const std::vector<TensorComparison>& tensors) {
  double greatest = std::numeric_limits<double>::quiet_NaN();
  for (const TensorComparison& tensor : tensors) {
    const core::Dtype dtype = tensor.baseline.dtype;
    if (!core::is_floating(dtype) && !core::is_complex(dtype)) continue;
    if (!tensor.metrics || !tensor.metrics->l2_rel) continue;
    greatest = std::fmax(greatest, *tensor.metrics->l2_rel);
  }
  return greatest;
}

/// NaN unless both are known and can be divided.
double ratio(double in, double out) {
  return in > 0 && std::isfinite(in) && std::isfinite(out)
             ? out / in
             : std::numeric_limits<double>::quiet_NaN();
}

Metric known(double value) { return std::isnan(value) ? Metric() : Metric(value); }

}  // namespace

void ErrorFlow::see(std::uint64_t op,
                    const OpFindings& findings,
                    const std::vector<std::uint32_t>& sources) {
  if (!findings.bits_differ) {
    if (!findings.inputs.empty() && findings.outcome == OpOutcome::kEqual) ++counted_.absorbed;
    return;
  }
  if (out_.empty()) {
    in_.assign(ops_, kUnknown);
    out_.assign(ops_, kUnknown);
    parent_.assign(ops_, kNoOp);
  }
  if (op >= ops_) return;
  double in = greatest_error(findings.inputs);
  double best = -1;
  for (const std::uint32_t source : sources) {
    const double error = error_of(source);
    in = std::fmax(in, error);
    if (std::isnan(error) ? best < 0 : error > best) {
      best = std::isnan(error) ? best : error;
      parent_[op] = source;
    }
  }
  const double out = greatest_error(findings.outputs);
  in_[op] = static_cast<float>(in);
  out_[op] = static_cast<float>(out);
  if (!first_ && !std::isnan(out)) first_ = op;
  if (!std::isnan(out)) last_ = op;
  count(in, out, op);
}

void ErrorFlow::count(double in, double out, std::uint64_t op) {
  const double factor = ratio(in, out);
  if (std::isnan(factor)) return;
  if (factor > kAmplifies) {
    ++counted_.amplified;
  } else if (factor < kDamps) {
    ++counted_.damped;
  } else {
    ++counted_.carried;
  }
  if (factor > kSteep) ++counted_.steep;
  if (factor > steepest_factor_) {
    steepest_factor_ = factor;
    steepest_ = op;
  }
}

double ErrorFlow::error_of(std::uint64_t op) const {
  return op < out_.size() ? static_cast<double>(out_[op])
                          : std::numeric_limits<double>::quiet_NaN();
}

std::uint32_t ErrorFlow::parent_of(std::uint64_t op) const {
  return op < parent_.size() ? parent_[op] : kNoOp;
}

std::uint64_t ErrorFlow::root_of(std::uint64_t op) const {
  std::uint64_t root = op;
  std::size_t steps = 0;
  for (std::uint32_t at = parent_of(op); at != kNoOp && steps < ops_; at = parent_of(at)) {
    root = at;
    ++steps;
  }
  return root;
}

GrowthStep ErrorFlow::step(std::uint64_t op, const core::DumpSource& baseline) const {
  GrowthStep step;
  step.op = op;
  const core::OpRecord head = baseline.op_head(op);
  step.operator_name = head.op ? head.op->full_name() : "";
  step.module_path = module_of(head);
  if (op >= out_.size()) return step;
  const auto in = static_cast<double>(in_[op]);
  const auto out = static_cast<double>(out_[op]);
  step.in = known(in);
  step.out = known(out);
  step.factor = known(ratio(in, out));
  return step;
}

std::vector<GrowthStep> ErrorFlow::path_to(std::uint64_t op,
                                           std::size_t limit,
                                           const core::DumpSource& baseline,
                                           std::uint64_t& steps) const {
  core::LargeVector<std::uint64_t> ops{op};
  // A call that encloses another has the higher place in time and the lower index, so indices do
  // not bound the walk.
  for (std::uint32_t at = parent_of(op); at != kNoOp && ops.size() < ops_; at = parent_of(at)) {
    ops.push_back(at);
  }
  std::ranges::reverse(ops);
  steps = ops.size();
  if (ops.size() > limit) {
    const auto change = [&](std::uint64_t at) {
      const double factor = ratio(static_cast<double>(in_[at]), static_cast<double>(out_[at]));
      return factor > 0 ? std::abs(std::log(factor)) : -1.0;
    };
    core::LargeVector<std::uint64_t> order(ops.begin() + 1, ops.end() - 1);
    std::ranges::stable_sort(order, std::greater{}, change);
    order.resize(limit - 2);
    std::ranges::sort(order);
    const auto dropped = [&](std::uint64_t at) {
      return at != ops.front() && at != op && !std::ranges::binary_search(order, at);
    };
    std::erase_if(ops, dropped);
  }
  std::vector<GrowthStep> path;
  path.reserve(ops.size());
  for (const std::uint64_t at : ops) path.push_back(step(at, baseline));
  return path;
}

Growth ErrorFlow::summary(const core::LargeVector<std::uint64_t>& finals,
                          const core::DumpSource& baseline) const {
  Growth growth = counted_;
  if (steepest_) growth.steepest = step(*steepest_, baseline);
  if (!first_) return growth;
  growth.first = step(*first_, baseline);
  std::uint64_t last = *last_;
  double greatest = -1;
  for (const std::uint64_t op : finals) {
    if (!(error_of(op) > greatest)) continue;
    greatest = error_of(op);
    last = op;
  }
  growth.last = step(last, baseline);
  growth.ratio = known(ratio(error_of(*first_), error_of(last)));
  return growth;
}

namespace {

std::string step_text(const GrowthStep& step) {
  std::string text = fmt::format("op {} {}", step.op, step.operator_name);
  if (!step.module_path.empty()) text += fmt::format(" ({})", step.module_path);
  return text;
}

}  // namespace

std::string growth_text(const Growth& growth) {
  if (!growth.ratio || !growth.first || !growth.last) return {};
  return fmt::format("relative L2 error {:.3g} at {} grew to {:.3g} at {}, {:.4g} times",
                     growth.first->out.value_or(0),
                     step_text(*growth.first),
                     growth.last->out.value_or(0),
                     step_text(*growth.last),
                     *growth.ratio);
}

void judge_growth(const std::optional<double>& max_growth, Report& report) {
  Growth& growth = report.growth;
  const double ratio = growth.ratio.value_or(0);
  if (max_growth && ratio > *max_growth) {
    growth.exceeded = true;
    report.reasons.push_back(
        fmt::format("{}, and max_growth is {:.4g}", growth_text(growth), *max_growth));
  }
  // Operators that fail say more than how they came to.
  if (report.coverage.diverged + report.coverage.mismatched != 0) return;
  if (ratio > kGrowing) {
    report.warnings.push_back("every operator is within its policy, but the error grows: " +
                              growth_text(growth));
  }
  if (growth.steep == 0 || !growth.steepest) return;
  report.warnings.push_back(
      fmt::format("{} operator{} the relative L2 error more than {:g} times as great; most {}, "
                  "{:.4g} times",
                  growth.steep,
                  growth.steep == 1 ? " makes" : "s make",
                  kSteep,
                  step_text(*growth.steepest),
                  growth.steepest->factor.value_or(0)));
}

}  // namespace repro_check::comparators::detail
