// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/input_origin.h"

#include <utility>

#include "core/trace/dataflow.h"

namespace repro_check::comparators::detail {
namespace {

class Tracer {
 public:
  /// @param lane  of the operator whose inputs are traced
  Tracer(const Evidence& evidence, std::uint32_t lane) : evidence_(evidence), lane_(lane) {}

  [[nodiscard]] TracedInput trace(const TensorComparison& comparison) const {
    TracedInput traced;
    traced.comparison = &comparison;
    traced.changed = changed_since(comparison);
    const std::int64_t here = comparison.baseline.producer;
    const std::int64_t there = comparison.candidate.producer;
    if (here >= 0 && there >= 0 && !same_producer(here, there)) {
      set_other_writer(static_cast<std::uint64_t>(there), traced);
    } else if (here >= 0) {
      set_producer(static_cast<std::uint64_t>(here), traced);
    } else if (there >= 0) {
      set_candidate_producer(static_cast<std::uint64_t>(there), traced);
    } else {
      set_name(either(comparison).name, traced);
    }
    if (!traced.changed.empty()) traced.origin = Origin::kUnobserved;
    if (is_raced(here, there)) traced.origin = Origin::kRaced;
    return traced;
  }

 private:
  /// Whether each side was written last by another call, of which one at least is of another lane,
  /// and neither is missing in the other run: only their order differs.
  [[nodiscard]] bool is_raced(std::int64_t here, std::int64_t there) const {
    if ((here < 0 && there < 0) || (there >= 0 && same_producer(here, there))) return false;
    return is_of_both(*evidence_.baseline_dump, here, evidence_.pairing->candidate_of) &&
           is_of_both(*evidence_.candidate_dump, there, evidence_.pairing->baseline_of) &&
           (is_elsewhere(*evidence_.baseline_dump, here) ||
            is_elsewhere(*evidence_.candidate_dump, there));
  }

  /// Nobody's writing is on both sides too.
  static bool is_of_both(const core::DumpSource& dump,
                         std::int64_t writer,
                         const core::LargeVector<std::uint32_t>& counterparts) {
    if (writer < 0) return true;
    const auto place = static_cast<std::size_t>(writer);
    return place < dump.op_count() && place < counterparts.size() &&
           counterparts[place] != kUnmatched;
  }

  [[nodiscard]] bool is_elsewhere(const core::DumpSource& dump, std::int64_t writer) const {
    return writer >= 0 && dump.op_head(static_cast<std::uint64_t>(writer)).lane != lane_;
  }

  /// On which side the value is not what its producer returned; empty where nothing shows it.
  [[nodiscard]] std::string_view changed_since(const TensorComparison& comparison) const {
    const bool here = evidence_.baseline_writes->contradicts(comparison.baseline);
    const bool there = evidence_.candidate_writes->contradicts(comparison.candidate);
    if (here && there) return "in both runs";
    if (here) return "in the baseline";
    return there ? "in the candidate" : "";
  }

  /// Whether two op indices are one matched operator.
  [[nodiscard]] bool same_producer(std::int64_t here, std::int64_t there) const {
    const auto& baseline_of = evidence_.pairing->baseline_of;
    const auto place = static_cast<std::size_t>(there);
    return place < baseline_of.size() && std::cmp_equal(baseline_of[place], here);
  }

  /// Each side was written by another operator: that alone makes it differ.
  void set_other_writer(std::uint64_t there, TracedInput& traced) const {
    const auto& baseline_of = evidence_.pairing->baseline_of;
    traced.origin = Origin::kDivergent;
    if (there < baseline_of.size() && baseline_of[there] != kUnmatched) {
      traced.producer = baseline_of[there];
    }
  }

  void set_producer(std::uint64_t producer, TracedInput& traced) const {
    traced.producer = producer;
    const OpOutcome outcome =
        producer < evidence_.outcomes.size() ? evidence_.outcomes[producer] : OpOutcome::kUnseen;
    switch (outcome) {
      case OpOutcome::kEqual:
        set_earlier_writer(producer, traced);
        return;
      case OpOutcome::kWithin:
        traced.origin = Origin::kWithin;
        return;
      default:
        traced.origin = Origin::kDivergent;
    }
  }

  /// The last writer wrote the same on both sides. Another part of the memory may have come to
  /// differ before.
  void set_earlier_writer(std::uint64_t producer, TracedInput& traced) const {
    traced.origin = Origin::kUnobserved;
    const std::int64_t earlier =
        evidence_.baseline_writes->differing_writer(traced.comparison->baseline);
    if (earlier >= 0 && std::cmp_less(earlier, producer)) {
      set_producer(static_cast<std::uint64_t>(earlier), traced);
    }
  }

  /// Written in the candidate only: by an operator that the baseline lacks, or by one that did not
  /// write there.
  void set_candidate_producer(std::uint64_t producer, TracedInput& traced) const {
    const auto& baseline_of = evidence_.pairing->baseline_of;
    traced.origin = Origin::kDivergent;
    if (producer < baseline_of.size() && baseline_of[producer] != kUnmatched) {
      set_producer(baseline_of[producer], traced);
    }
  }

  static void set_name(std::string_view name, TracedInput& traced) {
    const core::TensorSource source = core::named_source(name);
    traced.name = source.name;
    traced.origin = source.kind == core::SourceKind::kInput   ? Origin::kInput
                    : source.kind == core::SourceKind::kState ? Origin::kState
                                                              : Origin::kConstant;
  }

  const Evidence& evidence_;
  std::uint32_t lane_;
};

}  // namespace

const core::TensorRecord& either(const TensorComparison& comparison) {
  return comparison.baseline.slot.empty() ? comparison.candidate : comparison.baseline;
}

TracedInput trace_input(const TensorComparison& comparison,
                        std::uint32_t lane,
                        const Evidence& evidence) {
  return Tracer(evidence, lane).trace(comparison);
}

}  // namespace repro_check::comparators::detail
