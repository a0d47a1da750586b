// SPDX-License-Identifier: Apache-2.0
// not-what-the-step-left: training goes on from weights that were copied over the optimizer's.
#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "comparators/audit/rules.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

/// What the optimizer's last step left of a parameter, and all that its steps ever left.
struct LeftByStep {
  core::Digest now;
  std::set<core::Digest> ever;
  bool was_told = false;
};

class StepLeftReader {
 public:
  explicit StepLeftReader(const AuditTrace& trace) : trace_(trace) {}

  std::vector<Finding> find() {
    const auto& steps = trace_.steps();
    const auto& losses = trace_.losses();
    if (steps.empty() || losses.empty()) return {};
    std::size_t step = 0;
    // Whatever is loaded before the first loss is where the training begins.
    for (std::uint32_t call = losses.front(); call < trace_.size(); ++call) {
      if (step < steps.size() && steps[step].call < call) ++step;
      if (step < steps.size() && steps[step].call == call) take(call);
      if (trace_[call].phase == core::Phase::kForward && !trace_[call].is_named) look_at(call);
    }
    return std::move(findings_);
  }

 private:
  void take(std::uint32_t call) {
    for (const AuditTensor& tensor : trace_.outputs(call)) {
      if (!trace_.text(tensor.slot).starts_with(core::kParameterPrefix)) continue;
      if (!tensor.is_known() || tensor.storage < 0) continue;
      LeftByStep& left = left_[tensor.storage];
      left.now = tensor.digest;
      left.ever.insert(tensor.digest);
    }
  }

  void look_at(std::uint32_t call) {
    for (const AuditTensor& input : trace_.inputs(call)) {
      if (input.slot != weight_ && input.slot != bias_) continue;
      const auto found = left_.find(input.storage);
      if (found == left_.end() || !input.is_known() || found->second.was_told) continue;
      // Put back as it was, it is what the optimizer left once.
      if (found->second.ever.contains(input.digest) || !was_copied(input)) continue;
      if (!is_trained_on(call, input.storage)) continue;
      found->second.was_told = true;
      Finding& finding = findings_.emplace_back(
          trace_.at(FindingId::kNotWhatTheStepLeft, Finding::Weight::kSuspicion, call));
      finding.with("slot", trace_.text(input.slot))
          .with("writer", trace_.said(static_cast<std::uint32_t>(input.producer)));
    }
  }

  /// Arithmetic in place is what clipping of weights and SAM do; a copy by an optimizer is its
  /// step.
  [[nodiscard]] bool was_copied(const AuditTensor& input) const {
    if (input.producer < 0) return false;
    const auto writer = static_cast<std::uint32_t>(input.producer);
    const AuditTensor* source = trace_.input(writer, source_);
    const bool is_copy = trace_.is(writer, copy_) && source != nullptr;
    if (!is_copy || trace_[writer].phase == core::Phase::kOptimizer) return false;
    if (source->producer < 0) return true;
    const TextId maker = trace_[static_cast<std::uint32_t>(source->producer)].base;
    return !core::is_of_ranks({std::string(trace_.text(maker)), {}, false});
  }

  /// Whether a loss comes before anything is written there again: an evaluation takes an average
  /// out of the model as it put it in.
  [[nodiscard]] bool is_trained_on(std::uint32_t call, std::int32_t storage) const {
    const auto& losses = trace_.losses();
    const auto loss = std::ranges::upper_bound(losses, call);
    if (loss == losses.end()) return false;
    for (std::uint32_t later = call + 1; later < *loss; ++later) {
      for (const AuditTensor& output : trace_.outputs(later)) {
        if (output.storage == storage && trace_.wrote(later, output)) return false;
      }
    }
    return true;
  }

  const AuditTrace& trace_;
  const TextId copy_ = trace_.id_of("aten::copy_");
  const TextId source_ = trace_.id_of("src");
  const TextId weight_ = trace_.id_of("weight");
  const TextId bias_ = trace_.id_of("bias");
  std::unordered_map<std::int32_t, LeftByStep> left_;  ///< by storage
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> find_not_what_the_step_left(const AuditTrace& trace) {
  return StepLeftReader(trace).find();
}

}  // namespace repro_check::comparators
