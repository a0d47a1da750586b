// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/noise.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <variant>

#include "comparators/align/pairing.h"
#include "comparators/judge/tensor_judge.h"
#include "comparators/measure/records.h"
#include "core/error.h"

namespace repro_check::comparators {
namespace {

using configs::OperatorFloors;
using configs::OutputFloor;
using core::TensorRecord;

std::string slot_name(const TensorRecord& tensor) { return "output " + tensor.slot; }
std::string result_name(std::size_t index) { return fmt::format("result {}", index); }

OutputFloor none(std::string why) { return {0, 0, std::move(why)}; }

OperatorFloors empty_floors(const core::OpRecord& record) {
  OperatorFloors floors;
  if (record.op) floors.op = record.op->full_name();
  if (record.site) floors.module = record.site->module_path;
  for (const TensorRecord& tensor : record.tensors) {
    if (core::is_output(tensor)) floors.outputs[slot_name(tensor)] = {};
  }
  for (std::size_t i = 0; i < record.results.size(); ++i) {
    if (!is_tensor(record.results[i])) floors.outputs[result_name(i)] = {};
  }
  return floors;
}

/// The greater of two floors; once there is none, there is none.
void widen(const OutputFloor& distance, OutputFloor& floor) {
  if (!floor.problem.empty()) return;
  floor.problem = distance.problem;
  floor.l2_rel = std::max(floor.l2_rel, distance.l2_rel);
  floor.max_abs = std::max(floor.max_abs, distance.max_abs);
  if (!floor.problem.empty()) floor.l2_rel = floor.max_abs = 0;
}

OutputFloor distance_of(const TensorMetrics& m) {
  if (m.apart() != 0) return none("some runs have NaN or Inf where others have none");
  if (!m.max_abs) return m.n_diff == m.nan_both_payload ? OutputFloor{} : none("no distance");
  const double l2 = m.l2_rel.value_or(0);
  if (!std::isfinite(l2) || !std::isfinite(*m.max_abs)) {
    return none("all of it is 0 in the first run, or the distance is not finite");
  }
  return {l2, *m.max_abs, {}};
}

OutputFloor distance_of(double baseline, double other) {
  if (std::isnan(baseline) && std::isnan(other)) return {};
  const double apart = std::abs(other - baseline);
  if (!std::isfinite(apart)) return none("some runs have NaN or Inf where others have none");
  const double relative = apart == 0 ? 0 : apart / std::abs(baseline);
  if (!std::isfinite(relative)) return none("it is 0 in the first run");
  return {relative, apart, {}};
}

OutputFloor distance_of(const core::Value& baseline, const core::Value& other) {
  if (same_scalars(baseline, other)) return {};
  const auto* left = std::get_if<double>(&baseline.data);
  const auto* right = std::get_if<double>(&other.data);
  if (left != nullptr && right != nullptr) return distance_of(*left, *right);
  const auto* list = std::get_if<core::ValueList>(&baseline.data);
  const auto* others = std::get_if<core::ValueList>(&other.data);
  if (list == nullptr || others == nullptr || list->items.size() != others->items.size()) {
    return none("the runs returned different values");
  }
  OutputFloor worst;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    widen(distance_of(list->items[i], others->items[i]), worst);
  }
  return worst;
}

/// One run against the first.
class RunDistance {
 public:
  /// @param options  borrowed
  RunDistance(const core::DumpSource& first,
              const core::DumpSource& run,
              const CompareOptions& options)
      : judge_(first, run, options) {}

  void measure(const core::OpRecord& from, const core::OpRecord& to, OperatorFloors& floors) {
    for (const TensorRecord& tensor : from.tensors) {
      if (!core::is_output(tensor)) continue;
      widen(distance(from.index, tensor, to), floors.outputs[slot_name(tensor)]);
    }
    for (std::size_t i = 0; i < from.results.size(); ++i) {
      if (is_tensor(from.results[i])) continue;
      widen(i < to.results.size() ? distance_of(from.results[i], to.results[i])
                                  : none("another number of results in some runs"),
            floors.outputs[result_name(i)]);
    }
  }

  [[nodiscard]] const auto& damage() const noexcept { return judge_.damage(); }

 private:
  OutputFloor distance(std::uint64_t op, const TensorRecord& from, const core::OpRecord& record) {
    const TensorRecord* found = find_tensor(record, from.role, from.slot);
    if (found == nullptr) return none("another number of outputs in some runs");
    const TensorRecord& to = *found;
    if (!same_form(from, to) || from.state != to.state)
      return none("another dtype, shape or layout in some runs");
    if (from.state == core::ContentState::kUndefined ||
        from.state == core::ContentState::kComposite) {
      return {};
    }
    if (from.state != core::ContentState::kHashed) return none("its content is not recorded");
    if (from.digest == to.digest) return {};
    const auto measured = judge_.measure_pair({from.content_key(), to.content_key()},
                                              fmt::format("op {} output {}", op, from.slot),
                                              judge_.rules().fallback());
    if (!measured || measured->slice) return none("not all of its values are recorded");
    return distance_of(measured->metrics);
  }

  TensorJudge judge_;
};

}  // namespace

NoiseMeter::NoiseMeter(const core::DumpSource& first) : first_(first) {
  floors_.tool_version = first.manifest().tool_version;
  floors_.subject = configs::noise_subject(first.manifest());
  floors_.runs = 1;
  floors_.operators.reserve(first.op_count());
  for (std::uint64_t i = 0; i < first.op_count(); ++i) {
    floors_.operators.push_back(empty_floors(first.op(i)));
  }
}

void NoiseMeter::add(const core::DumpSource& run,
                     const std::function<void(const CompareProgress&)>& progress) {
  const auto others = configs::differences(floors_.subject, configs::noise_subject(run.manifest()));
  if (!others.empty()) {
    throw core::not_comparable(fmt::format(
        "{} is no repeat of {}: {}", run.location(), first_.location(), fmt::join(others, ", ")));
  }
  if (run.manifest().trace.digest_algorithm != first_.manifest().trace.digest_algorithm) {
    throw core::not_comparable(run.location() + " has digests of another rule");
  }
  const Pairing pairing = pair_records(first_, run);
  CompareOptions options;
  options.progress = progress;
  RunDistance distance(first_, run, options);
  Pace pace(options, ComparePhase::kComparing, first_.op_count());
  for (std::uint64_t i = 0; i < first_.op_count(); ++i) {
    pace.add(1);
    OperatorFloors& floors = floors_.operators[i];
    if (pairing.candidate_of[i] == kUnmatched) {
      for (auto& [slot, floor] : floors.outputs) widen(none("some runs do not call it"), floor);
      continue;
    }
    distance.measure(first_.op(i), run.op(pairing.candidate_of[i]), floors);
  }
  if (!distance.damage().empty()) {
    throw core::damaged_dump(distance.damage().front().sentence);
  }
  ++floors_.runs;
}

NoiseSummary summarise(const configs::NoiseFloors& floors) {
  NoiseSummary summary;
  std::vector<std::pair<double, std::uint64_t>> noisy;
  for (std::uint64_t i = 0; i < floors.operators.size(); ++i) {
    const auto& outputs = floors.operators[i].outputs;
    if (outputs.empty() || floors.operators[i].op == core::kReturnedOperator) continue;
    ++summary.operators;
    double worst = 0;
    bool differs = false;
    bool lacks = false;
    for (const auto& [slot, floor] : outputs) {
      worst = std::max(worst, floor.l2_rel);
      differs = differs || floor.l2_rel > 0 || floor.max_abs > 0;
      lacks = lacks || !floor.problem.empty();
    }
    if (lacks) ++summary.without_floor;
    if (differs) noisy.emplace_back(-worst, i);
    if (!lacks && !differs) ++summary.quiet;
  }
  summary.noisy = noisy.size();
  std::ranges::sort(noisy);
  for (const auto& [worst, index] : noisy) summary.worst.push_back(index);
  return summary;
}

}  // namespace repro_check::comparators
