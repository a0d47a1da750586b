// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/arrival.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/tensor/dtype.h"

namespace repro_check::comparators {
namespace {

bool is_narrower(core::Dtype one, core::Dtype other) {
  return core::element_size(one) < core::element_size(other);
}

/// Judges one weight of the receiver.
class Arrival {
 public:
  Arrival(const WeightSide& sender, const WeightSide& receiver)
      : sender_(sender), receiver_(receiver) {
    for (const Weight& weight : sender.weights) by_name_.emplace(weight.name, &weight);
  }

  [[nodiscard]] ArrivedWeight judge(RelatedWeight relation) const {
    const Weight& weight = receiver_.weights[relation.receiver];
    const core::ContentKey& content = weight.last().content;
    ArrivedWeight arrived{
        weight.name, content.dtype, content.shape, std::move(relation), WeightState::kArrived, {}};
    for (const Segment& segment : arrived.relation.segments) {
      const std::uint32_t until = version_of(segment).until;
      arrived.steps = std::min(arrived.steps.value_or(until), until);
    }
    arrived.state = state_of(arrived);
    return arrived;
  }

 private:
  [[nodiscard]] const WeightVersion& version_of(const Segment& segment) const {
    return sender_.weights[segment.source].versions[segment.version];
  }

  [[nodiscard]] WeightState state_of(const ArrivedWeight& arrived) const {
    const RelatedWeight& relation = arrived.relation;
    const std::uint64_t rows = relation.related_rows();
    if (rows < relation.rows) {
      if (rows == 0 && !relation.is_readable) return WeightState::kUnread;
      return rows > 0 || relation.counterpart ? WeightState::kOther : WeightState::kUnrelated;
    }
    const auto is_earlier = [&](const Segment& segment) {
      return segment.version + 1 < sender_.weights[segment.source].versions.size();
    };
    if (std::ranges::any_of(relation.segments, is_earlier)) return WeightState::kEarlier;
    if (is_misplaced(arrived)) return WeightState::kMisplaced;
    if (is_unmerged(arrived)) return WeightState::kUnmerged;
    const auto is_rounded = [&](const Segment& segment) {
      return segment.rounded != core::Dtype::kUnknown &&
             is_narrower(segment.rounded, arrived.dtype);
    };
    if (std::ranges::any_of(relation.segments, is_rounded)) return WeightState::kRounded;
    return WeightState::kArrived;
  }

  /// Of a whole tensor: the sender calls another one so, whose last values are others.
  [[nodiscard]] bool is_misplaced(const ArrivedWeight& arrived) const {
    if (arrived.relation.segments.size() != 1) return false;
    const Weight& source = sender_.weights[arrived.relation.segments.front().source];
    const auto own = by_name_.find(arrived.name);
    if (own == by_name_.end() || own->second == &source) return false;
    return own->second->last().content.shape == arrived.shape &&
           source.last().content.shape == arrived.shape &&
           own->second->last().content.digest != source.last().content.digest;
  }

  /// The sender adapts this weight, and neither the sum nor the adapter is in the receiver. An
  /// adapter that adds nothing yet is none.
  [[nodiscard]] bool is_unmerged(const ArrivedWeight& arrived) const {
    return std::ranges::any_of(arrived.relation.segments, [&](const Segment& segment) {
      return !segment.merged && std::ranges::any_of(adapters_, [&](const Adapter& adapter) {
        return adapter.base == segment.source && adds(adapter) && !is_received(adapter.up);
      });
    });
  }

  [[nodiscard]] bool adds(const Adapter& adapter) const {
    const Weight& up = sender_.weights[adapter.up];
    if (!up.last().stored) return up.versions.size() > 1;
    std::vector<std::byte> bytes;
    sender_.dump_of(up).read_content(up.last().content, bytes);
    return std::ranges::any_of(bytes, [](std::byte byte) { return byte != std::byte{}; });
  }

  [[nodiscard]] bool is_received(std::size_t source) const {
    return std::ranges::any_of(receiver_.weights, [&](const Weight& weight) {
      return weight.last().content == sender_.weights[source].last().content;
    });
  }

  const WeightSide& sender_;
  const WeightSide& receiver_;
  std::vector<Adapter> adapters_ = adapters_of(sender_);
  std::map<std::string_view, const Weight*> by_name_;
};

/// The fault of a weight that did not arrive, with what tells it from others of its kind.
struct WeightFault {
  WeightState state = WeightState::kArrived;
  std::optional<std::uint32_t> steps;
  core::Dtype rounded = core::Dtype::kUnknown;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const WeightFault&) const = default;
};

WeightFault fault_of(const ArrivedWeight& arrived) {
  if (arrived.state == WeightState::kEarlier) return {arrived.state, arrived.steps};
  if (arrived.state == WeightState::kRounded) {
    return {arrived.state, {}, arrived.relation.segments.front().rounded};
  }
  return {arrived.state, {}};
}

FindingId id_of(WeightState state) {
  switch (state) {
    case WeightState::kEarlier:
      return FindingId::kWeightsOfEarlierStep;
    case WeightState::kMisplaced:
      return FindingId::kWeightsMisplaced;
    case WeightState::kUnmerged:
      return FindingId::kAdapterNotMerged;
    case WeightState::kRounded:
      return FindingId::kWeightsRounded;
    case WeightState::kOther:
      return FindingId::kWeightsOfOtherValues;
    case WeightState::kUnread:
      return FindingId::kWeightsUnread;
    default:
      return FindingId::kWeightsUnrelated;
  }
}

/// One finding for all weights of one fault.
Finding arrival_finding(const WeightFault& fault,
                        const std::vector<const ArrivedWeight*>& weights,
                        const WeightSide& sender,
                        std::uint32_t last) {
  const bool is_open =
      fault.state == WeightState::kUnrelated || fault.state == WeightState::kUnread;
  Finding finding{id_of(fault.state), is_open ? Finding::Weight::kNote : Finding::Weight::kProof};
  std::vector<std::string> names;
  std::uint64_t rows = 0;
  std::uint64_t related = 0;
  for (const ArrivedWeight* weight : weights) {
    names.push_back(weight->name);
    rows += weight->relation.rows;
    related += weight->relation.related_rows();
  }
  finding.where.tensor = names.front();
  finding.with("weights", weights.size()).with("names", std::move(names));
  if (fault.state == WeightState::kOther) {
    finding.with("other_rows", rows - related).with("of_rows", rows);
  }
  if (fault.steps) finding.with("steps", *fault.steps).with("last", last);
  if (fault.state == WeightState::kRounded) {
    finding.with("dtype", core::dtype_name(fault.rounded));
  }
  if (fault.state == WeightState::kMisplaced) {
    finding.with("source", sender.weights[weights.front()->relation.segments.front().source].name);
  }
  return finding;
}

void find_faults(const WeightSide& sender, WeightsReport& report) {
  std::map<WeightFault, std::vector<const ArrivedWeight*>> faults;
  for (const ArrivedWeight& weight : report.weights) {
    if (weight.state != WeightState::kArrived) faults[fault_of(weight)].push_back(&weight);
  }
  for (const auto& [fault, weights] : faults) {
    report.findings.push_back(arrival_finding(fault, weights, sender, report.steps));
  }
  std::ranges::stable_sort(report.findings, {}, &Finding::weight);
}

}  // namespace

std::uint64_t WeightsReport::count(WeightState state) const {
  return static_cast<std::uint64_t>(std::ranges::count(weights, state, &ArrivedWeight::state));
}

bool WeightsReport::is_related() const {
  return elements > 0 && static_cast<double>(related) >= least * static_cast<double>(elements);
}

bool WeightsReport::has_diverged() const {
  constexpr std::array kFaults{WeightState::kEarlier,
                               WeightState::kMisplaced,
                               WeightState::kUnmerged,
                               WeightState::kRounded};
  // Where nothing at all is the sender's, its names alone say nothing: it is another model.
  return std::ranges::any_of(kFaults, [&](WeightState state) { return count(state) > 0; }) ||
         (related > 0 && count(WeightState::kOther) > 0);
}

WeightsReport judge_arrival(const WeightSide& sender, const WeightSide& receiver, double least) {
  WeightsReport report;
  report.sent = sender.weights.size();
  report.steps = sender.steps;
  report.unread = sender.unread + receiver.unread;
  report.least = least;
  // By content: a weight that is there twice, as a tied one, has arrived once.
  std::set<core::ContentKey> found;
  const auto find = [&](std::size_t source) {
    found.insert(sender.weights[source].last().content);
  };
  const Arrival arrival(sender, receiver);
  for (RelatedWeight& relation : relate_weights(sender, receiver)) {
    ArrivedWeight weight = arrival.judge(std::move(relation));
    const auto elements = static_cast<std::uint64_t>(core::element_count(weight.shape));
    report.elements += elements;
    for (const Segment& segment : weight.relation.segments) {
      if (elements > 0) report.related += elements / weight.relation.rows * segment.rows;
      find(segment.source);
      if (!segment.merged) continue;
      find(segment.merged->down);
      find(segment.merged->up);
    }
    if (weight.relation.counterpart) find(*weight.relation.counterpart);
    report.weights.push_back(std::move(weight));
  }
  for (const Weight& weight : sender.weights) {
    if (!found.contains(weight.last().content)) report.unsent.push_back(weight.name);
  }
  find_faults(sender, report);
  return report;
}

core::ExitCode exit_code_of(const WeightsReport& report) {
  if (report.has_diverged()) return core::ExitCode::kDivergence;
  return report.is_related() && report.unread == 0 && report.count(WeightState::kUnread) == 0
             ? core::ExitCode::kReproducible
             : core::ExitCode::kNotComparable;
}

}  // namespace repro_check::comparators
