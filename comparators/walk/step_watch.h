// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "comparators/judge/op_judge.h"
#include "comparators/report/report.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {

inline Metric number_of(const core::OpRecord* record, std::string_view name) {
  if (record == nullptr) return std::nullopt;
  const core::Value* value = core::find_argument(*record, name);
  return value == nullptr ? std::nullopt : core::number_in(*record, *value);
}

/// Empty where it is not known.
inline Metric drift_of(const core::OpRecord& baseline, const core::OpRecord& candidate) {
  const auto from = core::list_argument<double>(baseline, core::kParameterSketch);
  const auto to = core::list_argument<double>(candidate, core::kParameterSketch);
  if (from.empty() || from.size() != to.size()) return std::nullopt;
  const auto bits = [](double sum) { return std::bit_cast<std::uint64_t>(sum); };
  if (std::ranges::equal(from, to, {}, bits, bits)) return 0;  // NaN included
  const double size = core::sketch_distance(std::vector<double>(from.size()), from);
  return core::sketch_distance(from, to) / size;
}

/// Gathers what two trainings recorded of their steps. Of a long one, one step in so many.
class StepWatch {
 public:
  /// @param coverage      borrowed; gets the operators inside compiled regions
  /// @param steps_before  of the baseline, by which the candidate's are counted on
  StepWatch(Coverage& coverage, std::uint32_t steps_before)
      : coverage_(coverage), steps_before_(steps_before) {}

  /// To be told every matched pair, and every record of one side, in trace order.
  void see(const JudgedCall& call) {
    if (core::is_named_values(call.baseline)) take({&call.baseline, &call.candidate});
  }

  void see_alone(const core::OpRecord& record, bool in_baseline) {
    if (!core::is_named_values(record)) return;
    take({in_baseline ? &record : nullptr, in_baseline ? nullptr : &record});
  }

  /// By kind, then by ordinal. The object is empty afterwards.
  std::vector<StepSeries> finish() {
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

 private:
  /// Null for a side that has none.
  struct Records {
    const core::OpRecord* baseline = nullptr;
    const core::OpRecord* candidate = nullptr;
  };
  struct Numbers {
    Metric baseline;
    Metric candidate;
  };
  struct Gathered {
    std::map<std::uint32_t, Numbers> by_step;
    std::optional<std::uint32_t> first_apart;
  };
  struct Ordinals {
    std::uint32_t step = 0;
    std::array<std::uint32_t, static_cast<std::size_t>(StepSeries::kLastKind) + 1> next{};
  };
  using Kind = StepSeries::Kind;
  static constexpr std::size_t kMostSteps = 4096;
  /// Further ones of one kind in a step are of a kind that the first ones show.
  static constexpr std::uint32_t kMostOrdinals = 8;

  void take(const Records& records) {
    const core::OpRecord& shown = records.baseline ? *records.baseline : *records.candidate;
    const auto both = [&](std::string_view name) {
      return Numbers{number_of(records.baseline, name), number_of(records.candidate, name)};
    };
    const auto put_all = [&](Kind kind, std::string_view prefix) {
      for (const core::Argument& argument : shown.arguments) {
        if (argument.name.starts_with(prefix)) put(records, kind, both(argument.name));
      }
    };
    const std::string_view name = shown.op->name;
    if (name == core::kRegionRecord) {
      const auto [here, there] = both(core::kRegionOperators);
      coverage_.fused_baseline += static_cast<std::uint64_t>(std::fmax(here.value_or(0), 0));
      coverage_.fused_candidate += static_cast<std::uint64_t>(std::fmax(there.value_or(0), 0));
    } else if (name == core::kLossRecord) {
      put_all(Kind::kLoss, "");
    } else if (name == core::kStepRecord) {
      put(records, Kind::kGradientNorm, both(core::kGradientNorm));
      put_all(Kind::kLearningRate, core::kLearningRatePrefix);
      if (records.baseline == nullptr || records.candidate == nullptr) return;
      put(records, Kind::kDrift, {std::nullopt, drift_of(*records.baseline, *records.candidate)});
    }
  }

  void put(const Records& records, Kind kind, const Numbers& numbers) {
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

  /// Which number of its kind this is in its step, from 0.
  std::uint32_t next_ordinal(const core::OpRecord& record, bool in_baseline, Kind kind) {
    Ordinals& ordinals = ordinals_[in_baseline ? 0 : 1];
    if (ordinals.step != record.step) ordinals = {record.step, {}};
    return ordinals.next[static_cast<std::size_t>(kind)]++;
  }

  Coverage& coverage_;
  std::uint32_t steps_before_;
  std::map<std::pair<Kind, std::uint32_t>, Gathered> series_;
  std::array<Ordinals, 2> ordinals_;
  std::uint32_t stride_ = 1;
};

}  // namespace repro_check::comparators
