// SPDX-License-Identifier: Apache-2.0
#include "comparators/walk/trail_keeper.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

#include "comparators/judge/tensor_judge.h"
#include "comparators/measure/difference_map.h"
#include "core/error.h"
#include "core/tensor/tensor_view.h"

namespace repro_check::comparators::detail {
namespace {

/// A map is worth a look at so many bytes of a tensor, and at so many of all of them.
constexpr std::uint64_t kMostBytesOfMap = 64ULL << 20U;
constexpr std::uint64_t kMostBytesOfMaps = 1ULL << 30U;

std::uint32_t intern(std::unordered_map<std::string, std::uint32_t>& names,
                     std::vector<std::string>& table,
                     std::string name) {
  const auto [found, is_new] =
      names.try_emplace(std::move(name), static_cast<std::uint32_t>(table.size()));
  if (is_new) table.push_back(found->first);
  return found->second;
}

/// The greater of two, where NaN stands for not known.
void raise(double& greatest, const Metric& value) {
  if (value && !(greatest >= *value)) greatest = *value;
}

void add_counts(const core::OpRecord& record, std::uint64_t& nans, std::uint64_t& infs) {
  for (const core::TensorRecord& tensor : record.tensors) {
    const auto counts = tensor.non_finite();
    if (tensor.role != core::TensorRole::kOutput || !counts) continue;
    nans += counts->nans;
    infs += counts->infs();
  }
}

void add_metrics(const TensorMetrics& m, OpErrors& errors) {
  raise(errors.max_abs, m.max_abs);
  raise(errors.max_rel, m.max_rel_finite ? m.max_rel_finite : m.max_rel);
  raise(errors.l2_rel, m.l2_rel);
  if (m.ulp_max) errors.ulp_max = std::max(errors.ulp_max.value_or(0), *m.ulp_max);
  errors.differing += m.n_diff;
  errors.elements += m.elements;
}

/// Where nobody counted, what the metrics know of NaN and Inf.
void add_specials(const TensorMetrics& m, OpErrors& errors) {
  const std::uint64_t nan_both = m.nan_both_same + m.nan_both_payload;
  errors.nan_baseline = std::max(errors.nan_baseline, nan_both + m.nan_baseline);
  errors.nan_candidate = std::max(errors.nan_candidate, nan_both + m.nan_candidate);
  errors.inf_baseline = std::max(errors.inf_baseline, m.inf_sign + m.inf_baseline);
  errors.inf_candidate = std::max(errors.inf_candidate, m.inf_sign + m.inf_candidate);
}

/// Of a damaged one what names it.
core::OpRecord whole_record(const core::DumpSource& source, std::uint32_t place) {
  try {
    return source.op(place);
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
    return source.op_head(place);
  }
}

const core::TensorRecord* first_output(const core::OpRecord& record) {
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.role == core::TensorRole::kOutput) return &tensor;
  }
  return nullptr;
}

}  // namespace

OpState state_of(OpOutcome outcome, const Attribution* why) {
  if (why != nullptr) {
    switch (why->relation) {
      case Relation::kOrigin:
        return OpState::kOrigin;
      case Relation::kPropagated:
        return OpState::kPropagated;
      case Relation::kMismatch:
      case Relation::kMissing:
        return OpState::kMismatch;
    }
  }
  switch (outcome) {
    case OpOutcome::kEqual:
      return OpState::kEqual;
    case OpOutcome::kWithin:
      return OpState::kWithin;
    case OpOutcome::kSkipped:
      return OpState::kSkipped;
    default:
      return OpState::kNotJudged;
  }
}

TrailKeeper::TrailKeeper(const core::DumpSource& baseline,
                         const core::DumpSource& candidate,
                         bool wanted)
    : baseline_(baseline),
      candidate_(candidate),
      trail_(wanted ? std::make_shared<OpTrail>() : nullptr) {}

void TrailKeeper::see(const core::OpRecord& from,
                      const core::OpRecord& to,
                      const OpFindings& findings,
                      const Attribution* why) {
  if (!trail_ || !takes(from.generator || to.generator)) return;
  OpRow row = row_of(from);
  row.baseline = static_cast<std::uint32_t>(from.index);
  row.candidate = static_cast<std::uint32_t>(to.index);
  row.state = state_of(findings.outcome, why);
  note_producers(from, row);
  note_errors(from, to, findings, row);
  if (from.generator || to.generator) note_draw(from, to, row);
  if (why != nullptr) map_outputs(from, findings);
  trail_->rows.push_back(row);
}

void TrailKeeper::see_hunk(const Hunk& hunk) {
  if (!trail_) return;
  for (const std::uint32_t place : hunk.missing) add_unmatched(baseline_, place, true);
  for (const std::uint32_t place : hunk.extra) add_unmatched(candidate_, place, false);
}

void TrailKeeper::see_damaged(const Event& event) {
  if (!trail_ || !takes(false)) return;
  OpRow row = row_of(baseline_.op_head(event.baseline));
  row.baseline = event.baseline;
  row.candidate = event.candidate;
  row.state = OpState::kNotJudged;
  trail_->rows.push_back(row);
}

std::shared_ptr<const OpTrail> TrailKeeper::finish() {
  if (!trail_) return nullptr;
  std::ranges::stable_sort(trail_->rows, {}, [](const OpRow& row) {
    return std::tuple(row.shown(), row.baseline == OpRow::kNone);
  });
  return std::exchange(trail_, nullptr);
}

OpRow TrailKeeper::row_of(const core::OpRecord& record) {
  OpRow row;
  const std::string name = record.op == nullptr ? "" : record.op->full_name();
  row.op = intern(operators_, trail_->operators, name);
  row.place = place_of(record.site.get());
  row.phase = record.phase;
  const core::TensorRecord* output = first_output(record);
  row.type = intern(types_,
                    trail_->types,
                    output == nullptr ? "" : dtype_and_shape(output->dtype, output->shape));
  return row;
}

bool TrailKeeper::takes(bool draws) {
  ++trail_->rows_total;
  if (trail_->rows.size() < OpTrail::kMostRows) return true;
  if (draws) ++trail_->draws_total;
  return false;
}

void TrailKeeper::add_unmatched(const core::DumpSource& source,
                                std::uint32_t place,
                                bool in_baseline) {
  const core::OpRecord record = whole_record(source, place);
  if (!takes(record.generator.has_value())) return;
  OpRow row = row_of(record);
  (in_baseline ? row.baseline : row.candidate) = place;
  row.state = in_baseline ? OpState::kBaselineOnly : OpState::kCandidateOnly;
  note_producers(record, row);
  if (record.generator) {
    note_draw(
        in_baseline ? record : core::OpRecord{}, in_baseline ? core::OpRecord{} : record, row);
  }
  trail_->rows.push_back(row);
}

std::uint32_t TrailKeeper::place_of(const core::CallSite* site) {
  OpPlace place;
  if (site != nullptr) {
    place.module_path = site->module_path;
    if (const core::SourceFrame* frame = core::display_frame(*site)) {
      place.file = frame->file;
      place.line = frame->line;
    }
  }
  std::string key = place.module_path + '\0' + place.file + '\0' + std::to_string(place.line);
  const auto [found, is_new] =
      places_.try_emplace(std::move(key), static_cast<std::uint32_t>(trail_->places.size()));
  if (is_new) trail_->places.push_back(std::move(place));
  return found->second;
}

void TrailKeeper::note_producers(const core::OpRecord& record, OpRow& row) {
  std::vector<std::uint32_t>& all = trail_->producers;
  row.first_producer = static_cast<std::uint32_t>(all.size());
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.role != core::TensorRole::kInput || tensor.producer < 0) continue;
    const auto producer = static_cast<std::uint32_t>(tensor.producer);
    const auto own = all.begin() + static_cast<std::ptrdiff_t>(row.first_producer);
    if (std::find(own, all.end(), producer) == all.end()) all.push_back(producer);
  }
  row.producers = static_cast<std::uint32_t>(all.size()) - row.first_producer;
}

void TrailKeeper::note_errors(const core::OpRecord& from,
                              const core::OpRecord& to,
                              const OpFindings& findings,
                              OpRow& row) {
  OpErrors errors;
  add_counts(from, errors.nan_baseline, errors.inf_baseline);
  add_counts(to, errors.nan_candidate, errors.inf_candidate);
  for (const TensorComparison& output : findings.outputs) {
    if (!output.metrics) continue;
    add_metrics(*output.metrics, errors);
    const bool is_counted = output.baseline.non_finite() && output.candidate.non_finite();
    if (!is_counted) add_specials(*output.metrics, errors);
  }
  const bool is_finite =
      errors.nan_baseline + errors.nan_candidate + errors.inf_baseline + errors.inf_candidate == 0;
  if (findings.outputs.empty() && is_finite) return;
  row.errors = static_cast<std::uint32_t>(trail_->errors.size());
  trail_->errors.push_back(errors);
}

void TrailKeeper::note_draw(const core::OpRecord& from,
                            const core::OpRecord& to,
                            const OpRow& row) {
  ++trail_->draws_total;
  if (trail_->draws.size() >= OpTrail::kMostDraws) return;
  trail_->draws.push_back({row.baseline, row.candidate, row.op, from.generator, to.generator});
}

void TrailKeeper::map_outputs(const core::OpRecord& from, const OpFindings& findings) {
  for (const TensorComparison& output : findings.outputs) {
    if (trail_->maps.size() >= OpTrail::kMostMaps) return;
    const core::ContentKey left = output.baseline.content_key();
    const core::ContentKey right = output.candidate.content_key();
    const bool has_bytes = output.metrics && !output.slice && left.dtype == right.dtype &&
                           baseline_.has_content(left) && candidate_.has_content(right);
    const std::size_t size = core::element_size(left.dtype);
    const std::uint64_t bytes = has_bytes ? output.metrics->elements * size : 0;
    if (bytes == 0 || bytes > kMostBytesOfMap || mapped_bytes_ + bytes > kMostBytesOfMaps) continue;
    mapped_bytes_ += bytes;
    try {
      baseline_.read_content(left, left_);
      candidate_.read_content(right, right_);
    } catch (const core::Error& error) {
      // The verdict speaks of damage, which was found when the pair was measured.
      if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
      continue;
    }
    if (left_.size() != bytes || right_.size() != bytes) continue;
    DifferenceMap map = map_differences(left.shape, size, left_, right_);
    map.op = from.index;
    map.slot = output.baseline.slot;
    trail_->maps.push_back(std::move(map));
  }
}

}  // namespace repro_check::comparators::detail
