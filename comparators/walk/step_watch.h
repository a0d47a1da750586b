// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "comparators/judge/op_judge.h"
#include "comparators/report/report.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// Gathers what two trainings recorded of their steps. Of a long one, one step in so many.
class StepWatch {
 public:
  /// @param coverage      borrowed; gets the operators inside compiled regions
  /// @param steps_before  of the baseline, by which the candidate's are counted on
  StepWatch(Coverage& coverage, std::uint32_t steps_before)
      : coverage_(coverage), steps_before_(steps_before) {}

  /// To be told every matched pair, and every record of one side, in trace order.
  void see(const JudgedCall& call);
  void see_alone(const core::OpRecord& record, bool in_baseline);

  /// By kind, then by ordinal. The object is empty afterwards.
  std::vector<StepSeries> finish();

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
  using Kind = StepSeries::Kind;

  void take(const Records& records);
  void take_step(const Records& records);
  void put(const Records& records, Kind kind, const Numbers& numbers);
  /// Which number of its kind this is in its step, from 0.
  std::uint32_t next_ordinal(const core::OpRecord& record, bool in_baseline, Kind kind);

  struct Ordinals {
    std::uint32_t step = 0;
    std::array<std::uint32_t, static_cast<std::size_t>(StepSeries::kLastKind) + 1> next{};
  };
  Coverage& coverage_;
  std::uint32_t steps_before_;
  std::map<std::pair<Kind, std::uint32_t>, Gathered> series_;
  std::array<Ordinals, 2> ordinals_;
  std::uint32_t stride_ = 1;
};

}  // namespace repro_check::comparators
