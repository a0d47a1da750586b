// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "comparators/align/pairing.h"
#include "comparators/cause/cause.h"
#include "comparators/cause/hunks.h"
#include "comparators/judge/op_judge.h"
#include "comparators/report/report.h"
#include "core/system/memory.h"
#include "core/tensor/dtype.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// How the relative L2 error of outputs goes from operator to operator. 12 bytes an operator, from
/// the first one that differs on.
class ErrorFlow {
 public:
  explicit ErrorFlow(std::size_t baseline_ops)
      : in_(baseline_ops, kUnknown),
        out_(baseline_ops, kUnknown),
        parent_(baseline_ops, kUnmatched) {}

  /// To be told every operator whose outputs differ, or whose inputs do.
  /// @param sources  baseline ops that made its differing inputs
  void see(std::uint64_t op,
           const OpFindings& findings,
           const std::vector<std::uint32_t>& sources) {
    if (!findings.bits_differ) {
      if (!findings.inputs.empty() && findings.outcome == OpOutcome::kEqual) ++counted_.absorbed;
      return;
    }
    double in = greatest_error(findings.inputs);
    double best = -1;
    for (const std::uint32_t source : sources) {
      const double error = error_of(source);
      in = std::fmax(in, error);
      if (std::isnan(error) ? best < 0 : error > best) {
        best = std::isnan(error) ? best : error;
        parent_.set(op, source);
      }
    }
    const double out = greatest_error(findings.outputs);
    in_.set(op, static_cast<float>(in));
    out_.set(op, static_cast<float>(out));
    if (!first_ && !std::isnan(out)) first_ = op;
    if (!std::isnan(out)) last_ = op;
    count(in, out, op);
  }

  /// Greatest relative L2 error of its floating outputs; NaN where it is not known.
  [[nodiscard]] double error_of(std::uint64_t op) const { return static_cast<double>(out_.at(op)); }

  /// Where the path to `op` begins.
  [[nodiscard]] std::uint64_t root_of(std::uint64_t op) const { return back_from(op).back(); }

  /// From where the error began to `op`, in order; beyond `limit` steps those that change it most.
  [[nodiscard]] std::vector<GrowthStep> path_to(std::uint64_t op,
                                                std::size_t limit,
                                                const core::DumpSource& baseline,
                                                std::uint64_t& steps) const {
    core::LargeVector<std::uint64_t> ops = back_from(op);
    std::ranges::reverse(ops);
    steps = ops.size();
    if (ops.size() > limit) {
      const auto change = [&](std::uint64_t at) {
        const double factor = ratio(static_cast<double>(in_.at(at)), error_of(at));
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

  /// Counts, the first error, the steepest step; the last error is the greatest of `finals`, or of
  /// the last operator that differs.
  [[nodiscard]] Growth summary(const core::LargeVector<std::uint64_t>& finals,
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

 private:
  static constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
  /// Below and above, an operator is said to hand the error on as it is.
  static constexpr double kDamps = 0.5;
  static constexpr double kAmplifies = 2;

  /// Integers and bools have no error that grows: an index is another one.
  static double greatest_error(const std::vector<TensorComparison>& tensors) {
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
  static double ratio(double in, double out) {
    return in > 0 && std::isfinite(in) && std::isfinite(out)
               ? out / in
               : std::numeric_limits<double>::quiet_NaN();
  }

  static Metric known(double value) { return std::isnan(value) ? Metric() : Metric(value); }

  /// It, and what its error came from, to where that began.
  [[nodiscard]] core::LargeVector<std::uint64_t> back_from(std::uint64_t op) const {
    core::LargeVector<std::uint64_t> ops{op};
    // A call that encloses another has the higher place in time and the lower index, so indices do
    // not bound the walk.
    for (std::uint32_t at = parent_.at(op); at != kUnmatched && ops.size() < parent_.size();
         at = parent_.at(at)) {
      ops.push_back(at);
    }
    return ops;
  }

  void count(double in, double out, std::uint64_t op) {
    const double factor = ratio(in, out);
    if (std::isnan(factor)) return;
    if (factor > kAmplifies) {
      ++counted_.amplified;
    } else if (factor < kDamps) {
      ++counted_.damped;
    } else {
      ++counted_.carried;
    }
    if (factor > kSteepGrowth) ++counted_.steep;
    if (factor > steepest_factor_) {
      steepest_factor_ = factor;
      steepest_ = op;
    }
  }

  [[nodiscard]] GrowthStep step(std::uint64_t op, const core::DumpSource& baseline) const {
    GrowthStep step;
    step.op = op;
    const core::OpRecord head = baseline.op_head(op);
    step.operator_name = head.op ? head.op->full_name() : "";
    step.module_path = module_of(head);
    const auto in = static_cast<double>(in_.at(op));
    step.in = known(in);
    step.out = known(error_of(op));
    step.factor = known(ratio(in, error_of(op)));
    return step;
  }

  OpTable<float> in_;
  OpTable<float> out_;  ///< greatest error of its floating outputs
  OpTable<std::uint32_t>
      parent_;  ///< of its sources the one with the greatest error, or kUnmatched
  Growth counted_;
  double steepest_factor_ = 0;
  std::optional<std::uint64_t> steepest_;
  std::optional<std::uint64_t> first_;
  std::optional<std::uint64_t> last_;
};

/// Finds the operators whose values no later operator of the trace reads: what the model returned,
/// and state that it wrote. Views are followed through their storage. A bit an operator and 16
/// bytes a storage.
class FinalValues {
 public:
  explicit FinalValues(std::size_t ops) : read_(ops, false) {}

  /// To be told every record of one run, in the order in which calls ended.
  void see(const core::OpRecord& record) {
    for (const core::TensorRecord& tensor : record.tensors) {
      if (!core::is_input(tensor) || tensor.storage < 0) continue;
      if (const std::uint64_t* op = holder_.find(tensor.storage)) read_.set(*op, true);
    }
    for (const core::TensorRecord& tensor : record.tensors) {
      if (!core::is_output(tensor) || tensor.storage < 0) continue;
      holder_[tensor.storage] = record.index;
    }
  }

  /// Op indices, ascending.
  [[nodiscard]] core::LargeVector<std::uint64_t> ops() const {
    core::LargeVector<std::uint64_t> ops = holder_.values();
    std::erase_if(ops, [&](std::uint64_t op) { return read_.at(op); });
    std::ranges::sort(ops);
    ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
    return ops;
  }

 private:
  StorageMap<std::uint64_t> holder_;  ///< who returned it last
  OpTable<bool> read_;
};

/// Follows every difference from where it began, through the operators that read it, to the values
/// that nobody reads any more. Linear in the tensors of the trace; 8 bytes an operator from the
/// first difference on, beside what ErrorFlow and FinalValues keep. The first 63 origins are told
/// apart, later ones are counted.
class Taint {
 public:
  /// @param evidence  borrowed
  explicit Taint(const Evidence& evidence) : evidence_(evidence) {}

  /// To be told every matched pair, in the order in which calls ended.
  void see(const JudgedCall& call) {
    const core::OpRecord& from = call.baseline;
    const OpFindings& findings = call.findings;
    finals_.see(from);
    const bool differs = findings.bits_differ || findings.outcome == OpOutcome::kNotJudged;
    if (!differs) {
      flow_.see(from.index, findings, {});
      // What an inner call changed did not come out.
      if (masks_.at(from.index) != 0) masks_.set(from.index, 0);
      return;
    }
    // An inner call that differs has left its mask here.
    Mask mask = masks_.at(from.index);
    const bool inner = mask != 0;
    const std::vector<std::uint32_t> sources = sources_of(call, mask);
    flow_.see(from.index, findings, sources);
    if (mask != 0) {
      for_each_bit(inner ? 0 : mask, [&](std::size_t bit) {
        if (bit < origins_.size()) ++*origins_[bit].tainted;
      });
    } else if (findings.bits_differ && (!call.why || call.why->relation != Relation::kPropagated)) {
      Origin origin;
      origin.baseline_index = from.index;
      origin.candidate_index = call.candidate.index;
      origin.record = head_of(from);
      origin.beyond_policy = findings.fails();
      if (call.why) {
        origin.relation = call.why->relation;
        origin.cause = call.why->cause.kind;
      }
      const double error = flow_.error_of(from.index);
      if (!std::isnan(error)) origin.l2_rel = error;
      mask = begin(std::move(origin));
    }
    if (mask == 0) return;
    masks_.set(from.index, mask);
    if (from.parent < 0) return;
    // The call that encloses it ends later.
    const auto parent = static_cast<std::uint64_t>(from.parent);
    masks_.set(parent, masks_.at(parent) | mask);
  }

  /// Records without a counterpart: a difference began here unless one began before.
  void see_hunk(const Hunk& hunk) {
    Origin origin;
    origin.relation = Relation::kMissing;
    origin.beyond_policy = true;
    if (!hunk.missing.empty()) {
      origin.baseline_index = hunk.missing.front();
      origin.record = head_of(evidence_.baseline.op_head(hunk.missing.front()));
      origin.cause = CauseKind::kMissing;
    }
    if (!hunk.extra.empty()) {
      origin.candidate_index = hunk.extra.front();
      if (hunk.missing.empty()) {
        origin.record = head_of(evidence_.candidate.op_head(hunk.extra.front()));
        origin.cause = CauseKind::kExtra;
      }
    }
    const Mask mask = begin(std::move(origin));
    for (const std::uint32_t op : hunk.missing) masks_.set(op, mask);
    for (const std::uint32_t op : hunk.extra) candidate_masks_.set(op, mask);
  }

  /// Fills origins, origins_total and growth.
  void finish(Report& report) const {
    core::LargeVector<std::uint64_t> finals = finals_.ops();
    report.final_values = finals.size();
    std::erase_if(finals, [&](std::uint64_t op) { return masks_.at(op) == 0; });
    report.origins = origins_;
    report.origins_total = total_;
    fill_finals(finals, report.origins);
    fill_paths(finals, report.origins);
    report.growth = flow_.summary(finals, evidence_.baseline);
  }

 private:
  using Mask = std::uint64_t;

  /// Origins with a bit of their own; the last bit is shared by all later ones.
  static constexpr std::size_t kTracked = 63;
  static constexpr std::size_t kShownFinals = 16;
  static constexpr std::size_t kShownSteps = 64;
  /// Each costs a walk back to where its error began.
  static constexpr std::size_t kWalkedFinals = 256;

  template <typename Visit>
  static void for_each_bit(Mask mask, Visit visit) {
    for (; mask != 0; mask &= mask - 1) visit(static_cast<std::size_t>(std::countr_zero(mask)));
  }

  /// The operators that made its differing inputs, and what taints those.
  [[nodiscard]] std::vector<std::uint32_t> sources_of(const JudgedCall& call, Mask& mask) const {
    std::vector<std::uint32_t> sources;
    const auto take = [&](std::uint64_t op) {
      if (masks_.at(op) == 0) return;
      mask |= masks_.at(op);
      sources.push_back(static_cast<std::uint32_t>(op));
    };
    for (const TensorComparison& input : call.findings.inputs) {
      if (input.baseline.producer >= 0) take(static_cast<std::uint64_t>(input.baseline.producer));
      if (input.candidate.producer < 0) continue;
      const auto there = static_cast<std::uint64_t>(input.candidate.producer);
      mask |= candidate_masks_.at(there);
      const auto matched = counterpart_in(evidence_.pairing.baseline_of, input.candidate.producer);
      if (matched && !std::cmp_equal(*matched, input.baseline.producer)) take(*matched);
    }
    if (call.why) std::ranges::for_each(call.why->producers, take);
    return sources;
  }

  Mask begin(Origin origin) {
    const std::size_t bit = std::min<std::size_t>(total_++, kTracked);
    if (bit < kTracked) {
      origin.tainted = 0;
      origins_.push_back(std::move(origin));
    }
    return Mask{1} << bit;
  }

  void fill_finals(const core::LargeVector<std::uint64_t>& finals,
                   std::vector<Origin>& origins) const {
    for (const std::uint64_t op : finals) {
      for_each_bit(masks_.at(op), [&](std::size_t bit) {
        if (bit >= origins.size()) return;
        Origin& origin = origins[bit];
        ++origin.outputs_total;
        if (origin.outputs.size() < kShownFinals) origin.outputs.push_back(op);
      });
    }
  }

  /// The path to the worst of the values that each origin reaches.
  void fill_paths(const core::LargeVector<std::uint64_t>& finals,
                  std::vector<Origin>& origins) const {
    std::vector<double> worst(origins.size(), -1);
    std::vector<std::uint64_t> ends(origins.size(), kUnmatched);
    const std::size_t walked = std::min(finals.size(), kWalkedFinals);
    for (std::size_t place = 0; place < walked; ++place) {
      const std::uint64_t op = finals[place];
      const double error = flow_.error_of(op);
      const std::uint64_t root = flow_.root_of(op);
      for_each_bit(masks_.at(op), [&](std::size_t bit) {
        if (bit >= origins.size() || origins[bit].baseline_index != root) return;
        if (!(error > worst[bit])) return;
        worst[bit] = error;
        ends[bit] = op;
      });
    }
    for (std::size_t i = 0; i < origins.size(); ++i) {
      if (ends[i] == kUnmatched) continue;
      origins[i].path =
          flow_.path_to(ends[i], kShownSteps, evidence_.baseline, origins[i].path_steps);
    }
  }

  const Evidence& evidence_;
  ErrorFlow flow_{evidence_.ops};
  FinalValues finals_{evidence_.ops};
  OpTable<Mask> masks_{evidence_.ops, 0};  ///< by baseline op
  /// By candidate op, where the baseline has none.
  OpTable<Mask> candidate_masks_{evidence_.pairing.baseline_of.size(), 0};
  std::vector<Origin> origins_;
  std::uint64_t total_ = 0;
};

}  // namespace repro_check::comparators
