// SPDX-License-Identifier: Apache-2.0
#include "comparators/walk/step_watch.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <variant>

#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

constexpr std::size_t kMostSteps = 4096;
/// Further ones of one kind in a step are of a kind that the first ones show.
constexpr std::uint32_t kMostOrdinals = 8;

Metric number_of(const core::OpRecord* record, std::string_view name) {
  if (record == nullptr) return std::nullopt;
  const core::Value* value = core::find_argument(*record, name);
  return value == nullptr ? std::nullopt : core::number_in(*record, *value);
}

std::vector<double> sketch_of(const core::OpRecord& record) {
  std::vector<double> sums;
  const core::Value* value = core::find_argument(record, core::kParameterSketch);
  const auto* list = value == nullptr ? nullptr : std::get_if<core::ValueList>(&value->data);
  if (list == nullptr) return sums;
  for (const core::Value& item : list->items) {
    if (const auto* sum = std::get_if<double>(&item.data)) sums.push_back(*sum);
  }
  return sums;
}

/// Empty where it is not known.
Metric drift_of(const core::OpRecord& baseline, const core::OpRecord& candidate) {
  const std::vector<double> from = sketch_of(baseline);
  const std::vector<double> to = sketch_of(candidate);
  if (from.empty() || from.size() != to.size()) return std::nullopt;
  const auto bits = [](double sum) { return std::bit_cast<std::uint64_t>(sum); };
  if (std::ranges::equal(from, to, {}, bits, bits)) return 0;  // NaN included
  const double size = core::sketch_distance(std::vector<double>(from.size()), from);
  return core::sketch_distance(from, to) / size;
}

std::uint64_t operators_inside(const core::OpRecord* record) {
  const Metric count = number_of(record, core::kRegionOperators);
  return count && *count > 0 ? static_cast<std::uint64_t>(*count) : 0;
}

}  // namespace

void StepWatch::see(const JudgedCall& call) {
  if (core::is_named_values(call.baseline)) take({&call.baseline, &call.candidate});
}

void StepWatch::see_alone(const core::OpRecord& record, bool in_baseline) {
  if (!core::is_named_values(record)) return;
  take({in_baseline ? &record : nullptr, in_baseline ? nullptr : &record});
}

void StepWatch::take(const Records& records) {
  const core::OpRecord& shown = records.baseline ? *records.baseline : *records.candidate;
  const std::string_view name = shown.op->name;
  if (name == core::kRegionRecord) {
    coverage_.fused_baseline += operators_inside(records.baseline);
    coverage_.fused_candidate += operators_inside(records.candidate);
  } else if (name == core::kStepRecord) {
    take_step(records);
  } else if (name == core::kLossRecord) {
    for (const core::Argument& loss : shown.arguments) {
      put(records,
          Kind::kLoss,
          {number_of(records.baseline, loss.name), number_of(records.candidate, loss.name)});
    }
  }
}

void StepWatch::take_step(const Records& records) {
  const core::OpRecord& shown = records.baseline ? *records.baseline : *records.candidate;
  const auto both = [&](std::string_view name) {
    return Numbers{number_of(records.baseline, name), number_of(records.candidate, name)};
  };
  put(records, Kind::kGradientNorm, both(core::kGradientNorm));
  for (const core::Argument& argument : shown.arguments) {
    if (!argument.name.starts_with(core::kLearningRatePrefix)) continue;
    put(records, Kind::kLearningRate, both(argument.name));
  }
  if (records.baseline == nullptr || records.candidate == nullptr) return;
  put(records, Kind::kDrift, {std::nullopt, drift_of(*records.baseline, *records.candidate)});
}

void StepWatch::put(const Records& records, Kind kind, const Numbers& numbers) {
  std::uint32_t ordinal = 0;
  std::uint32_t step = 0;
  if (records.candidate != nullptr) {
    ordinal = next_ordinal(*records.candidate, false, kind);
    step = records.candidate->step + steps_before_;
  }
  if (records.baseline != nullptr) {
    ordinal = next_ordinal(*records.baseline, true, kind);
    step = records.baseline->step;
  }
  if ((!numbers.baseline && !numbers.candidate) || ordinal >= kMostOrdinals) return;
  Gathered& series = series_[{kind, ordinal}];
  const bool apart = kind == Kind::kDrift ? numbers.candidate != 0.0
                     : numbers.baseline && numbers.candidate
                         ? std::bit_cast<std::uint64_t>(*numbers.baseline) !=
                               std::bit_cast<std::uint64_t>(*numbers.candidate)
                         : false;
  if (apart && !series.first_apart) series.first_apart = step;
  if (step % stride_ != 0) return;
  Numbers& known = series.by_step[step];
  if (numbers.baseline) known.baseline = numbers.baseline;
  if (numbers.candidate) known.candidate = numbers.candidate;
  if (series.by_step.size() <= kMostSteps) return;
  stride_ *= 2;
  for (auto& [key, other] : series_) {
    std::erase_if(other.by_step, [&](const auto& entry) { return entry.first % stride_ != 0; });
  }
}

std::uint32_t StepWatch::next_ordinal(const core::OpRecord& record, bool in_baseline, Kind kind) {
  Ordinals& ordinals = ordinals_[in_baseline ? 0 : 1];
  if (ordinals.step != record.step) ordinals = {record.step, {}};
  return ordinals.next[static_cast<std::size_t>(kind)]++;
}

std::vector<StepSeries> StepWatch::finish() {
  std::vector<StepSeries> all;
  for (const auto& [key, gathered] : series_) {
    StepSeries& series = all.emplace_back();
    std::tie(series.kind, series.ordinal) = key;
    series.stride = stride_;
    series.first_apart = gathered.first_apart;
    for (const auto& [step, numbers] : gathered.by_step) {
      series.steps.push_back(step);
      series.baseline.push_back(numbers.baseline);
      series.candidate.push_back(numbers.candidate);
    }
  }
  series_.clear();
  return all;
}

}  // namespace repro_check::comparators
