// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/traced_input.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/tensor/tensor_record.h"
#include "core/trace/dataflow.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

/// Where inputs that differ got their values.
class Tracer {
 public:
  /// @param reader  whose inputs are traced, in the baseline
  Tracer(const Evidence& evidence, const core::OpHead& reader)
      : evidence_(evidence), reader_(reader) {}

  [[nodiscard]] TracedInput trace(const TensorComparison& comparison) const {
    TracedInput traced;
    traced.comparison = &comparison;
    traced.changed = changed_since(comparison);
    const std::int64_t here = comparison.baseline.producer;
    const std::int64_t there = comparison.candidate.producer;
    if (is_another_tensor(comparison)) {
      traced.origin = CauseKind::kArgument;
      traced.producer = static_cast<std::uint64_t>(here);
      traced.is_of_one = is_one(here, there);
    } else if (here >= 0 && (there < 0 || is_one(here, there))) {
      set_producer(static_cast<std::uint64_t>(here), traced);
    } else if (there >= 0) {
      // Another operator wrote it than in the baseline, or one that the baseline lacks: that alone
      // makes it differ.
      traced.origin = CauseKind::kPropagated;
      if (here >= 0) {
        const bool is_alike = is_made_alike(static_cast<std::uint64_t>(here));
        traced.producer = is_alike ? baseline_of(there) : static_cast<std::uint64_t>(here);
      } else if (const auto producer = baseline_of(there)) {
        set_producer(*producer, traced);
      }
    } else {
      set_name(either(comparison).name, traced);
      const bool is_named = traced.origin != CauseKind::kConstant;
      if (is_named && !evidence_.cast_apart.empty() &&
          comparison.baseline.dtype != comparison.candidate.dtype) {
        traced.origin = CauseKind::kDtypePromotion;
      }
      if (traced.origin == CauseKind::kConstant) set_forward_call(traced);
      if (traced.origin == CauseKind::kConstant) set_first_reader(traced);
    }
    if (!traced.changed.empty()) traced.origin = CauseKind::kUnobservedWrite;
    if (is_raced(comparison)) traced.origin = CauseKind::kRace;
    if (is_given_alone(comparison) && traced.origin != CauseKind::kPropagated) {
      traced.origin = CauseKind::kArgument;
    }
    return traced;
  }

 private:
  /// Whether each run was given another tensor, though both made both alike.
  [[nodiscard]] bool is_another_tensor(const TensorComparison& comparison) const {
    const std::int64_t here = comparison.baseline.producer;
    const std::int64_t there = comparison.candidate.producer;
    const auto other_op = baseline_of(there);
    if (here < 0 || !other_op || !is_made_alike(static_cast<std::uint64_t>(here)) ||
        !is_made_alike(*other_op) ||
        evidence_.baseline_writes.differing_writer(comparison.baseline) >= 0 ||
        evidence_.candidate_writes.differing_writer(comparison.candidate) >= 0) {
      return false;
    }
    if (!is_one(here, there)) return true;
    const core::OpRecord made = evidence_.baseline.op(static_cast<std::uint64_t>(here));
    const core::OpRecord other = evidence_.candidate.op(static_cast<std::uint64_t>(there));
    const core::TensorRecord* from = core::written_output(made, comparison.baseline);
    const core::TensorRecord* to = core::written_output(other, comparison.candidate);
    return from != nullptr && to != nullptr &&
           (from->slot != to->slot ||
            comparison.baseline.storage_offset != comparison.candidate.storage_offset);
  }

  /// @param op  of the baseline
  [[nodiscard]] bool is_made_alike(std::uint64_t op) const {
    OpOutcome outcome = evidence_.outcomes.at(op);
    if (outcome == OpOutcome::kSkipped) {
      if (const auto step = step_that_tells_of(op)) outcome = evidence_.outcomes.at(*step);
    }
    if (outcome == OpOutcome::kUnseen) {  // in the baseline it comes later
      const auto there =
          counterpart_in(evidence_.pairing.candidate_of, static_cast<std::int64_t>(op));
      return there && bit_equal(evidence_.baseline.op(op), evidence_.candidate.op(*there));
    }
    return outcome == OpOutcome::kEqual || outcome == OpOutcome::kWithin;
  }

  /// Whether each side was written last by another call, of which one at least is of another lane,
  /// neither is missing in the other run, and both write this tensor: only their order differs.
  [[nodiscard]] bool is_raced(const TensorComparison& comparison) const {
    const std::int64_t here = comparison.baseline.producer;
    const std::int64_t there = comparison.candidate.producer;
    if ((here < 0 && there < 0) || is_one(here, there)) return false;
    // Nobody's writing is on both sides too.
    const bool of_both =
        (here < 0 || counterpart_in(evidence_.pairing.candidate_of, here).has_value()) &&
        (there < 0 || baseline_of(there).has_value());
    return of_both &&
           (is_elsewhere(evidence_.baseline, here) || is_elsewhere(evidence_.candidate, there)) &&
           !is_of_another_storage(comparison);
  }

  /// Whether what wrote the candidate's wrote something else in the baseline.
  [[nodiscard]] bool is_of_another_storage(const TensorComparison& comparison) const {
    const auto other = baseline_of(comparison.candidate.producer);
    return other && comparison.baseline.storage >= 0 &&
           std::ranges::none_of(
               evidence_.baseline.op(*other).tensors, [&](const core::TensorRecord& tensor) {
                 return core::is_output(tensor) && tensor.storage == comparison.baseline.storage;
               });
  }

  [[nodiscard]] bool is_elsewhere(const core::DumpSource& dump, std::int64_t writer) const {
    return writer >= 0 && dump.op_head(static_cast<std::uint64_t>(writer)).lane != reader_.lane;
  }

  /// In which runs the value is not what its producer returned; empty where nothing shows it.
  [[nodiscard]] std::string_view changed_since(const TensorComparison& comparison) const {
    const bool here = evidence_.baseline_writes.contradicts(comparison.baseline);
    const bool there = evidence_.candidate_writes.contradicts(comparison.candidate);
    if (here && there) return "both runs";
    if (here) return "the baseline";
    return there ? "the candidate" : "";
  }

  /// The baseline's counterpart of an operator of the candidate.
  [[nodiscard]] std::optional<std::uint64_t> baseline_of(std::int64_t there) const {
    return counterpart_in(evidence_.pairing.baseline_of, there);
  }

  /// Whether two op indices are one matched operator.
  [[nodiscard]] bool is_one(std::int64_t here, std::int64_t there) const {
    return here >= 0 && baseline_of(there) == static_cast<std::uint64_t>(here);
  }

  void set_producer(std::uint64_t producer, TracedInput& traced) const {
    traced.producer = producer;
    if (is_given_later(producer)) {
      traced.origin = CauseKind::kReceived;
      return;
    }
    switch (evidence_.outcomes.at(producer)) {
      case OpOutcome::kEqual:
        set_earlier_writer(producer, traced);
        return;
      case OpOutcome::kWithin:
        traced.origin = CauseKind::kAmplified;
        return;
      case OpOutcome::kSkipped:
        if (const auto step = step_that_tells_of(producer)) {
          set_producer(*step, traced);
          return;
        }
        // Memory that was handed out empty has been filled since, with no operator: by Python, or
        // by a model that makes a tensor of numbers.
        if (evidence_.baseline.manifest().is_of_program() ||
            (hands_out_memory(producer) && is_filled(*traced.comparison))) {
          traced.producer.reset();
          return;
        }
        if (hands_out_memory(producer)) {
          traced.origin = CauseKind::kUninitialised;
          return;
        }
        [[fallthrough]];
      default:
        traced.origin = CauseKind::kPropagated;
    }
  }

  [[nodiscard]] bool hands_out_memory(std::uint64_t op) const {
    return core::hands_out_memory(core::base_name(evidence_.baseline.op_head(op).op->name));
  }

  [[nodiscard]] static bool is_filled(const TensorComparison& comparison) {
    return comparison.baseline.state == core::ContentState::kHashed &&
           comparison.candidate.state == core::ContentState::kHashed;
  }

  /// Whether what other ranks gave was not there yet when its record ended.
  [[nodiscard]] bool is_given_later(std::uint64_t op) const {
    if (!core::is_of_ranks(*evidence_.baseline.op_head(op).op)) return false;
    return std::ranges::none_of(
        evidence_.baseline.op(op).tensors, [](const core::TensorRecord& tensor) {
          return core::is_output(tensor) && tensor.state != core::ContentState::kUninitialised;
        });
  }

  /// Of an operator of an optimizer that was not read, what tells of all of them when they are
  /// done.
  [[nodiscard]] std::optional<std::uint64_t> step_that_tells_of(std::uint64_t op) const {
    if (evidence_.baseline.manifest().trace.optimizer != core::kOptimizerState) return std::nullopt;
    if (evidence_.baseline.op_head(op).phase != core::Phase::kOptimizer) return std::nullopt;
    const auto next = std::ranges::upper_bound(evidence_.optimizer_steps, op);
    if (next == evidence_.optimizer_steps.end() || *next >= reader_.index) return std::nullopt;
    return *next;
  }

  /// The last writer wrote the same on both sides. Another part of the memory may have come to
  /// differ before.
  void set_earlier_writer(std::uint64_t producer, TracedInput& traced) const {
    traced.origin = CauseKind::kUnobservedWrite;
    const std::int64_t earlier =
        evidence_.baseline_writes.differing_writer(traced.comparison->baseline);
    if (earlier >= 0 && std::cmp_less(earlier, producer)) {
      set_producer(static_cast<std::uint64_t>(earlier), traced);
    }
  }

  /// What a forward operator makes inside and keeps for the backward pass, no record shows being
  /// written: it comes from that operator, which is the latest of the same step, module and line.
  void set_forward_call(TracedInput& traced) const {
    if (reader_.phase != core::Phase::kBackward || reader_.site == nullptr) return;
    for (std::uint64_t op = reader_.index; op-- > 0;) {
      const core::OpRecord call{evidence_.baseline.op_head(op)};
      // A thread beside the training is in an earlier step throughout.
      const bool beside = call.lane != reader_.lane && call.lane != core::kMainLane;
      if (call.step < reader_.step && !beside) return;
      if (call.phase == core::Phase::kBackward || !is_one_place(call.site.get())) continue;
      const bool differs = evidence_.outcomes.at(op) == OpOutcome::kDiverged;
      if (!differs && !reads_differing(op)) continue;
      // What it was given, and nothing came of, was not made in it.
      if (!differs && is_given(op, traced.comparison->baseline)) return;
      traced.producer = op;
      traced.origin = CauseKind::kPropagated;
      return;
    }
  }

  /// What the program itself made differs from where it is read first on: what comes later, through
  /// a view of it for one, is none of its own doing.
  void set_first_reader(TracedInput& traced) const {
    const TensorComparison& input = *traced.comparison;
    const auto found = evidence_.unmade.find(
        {input.baseline.storage, input.baseline.digest, input.candidate.digest});
    if (found == evidence_.unmade.end() || input.baseline.storage < 0) return;
    traced.producer = found->second;
    traced.origin = CauseKind::kPropagated;
  }

  [[nodiscard]] bool is_given(std::uint64_t op, const core::TensorRecord& value) const {
    const core::OpRecord call = evidence_.baseline.op(op);
    return std::ranges::any_of(call.tensors, [&](const core::TensorRecord& tensor) {
      return core::is_input(tensor) && tensor.storage == value.storage &&
             tensor.content_key() == value.content_key();
    });
  }

  /// What comes out may be equal all the same, and what is kept inside differ.
  [[nodiscard]] bool reads_differing(std::uint64_t op) const {
    const std::uint32_t there = evidence_.pairing.candidate_of[static_cast<std::size_t>(op)];
    if (there == kUnmatched) return false;
    const auto digests = [](const core::OpRecord& record) {
      std::vector<core::Digest> of_inputs;
      for (const core::TensorRecord& tensor : record.tensors) {
        if (tensor.role == core::TensorRole::kInput) of_inputs.push_back(tensor.digest);
      }
      return of_inputs;
    };
    return digests(evidence_.baseline.op(op)) != digests(evidence_.candidate.op(there));
  }

  [[nodiscard]] bool is_one_place(const core::CallSite* site) const {
    if (site == nullptr || site->module_path != reader_.site->module_path) return false;
    const core::SourceFrame* here = core::display_frame(*reader_.site);
    const core::SourceFrame* there = core::display_frame(*site);
    return here != nullptr && there != nullptr && here->file == there->file &&
           here->line == there->line;
  }

  static void set_name(std::string_view name, TracedInput& traced) {
    const core::TensorSource source = core::named_source(name);
    traced.name = source.name;
    traced.origin = source.kind == core::SourceKind::kInput   ? CauseKind::kInputData
                    : source.kind == core::SourceKind::kState ? CauseKind::kWeights
                                                              : CauseKind::kConstant;
  }

  const Evidence& evidence_;
  const core::OpHead& reader_;
};

}  // namespace

TracedInput trace_input(const TensorComparison& comparison,
                        const core::OpHead& reader,
                        const Evidence& evidence) {
  return Tracer(evidence, reader).trace(comparison);
}

}  // namespace repro_check::comparators
