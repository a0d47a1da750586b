// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comparators/cause/hunks.h"
#include "comparators/judge/op_judge.h"
#include "comparators/measure/samples.h"
#include "comparators/report/compare_options.h"
#include "comparators/report/report.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// A map is worth a look at so many bytes of a tensor, and at so many of all of them.
inline constexpr std::uint64_t kMostBytesOfMap = 64ULL << 20U;
inline constexpr std::uint64_t kMostBytesOfMaps = 1ULL << 30U;

using Numbers = std::unordered_map<std::string, std::uint32_t>;

/// The place of `key` in a table, where it is put if it is new.
template <typename Entry>
inline std::uint32_t intern(Numbers& numbers,
                            std::vector<Entry>& table,
                            std::string key,
                            Entry entry) {
  const auto [found, is_new] =
      numbers.try_emplace(std::move(key), static_cast<std::uint32_t>(table.size()));
  if (is_new) table.push_back(std::move(entry));
  return found->second;
}

/// The greater of two, where NaN stands for not known.
inline void raise(double& greatest, const Metric& value) {
  if (value && !(greatest >= *value)) greatest = *value;
}

inline void add_counts(const core::OpRecord& record, std::uint64_t& nans, std::uint64_t& infs) {
  for (const core::TensorRecord& tensor : record.tensors) {
    const auto counts = tensor.non_finite();
    if (!core::is_output(tensor) || !counts) continue;
    nans += counts->nans;
    infs += counts->infs();
  }
}

inline void add_metrics(const TensorMetrics& m, OpErrors& errors) {
  raise(errors.max_abs, m.max_abs);
  raise(errors.max_rel, m.max_rel_finite ? m.max_rel_finite : m.max_rel);
  raise(errors.l2_rel, m.l2_rel);
  if (m.ulp_max) errors.ulp_max = std::max(errors.ulp_max.value_or(0), *m.ulp_max);
  errors.differing += m.n_diff;
  errors.elements += m.elements;
}

/// Where nobody counted, what the metrics know of NaN and Inf.
inline void add_specials(const TensorMetrics& m, OpErrors& errors) {
  const std::uint64_t nan_both = m.nan_both_same + m.nan_both_payload;
  errors.nan_baseline = std::max(errors.nan_baseline, nan_both + m.nan_baseline);
  errors.nan_candidate = std::max(errors.nan_candidate, nan_both + m.nan_candidate);
  errors.inf_baseline = std::max(errors.inf_baseline, m.inf_sign + m.inf_baseline);
  errors.inf_candidate = std::max(errors.inf_candidate, m.inf_sign + m.inf_candidate);
}

inline OpState state_of(const JudgedCall& call) {
  using enum OpState;
  constexpr std::array kOfRelation{kOrigin, kPropagated, kMismatch, kMismatch};
  constexpr std::array kOfOutcome{
      kNotJudged, kEqual, kWithin, kNotJudged, kNotJudged, kSkipped, kNotJudged};
  return call.why ? kOfRelation[static_cast<std::size_t>(call.why->relation)]
                  : kOfOutcome[static_cast<std::size_t>(call.findings.outcome)];
}

/// Writes down a row for every operator that a walk meets; nothing at all where that is not wanted.
class TrailKeeper {
 public:
  /// The sources are borrowed.
  TrailKeeper(const core::DumpSource& baseline, const core::DumpSource& candidate, bool wanted)
      : baseline_(baseline),
        candidate_(candidate),
        trail_(wanted ? std::make_shared<OpTrail>() : nullptr) {}

  void see(const JudgedCall& call) {
    const core::OpRecord& from = call.baseline;
    const core::OpRecord& to = call.candidate;
    if (!trail_ || !takes(from.generator || to.generator)) return;
    TrailRow row = row_of(from);
    row.baseline = static_cast<std::uint32_t>(from.index);
    row.candidate = static_cast<std::uint32_t>(to.index);
    row.state = state_of(call);
    note_producers(from, row);
    note_errors(call, row);
    note_draw(from.generator, to.generator, row);
    if (call.why) map_outputs(call);
    trail_->rows.push_back(row);
  }

  void see_hunk(const Hunk& hunk) {
    if (!trail_) return;
    for (const std::uint32_t place : hunk.missing) add_unmatched(baseline_, place, true);
    for (const std::uint32_t place : hunk.extra) add_unmatched(candidate_, place, false);
  }

  void see_damaged(const OpPair& event) {
    if (!trail_ || !takes(false)) return;
    TrailRow row = row_of(baseline_.op_head(event.baseline));
    row.baseline = event.baseline;
    row.candidate = event.candidate;
    row.state = OpState::kNotJudged;
    trail_->rows.push_back(row);
  }

  /// The rows in order, or null. To be called once, last.
  std::shared_ptr<const OpTrail> finish() {
    if (!trail_) return nullptr;
    std::ranges::stable_sort(trail_->rows, {}, [](const TrailRow& row) {
      return std::tuple(row.shown(), row.baseline == TrailRow::kNone);
    });
    return std::exchange(trail_, nullptr);
  }

 private:
  TrailRow row_of(const core::OpRecord& record) {
    TrailRow row;
    const std::string name = record.op == nullptr ? "" : record.op->full_name();
    row.op = intern(operators_, trail_->operators, name, name);
    row.place = place_of(record.site.get());
    row.step = record.step;
    row.phase = record.phase;
    const auto outputs = tensors_of(record, core::TensorRole::kOutput);
    const std::string type =
        outputs.empty() ? "" : dtype_and_shape(outputs.front()->dtype, outputs.front()->shape);
    row.type = intern(types_, trail_->types, type, type);
    return row;
  }

  /// Counts an operator. False where there is no room for its row: then nothing is kept of it.
  bool takes(bool draws) {
    ++trail_->rows_total;
    if (trail_->rows.size() < OpTrail::kMostRows) return true;
    if (draws) ++trail_->draws_total;
    return false;
  }

  void add_unmatched(const core::DumpSource& source, std::uint32_t place, bool in_baseline) {
    core::OpRecord record;
    // Of a damaged one what names it.
    if (damage_in([&] { record = source.op(place); })) record = source.op_head(place);
    if (!takes(record.generator.has_value())) return;
    TrailRow row = row_of(record);
    (in_baseline ? row.baseline : row.candidate) = place;
    row.state = in_baseline ? OpState::kBaselineOnly : OpState::kCandidateOnly;
    note_producers(record, row);
    const std::optional<core::GeneratorUse> none;
    note_draw(in_baseline ? record.generator : none, in_baseline ? none : record.generator, row);
    trail_->rows.push_back(row);
  }

  std::uint32_t place_of(const core::CallSite* site) {
    OpPlace place;
    if (site != nullptr) {
      place.module_path = site->module_path;
      if (const core::SourceFrame* frame = core::display_frame(*site)) {
        place.file = frame->file;
        place.line = frame->line;
      }
    }
    std::string key = place.module_path + '\0' + place.file + '\0' + std::to_string(place.line);
    return intern(places_, trail_->places, std::move(key), std::move(place));
  }

  void note_producers(const core::OpRecord& record, TrailRow& row) {
    std::vector<std::uint32_t>& all = trail_->producers;
    row.first_producer = static_cast<std::uint32_t>(all.size());
    for (const core::TensorRecord& tensor : record.tensors) {
      if (!core::is_input(tensor) || tensor.producer < 0) continue;
      const auto producer = static_cast<std::uint32_t>(tensor.producer);
      const auto own = all.begin() + static_cast<std::ptrdiff_t>(row.first_producer);
      if (std::find(own, all.end(), producer) == all.end()) all.push_back(producer);
    }
    row.producers = static_cast<std::uint32_t>(all.size()) - row.first_producer;
  }

  void note_errors(const JudgedCall& call, TrailRow& row) {
    OpErrors errors;
    add_counts(call.baseline, errors.nan_baseline, errors.inf_baseline);
    add_counts(call.candidate, errors.nan_candidate, errors.inf_candidate);
    for (const TensorComparison& output : call.findings.outputs) {
      if (!output.metrics) continue;
      add_metrics(*output.metrics, errors);
      const bool is_counted = output.baseline.non_finite() && output.candidate.non_finite();
      if (!is_counted) add_specials(*output.metrics, errors);
    }
    const bool is_finite =
        errors.nan_baseline + errors.nan_candidate + errors.inf_baseline + errors.inf_candidate ==
        0;
    if (call.findings.outputs.empty() && is_finite) return;
    row.errors = static_cast<std::uint32_t>(trail_->errors.size());
    trail_->errors.push_back(errors);
  }

  void note_draw(const std::optional<core::GeneratorUse>& from,
                 const std::optional<core::GeneratorUse>& to,
                 const TrailRow& row) {
    if (!from && !to) return;
    ++trail_->draws_total;
    if (trail_->draws.size() >= OpTrail::kMostDraws) return;
    trail_->draws.push_back({row.baseline, row.candidate, row.op, from, to});
  }

  void map_outputs(const JudgedCall& call) {
    for (const TensorComparison& output : call.findings.outputs) {
      if (trail_->maps.size() >= OpTrail::kMostMaps) return;
      const core::ContentKey left = output.baseline.content_key();
      const core::ContentKey right = output.candidate.content_key();
      const bool has_bytes = output.metrics && !output.slice && left.dtype == right.dtype &&
                             baseline_.has_content(left) && candidate_.has_content(right);
      const std::size_t size = core::element_size(left.dtype);
      const std::uint64_t bytes = has_bytes ? output.metrics->elements * size : 0;
      if (bytes == 0 || bytes > kMostBytesOfMap || mapped_bytes_ + bytes > kMostBytesOfMaps)
        continue;
      mapped_bytes_ += bytes;
      // The verdict speaks of damage, which was found when the pair was measured.
      const auto damage = damage_in([&] {
        baseline_.read_content(left, left_);
        candidate_.read_content(right, right_);
      });
      if (damage || left_.size() != bytes || right_.size() != bytes) continue;
      DifferenceMap map = map_differences(left.shape, size, left_, right_);
      map.op = call.baseline.index;
      map.slot = output.baseline.slot;
      trail_->maps.push_back(std::move(map));
    }
  }

  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  std::shared_ptr<OpTrail> trail_;
  Numbers operators_;
  Numbers places_;
  Numbers types_;
  std::uint64_t mapped_bytes_ = 0;
  std::vector<std::byte> left_;
  std::vector<std::byte> right_;
};

}  // namespace repro_check::comparators
