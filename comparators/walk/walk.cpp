// SPDX-License-Identifier: Apache-2.0
#include "comparators/walk/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>

#include "comparators/cause/cause.h"
#include "comparators/cause/hunks.h"
#include "comparators/cause/replaced.h"
#include "comparators/cause/spread.h"
#include "comparators/judge/unfilled.h"
#include "comparators/measure/records.h"
#include "comparators/measure/samples.h"
#include "core/error.h"
#include "core/system/memory.h"
#include "core/tensor/content.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

/// Counts operators by the module that called them, for the first kMostModules of those, and at
/// most kMostBytes of names: a trace may name another one at every call.
class ModuleCounter {
 public:
  /// @param modules  borrowed, and filled
  explicit ModuleCounter(std::vector<ModuleTally>& modules) : modules_(modules) {}

  /// @param outcome  kUnseen of a record without a counterpart
  void see(const core::OpRecord& record, OpOutcome outcome) {
    static const std::string root;
    const std::size_t place = find_or_add(record.site ? record.site->module_path : root);
    if (place == kNowhere) return;
    ModuleTally& tally = modules_[place];
    ++tally.operators;
    if (outcome == OpOutcome::kSkipped || outcome == OpOutcome::kNotJudged) ++tally.not_judged;
    if (outcome == OpOutcome::kDiverged || outcome == OpOutcome::kMismatched ||
        outcome == OpOutcome::kUnseen) {
      ++tally.not_fine;
    }
  }

 private:
  static constexpr std::size_t kMostModules = 10'000;
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20U;
  static constexpr std::size_t kNowhere = SIZE_MAX;

  std::size_t find_or_add(const std::string& path) {
    const auto found = place_of_.find(path);
    if (found != place_of_.end()) return found->second;
    if (place_of_.size() == kMostModules || bytes_ + path.size() > kMostBytes) return kNowhere;
    bytes_ += path.size();
    place_of_.emplace(path, modules_.size());
    modules_.emplace_back().path = path;
    return modules_.size() - 1;
  }

  std::vector<ModuleTally>& modules_;
  std::unordered_map<std::string, std::size_t> place_of_;
  std::size_t bytes_ = 0;  ///< of their names
};

/// The first record of each rank that is not fine, for the kMostRanks ranks that part first. A dump
/// may say that every record has a rank of its own: that must cost no more than other nonsense.
class RankFirsts {
 public:
  static constexpr std::size_t kMostRanks = 1024;

  /// @param ranks  of the dumps, distinct and sorted; borrowed
  explicit RankFirsts(std::span<const std::uint32_t> ranks) : ranks_(ranks) {}

  void see(const core::OpRecord& record, bool in_baseline) {
    if (ranks_.size() < 2) return;
    if (firsts_.size() == kMostRanks && !firsts_.contains(record.rank)) return;
    const auto [place, is_first] = firsts_.try_emplace(record.rank);
    if (!is_first) return;
    RankDivergence& first = place->second;
    first.rank = record.rank;
    first.in_baseline = in_baseline;
    first.op_index = record.index;
    first.op = head_of(record);
  }

  /// Fills Report::ranks and rank_divergences, with a warning where that is not all. The object is
  /// empty afterwards.
  void finish(Report& report) {
    // Beside those that part the lowest of the others, as many as there is room for.
    std::size_t others = std::min(ranks_.size(), kMostRanks) - firsts_.size();
    for (const std::uint32_t rank : ranks_) {
      const bool parts = firsts_.contains(rank);
      if (parts || others != 0) report.ranks.push_back(rank);
      if (!parts && others != 0) --others;
    }
    for (auto& [rank, first] : firsts_) report.rank_divergences.push_back(std::move(first));
    firsts_.clear();
    if (ranks_.size() <= kMostRanks) return;
    report.warnings.push_back(
        Phrase("ranks-listed", {{"shown", kMostRanks}, {"all", ranks_.size()}}));
  }

 private:
  std::span<const std::uint32_t> ranks_;
  std::map<std::uint32_t, RankDivergence> firsts_;
};

Metric number_of(const core::OpRecord* record, std::string_view name) {
  if (record == nullptr) return std::nullopt;
  const core::Value* value = core::find_argument(*record, name);
  return value == nullptr ? std::nullopt : core::number_in(*record, *value);
}

/// Empty where it is not known.
Metric drift_of(const core::OpRecord& baseline, const core::OpRecord& candidate) {
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

/// How many earlier records of its side share the key of a record: what tells the calls of one
/// operator in one module apart. 4 bytes a record of a side, from the first one that is asked for.
class Occurrences {
 public:
  /// @param pairing  borrowed
  explicit Occurrences(const Pairing& pairing) : pairing_(pairing) {}

  /// Fills OpDivergence::occurrence: by the baseline's record, where there is one.
  void fill(OpDivergence& item) {
    const bool in_baseline = item.baseline_index.has_value();
    Ops& earlier = in_baseline ? baseline_ : candidate_;
    if (earlier.empty()) {
      Ops seen(pairing_.distinct_keys, 0);
      for (const std::uint32_t key : (in_baseline ? pairing_.baseline : pairing_.candidate).keys) {
        earlier.push_back(seen[key]++);
      }
    }
    item.occurrence = earlier[in_baseline ? *item.baseline_index : *item.candidate_index];
  }

 private:
  const Pairing& pairing_;
  // Operators are met in the order in which calls ended, which is not that of the records: counted
  // on the way, an outer one would count its side from the start.
  Ops baseline_;
  Ops candidate_;
};

/// A map is worth a look at so many bytes of a tensor, and at so many of all of them.
constexpr std::uint64_t kMostBytesOfMap = 64ULL << 20U;
constexpr std::uint64_t kMostBytesOfMaps = 1ULL << 30U;

using Numbers = std::unordered_map<std::string, std::uint32_t>;

/// The place of `key` in a table, where it is put if it is new.
template <typename Entry>
std::uint32_t intern(Numbers& numbers, std::vector<Entry>& table, std::string key, Entry entry) {
  const auto [found, is_new] =
      numbers.try_emplace(std::move(key), static_cast<std::uint32_t>(table.size()));
  if (is_new) table.push_back(std::move(entry));
  return found->second;
}

/// The greater of two, where NaN stands for not known.
void raise(double& greatest, const Metric& value) {
  if (value && !(greatest >= *value)) greatest = *value;
}

void add_counts(const core::OpRecord& record, std::uint64_t& nans, std::uint64_t& infs) {
  for (const core::TensorRecord& tensor : record.tensors) {
    const auto counts = tensor.non_finite();
    if (!core::is_output(tensor) || !counts) continue;
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

OpState state_of(const JudgedCall& call) {
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

/// @return whether it was compared
/// @param mismatched  where results of other shapes are counted
template <typename Counts>
bool count_outcome(OpOutcome outcome, std::uint64_t& mismatched, Counts& counts) noexcept {
  const std::array into{&counts.not_judged,
                        &counts.equal,
                        &counts.within_policy,
                        &counts.diverged,
                        &mismatched,
                        &counts.skipped,
                        &counts.not_judged};
  ++*into[static_cast<std::size_t>(outcome)];
  const bool is_compared = outcome >= OpOutcome::kEqual && outcome <= OpOutcome::kMismatched;
  if (is_compared) ++counts.compared;
  return is_compared;
}

/// What the verdict has to know of a pair.
void note_obstacles(const OpFindings& findings, VerdictInput& verdict) {
  if (verdict.first_unruled.empty()) verdict.first_unruled = findings.unruled;
  verdict.lacks_floor = verdict.lacks_floor || findings.lacks_floor;
  verdict.lacks_fp64 = verdict.lacks_fp64 || findings.lacks_fp64;
  verdict.never_read = verdict.never_read || findings.never_read;
}

const TensorComparison* first_uncomparable(const OpFindings& findings) {
  const auto found =
      std::ranges::find(findings.outputs, TensorOutcome::kUncomparable, &TensorComparison::outcome);
  return found == findings.outputs.end() ? nullptr : &*found;
}

/// Empty where one of them is damaged, which is noted.
std::optional<JudgedCall> read_call(const WalkContext& context, const OpPair& pair) {
  JudgedCall call;
  const core::DumpSource* reading = &context.baseline;
  const auto damage = damage_in([&] {
    call.baseline = context.baseline.op(pair.baseline);
    lift_producers(context.pairing.baseline, call.baseline);
    reading = &context.candidate;
    call.candidate = context.candidate.op(pair.candidate);
    lift_producers(context.pairing.candidate, call.candidate);
  });
  if (!damage) return call;
  context.judge.note_damage(reading, *damage);
  return std::nullopt;
}

/// As a report has it.
OpDivergence to_item(JudgedCall call) {
  OpFindings& findings = call.findings;
  OpDivergence item;
  if (call.why) static_cast<Attribution&>(item) = *std::move(call.why);
  item.baseline_index = call.baseline.index;
  item.candidate_index = call.candidate.index;
  item.baseline = std::move(call.baseline);
  item.candidate = std::move(call.candidate);
  item.severity = findings.severity;
  item.outputs = std::move(findings.outputs);
  item.inputs = std::move(findings.inputs);
  for (const auto* scalars : {&findings.arguments, &findings.results}) {
    for (const ScalarDifference& scalar : *scalars) {
      // Of named values both are the same.
      std::string text = scalar.text();
      const bool is_said = std::ranges::find(item.notes, text) != item.notes.end();
      if (!is_said) item.notes.push_back(std::move(text));
    }
  }
  return item;
}

using core::Argument;
using core::OpRecord;
using core::TensorRecord;

constexpr std::size_t kShownOpaque = 16;

const core::TensorSlot* slot_of(const core::Value& value) {
  return std::get_if<core::TensorSlot>(&value.data);
}

std::size_t place_of(const OpRecord& record, std::string_view path) {
  const auto found = std::ranges::find(record.arguments, path, &Argument::name);
  return static_cast<std::size_t>(found - record.arguments.begin());
}

bool has_path(const OpRecord& record, std::string_view path) {
  return place_of(record, path) < record.arguments.size();
}

/// Not of a baseline of a gate, which knows no more than the text of what is no tensor.
bool is_whole(const OpRecord& record) { return record.arguments.size() == record.results.size(); }

bool same_paths(const OpRecord& left, const OpRecord& right) {
  return std::ranges::equal(left.arguments, right.arguments, {}, &Argument::name, &Argument::name);
}

std::string made_by(const TensorRecord& tensor, const core::DumpSource& source) {
  if (tensor.producer >= 0 && static_cast<std::uint64_t>(tensor.producer) < source.op_count()) {
    return "made by " + op_text(source.op_head(static_cast<std::uint64_t>(tensor.producer)));
  }
  return tensor.name.empty() ? "made by no recorded operator" : tensor.name;
}

class ReturnedJudge {
 public:
  ReturnedJudge(const WalkContext& context, const Evidence& evidence)
      : context_(context), evidence_(evidence), found_(context.report.returned) {}

  void run() {
    const Pairing& pairing = context_.pairing;
    found_.baseline = pairing.baseline.returned.size();
    found_.candidate = pairing.candidate.returned.size();
    for (const OpPair& call : pairing.returned) {
      if (call.matched()) {
        take_pair(call);
      } else if (found_.baseline != 0 && found_.candidate != 0) {
        take_missing(call);
      }
    }
  }

 private:
  void take_missing(const OpPair& call) {
    ++found_.missing;
    if (found_.first) return;
    const bool here = call.baseline != kUnmatched;
    OpDivergence item;
    item.relation = Relation::kMissing;
    item.kind = DivergenceKind::kMissing;
    const std::uint32_t op = here ? call.baseline : call.candidate;
    (here ? item.baseline_index : item.candidate_index) = op;
    (here ? item.baseline : item.candidate) = evidence_.dump(here).op_head(op);
    const std::uint64_t step = shown_record(item).step;
    item.cause = {CauseKind::kMissing,
                  {Phrase("returned-alone",
                          {{"call", step + 1},
                           {"run", run_field(here)},
                           {"baseline", found_.baseline},
                           {"candidate", found_.candidate}})},
                  Phrase("do-give-calls")};
    found_.first = std::move(item);
  }

  void take_pair(const OpPair& pair) {
    std::optional<JudgedCall> read = read_call(context_, pair);
    if (!read) {
      ++found_.not_judged;
      return;
    }
    JudgedCall& call = *read;
    set_makers(call.baseline);
    judge(call);
    context_.observations.note_unwritten(call, evidence_);
    count(call);
    note_progress(call.findings);
    if (!call.findings.fails()) return;
    call.why = attribute_returned(call);
    const bool inherits = call.why->relation == Relation::kPropagated;
    if (found_.first && (inherits || found_.first->relation != Relation::kPropagated)) return;
    call.findings.arguments.clear();  // the results say the same
    found_.first = to_item(std::move(call));
  }

  /// By which rule each tensor was judged where it was made.
  void set_makers(const OpRecord& from) {
    std::map<std::string, RuleBook::Maker, std::less<>> makers;
    if (context_.judge.rules().has_rules()) {
      for (const TensorRecord& tensor : from.tensors) {
        if (!core::is_input(tensor) || tensor.producer < 0) continue;
        if (auto maker = maker_of(tensor)) makers.insert_or_assign(tensor.slot, std::move(*maker));
      }
    }
    context_.judge.rules().set_makers(std::move(makers));
  }

  [[nodiscard]] std::optional<RuleBook::Maker> maker_of(const TensorRecord& tensor) const {
    const auto producer = static_cast<std::uint64_t>(tensor.producer);
    if (producer >= context_.baseline.op_count()) return std::nullopt;
    OpRecord op = context_.baseline.op(producer);
    if (core::is_returned(op)) return std::nullopt;
    for (const bool by_content : {true, false}) {
      for (const TensorRecord& output : op.tensors) {
        if (!core::is_output(output)) continue;
        const bool same = by_content ? output.content_key() == tensor.content_key()
                                     : output.storage == tensor.storage;
        if (!same) continue;
        TensorRecord made = output;
        return RuleBook::Maker{std::move(op), std::move(made)};
      }
    }
    return std::nullopt;
  }

  void judge(JudgedCall& call) {
    const OpRecord& from = call.baseline;
    const OpRecord& to = call.candidate;
    if (same_paths(from, to) || !is_whole(from) || !is_whole(to)) {
      return judge_op(call, context_.options, context_.judge);
    }
    std::vector<std::size_t> here;
    std::vector<std::size_t> there;
    for (std::size_t place = 0; place < from.arguments.size(); ++place) {
      const std::string& path = from.arguments[place].name;
      if (!has_path(to, path)) continue;
      here.push_back(place);
      there.push_back(place_of(to, path));
    }
    JudgedCall in_common{with_values(from, here), with_values(to, there)};
    judge_op(in_common, context_.options, context_.judge);
    call.findings = std::move(in_common.findings);
    add_one_sided(from, to, true, call.findings);
    add_one_sided(to, from, false, call.findings);
    call.findings.outcome = OpOutcome::kMismatched;
    call.findings.severity = std::numeric_limits<double>::infinity();
  }

  /// What `record` holds under paths that `other` does not have.
  static void add_one_sided(const OpRecord& record,
                            const OpRecord& other,
                            bool in_baseline,
                            OpFindings& findings) {
    for (std::size_t i = 0; i < record.arguments.size(); ++i) {
      const std::string& path = record.arguments[i].name;
      if (has_path(other, path)) continue;
      const std::string text = short_text(record.results[i]);
      findings.results.push_back(
          {path, in_baseline ? text : "nothing", in_baseline ? "nothing" : text, true});
    }
  }

  void count(const JudgedCall& call) {
    if (!count_outcome(call.findings.outcome, found_.diverged, found_)) return;
    found_.tensors += call.findings.tally.tensors;
    for (const Argument& argument : call.baseline.arguments) {
      if (slot_of(argument.value) != nullptr) continue;
      if (!std::holds_alternative<core::Opaque>(argument.value.data)) {
        ++found_.others;
      } else if (found_.opaque.size() < kShownOpaque) {
        found_.opaque.push_back(argument.name);
      }
    }
  }

  void note_progress(const OpFindings& findings) {
    note_obstacles(findings, context_.verdict);
    const TensorComparison* output = first_uncomparable(findings);
    Phrases& first = context_.verdict.returned_not_judged;
    if (first.empty() && output != nullptr) {
      first.push_back(
          Phrase("slot-note", {{"slot", output->baseline.slot}, {"note", output->note}}));
    }
  }

  Attribution attribute_returned(JudgedCall& call) {
    OpFindings& findings = call.findings;
    for (TensorComparison& input : findings.inputs) {
      // The same tensor was measured as an output.
      for (const TensorComparison& output : findings.outputs) {
        if (output.baseline.slot == input.baseline.slot) input.metrics = output.metrics;
      }
    }
    Attribution why = attribute(call, evidence_);
    if (has_divergent_producer(why)) return why;
    if (std::optional<Cause> own = own_cause(call)) {
      name_told(evidence_, *own);
      const bool mismatched = findings.outcome == OpOutcome::kMismatched;
      why = {mismatched ? Relation::kMismatch : Relation::kOrigin,
             mismatched ? DivergenceKind::kMismatch : DivergenceKind::kOrigin,
             {},
             std::move(*own)};
    }
    return why;
  }

  [[nodiscard]] bool has_divergent_producer(const Attribution& why) const {
    return std::ranges::any_of(why.producers, [this](std::uint64_t op) {
      return op < evidence_.outcomes.size() && !is_equal(op);
    });
  }

  static Phrase value_note(const ScalarDifference& value) {
    return Phrase("value-note", {{"value", value.text()}});
  }

  [[nodiscard]] std::optional<Cause> own_cause(const JudgedCall& call) const {
    const OpRecord& from = call.baseline;
    const OpRecord& to = call.candidate;
    const OpFindings& findings = call.findings;
    if (!same_paths(from, to)) {
      const auto first = std::ranges::find_if(findings.results, [&](const auto& result) {
        return !has_path(from, result.name) || !has_path(to, result.name);
      });
      return Cause(CauseKind::kOtherStructure,
                   {first == findings.results.end() ? Phrase("returned-in-other-order")
                                                    : value_note(*first)});
    }
    if (auto other = other_value(findings)) return other;
    if (std::ranges::any_of(findings.inputs, is_one_sided) && !findings.results.empty()) {
      return Cause(CauseKind::kOtherValue, {value_note(findings.results.front())});
    }
    if (findings.inputs.empty() && !findings.results.empty()) {
      Phrase computed = value_note(findings.results.front());
      computed.key = "computed-between";
      return Cause(CauseKind::kOutsideOperators, {std::move(computed)});
    }
    return std::nullopt;
  }

  /// Under one path the two sides return what different operators made, or different inputs.
  [[nodiscard]] std::optional<Cause> other_value(const OpFindings& findings) const {
    for (const TensorComparison& input : findings.inputs) {
      const std::int64_t here = input.baseline.producer;
      const std::int64_t there = input.candidate.producer;
      const auto counterpart = counterpart_in(context_.pairing.baseline_of, there);
      const bool same = here >= 0 && there >= 0
                            ? counterpart && std::cmp_equal(*counterpart, here)
                            : here < 0 && there < 0 && input.baseline.name == input.candidate.name;
      if (same || is_one_sided(input)) continue;
      // What no operator of the trace made is looked at elsewhere.
      const bool both_equal = (here < 0 || is_equal(static_cast<std::uint64_t>(here))) &&
                              (there < 0 || (counterpart && is_equal(*counterpart)));
      return Cause(CauseKind::kOtherValue,
                   {Phrase("returned-by-others",
                           {{"slot", input.baseline.slot},
                            {"baseline", made_by(input.baseline, context_.baseline)},
                            {"candidate", made_by(input.candidate, context_.candidate)},
                            {"are_equal", both_equal}})},
                   Phrase("do-compare-returned", {{"are_equal", both_equal}}));
    }
    return std::nullopt;
  }

  /// Of an operator of the baseline, where it was made.
  [[nodiscard]] bool is_equal(std::uint64_t op) const {
    return evidence_.outcomes.at(op) == OpOutcome::kEqual;
  }

  static bool is_one_sided(const TensorComparison& tensor) {
    return tensor.baseline.slot.empty() || tensor.candidate.slot.empty();
  }

  WalkContext context_;
  const Evidence& evidence_;
  ReturnedValues& found_;
};

constexpr std::size_t kEvents = 256;
/// A side: enough that all threads end at about the same time.
constexpr std::uint64_t kBytes = std::uint64_t{128} << 20U;

bool will_be_measured(const core::TensorRecord& from, const core::TensorRecord& to) {
  return from.state == core::ContentState::kHashed && to.state == core::ContentState::kHashed &&
         from.digest != to.digest && same_form(from, to);
}

bool has_contents(const core::DumpSource& source) { return source.manifest().trace.contents != 0; }

/// Where operators differ, reads on in the order of the walk and has the outputs that differ
/// measured together: most are too small to keep more than one thread busy. It changes how long a
/// comparison takes, and nothing else. Everything is borrowed.
class Lookahead {
 public:
  Lookahead(const WalkContext& context, std::span<const OpPair> events)
      : context_(context), events_(events) {}

  /// To be called for every event before it is walked.
  void reach(std::size_t at) {
    if (!useful_ || !expected_ || at < end_) return;
    expected_ = false;
    end_ = at;
    std::vector<TensorJudge::Upcoming> upcoming;
    std::uint64_t bytes = 0;
    const std::size_t last = std::min(at + kEvents, events_.size());
    while (end_ < last && bytes < kBytes) bytes += add_outputs(events_[end_++], upcoming);
    context_.judge.measure_ahead(upcoming);
  }

  /// An operator differs, so that more of them probably will.
  void expect_more() noexcept { expected_ = true; }

 private:
  /// @return bytes a side
  std::uint64_t add_outputs(const OpPair& event, std::vector<TensorJudge::Upcoming>& into) {
    if (!event.matched()) return 0;
    core::OpRecord from;
    core::OpRecord to;
    const auto damage = damage_in([&] {
      from = context_.baseline.op(event.baseline);
      to = context_.candidate.op(event.candidate);
    });
    if (damage) return 0;  // the walk says so
    const auto left = tensors_of(from, core::TensorRole::kOutput);
    const auto right = tensors_of(to, core::TensorRole::kOutput);
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!will_be_measured(*left[i], *right[i])) continue;
      const RuleBook::Choice choice = context_.judge.rules().choose_for_output(from, *left[i]);
      if (!choice.judges() || choice.policy->flush_subnormals) continue;
      into.push_back({left[i]->content_key(), right[i]->content_key(), choice});
      bytes += core::content_size(into.back().baseline);
    }
    return bytes;
  }

  const WalkContext& context_;
  std::span<const OpPair> events_;
  /// The run in float64 is asked for one output after the other.
  bool useful_ = context_.options.fp64 == nullptr && context_.judge.same_algorithm() &&
                 has_contents(context_.baseline) && has_contents(context_.candidate);
  bool expected_ = false;
  std::size_t end_ = 0;  ///< of what was looked at
};

constexpr std::size_t kRememberedScalars = 10'000;
constexpr std::uint64_t kMostAlone = 100'000;

/// Goes through both traces once, in the order in which calls ended: judges every matched pair,
/// describes what has no counterpart, and looks for the cause of what fails.
class Walk {
 public:
  explicit Walk(const WalkContext& context) : context_(context) {}

  void run() {
    const core::LargeVector<OpPair> events = order_events(context_.pairing);
    Lookahead ahead(context_, events);
    Pace pace(context_.options, ComparePhase::kComparing, events.size());
    Hunk hunk;
    for (std::size_t at = 0; at < events.size(); ++at) {
      const OpPair& event = events[at];
      ahead.reach(at);
      pace.add(1);
      if (event.matched()) {
        if (!hunk.empty()) {
          hunk.rejoined = true;
          take_hunk(hunk);
          hunk = {};
        }
        if (take_pair(event)) ahead.expect_more();
        hunk.before = event;
      } else if (event.candidate == kUnmatched) {
        hunk.missing.push_back(event.baseline);
      } else {
        hunk.extra.push_back(event.candidate);
      }
    }
    if (!hunk.empty()) take_hunk(hunk);
    pace.finish();
    note_replaced();
    if (report_.first_divergence) explain_handed_out(*report_.first_divergence);
    ReturnedJudge(context_, evidence_).run();
    report_.draws = evidence_.rng.draws();
    report_.draws.of_host = moved_generators(context_.candidate.manifest());
    report_.steps = steps_.finish();
    taint_.finish(report_);
    report_.trail = trail_.finish();
    rank_firsts_.finish(report_);
  }

 private:
  /// The first divergence, for those that come after it: `op 3 aten::relu (m)`; empty while all is
  /// fine.
  [[nodiscard]] std::string first_text() const {
    return report_.first_divergence ? op_text(shown_record(*report_.first_divergence)) : "";
  }

  /// How many more divergences would be kept.
  [[nodiscard]] std::size_t room() const noexcept {
    const std::size_t most = context_.options.max_items;
    const std::size_t free = most - std::min(most, report_.divergences.size());
    // The first one comes on top; without a limit there is nothing above.
    return free + (!report_.first_divergence && free < SIZE_MAX ? 1U : 0U);
  }

  /// Of two releases, the hunk without what the other one does by other operators.
  Hunk without_replaced(const Hunk& hunk) {
    if (!two_releases_ || take_replaced(hunk)) return two_releases_ ? Hunk{} : hunk;
    Hunk rest;
    rest.before = hunk.before;
    rest.rejoined = hunk.rejoined;
    for (const Hunk& part : hunks_.split(hunk)) {
      if (take_replaced(part)) continue;
      rest.missing.insert(rest.missing.end(), part.missing.begin(), part.missing.end());
      rest.extra.insert(rest.extra.end(), part.extra.begin(), part.extra.end());
    }
    return rest;
  }

  bool take_replaced(const Hunk& hunk) {
    bool is_equal = false;
    const auto damage = damage_in(
        [&] { is_equal = gave_equal_results(context_.baseline, context_.candidate, hunk); });
    if (damage || !is_equal) return false;
    Coverage& coverage = report_.coverage;
    if (coverage.replaced_baseline + coverage.replaced_candidate == 0) {
      first_replaced_ = replaced_text(context_.baseline, context_.candidate, hunk);
    }
    coverage.replaced_baseline += hunk.missing.size();
    coverage.replaced_candidate += hunk.extra.size();
    coverage.missing_in_candidate -= hunk.missing.size();
    coverage.missing_in_baseline -= hunk.extra.size();
    for (const std::uint32_t op : hunk.missing) {
      modules_.see(context_.baseline.op_head(op), OpOutcome::kEqual);
    }
    return true;
  }

  void note_replaced() {
    const Coverage& coverage = report_.coverage;
    if (coverage.replaced_baseline + coverage.replaced_candidate == 0) return;
    report_.warnings.push_back(Phrase("replaced-alike",
                                      {{"baseline", coverage.replaced_baseline},
                                       {"candidate", coverage.replaced_candidate},
                                       {"first", first_replaced_}}));
  }

  void take_hunk(const Hunk& whole) {
    const Hunk hunk = without_replaced(whole);
    if (hunk.empty()) return;
    const std::optional<Decision> decision = decisions_.last();
    if (!report_.control_flow) report_.control_flow = hunks_.control_flow(hunk, decision);
    for (const std::uint32_t op : hunk.missing) take_alone(op, true);
    for (const std::uint32_t op : hunk.extra) take_alone(op, false);
    taint_.see_hunk(hunk);
    trail_.see_hunk(hunk);
    for (const Hunk& part : hunks_.split(hunk)) {
      report_.divergences_total += hunks_.items(part);
      hunks_.describe(part,
                      first_text(),
                      decision,
                      context_.options.observer.see ? SIZE_MAX : room(),
                      [this](OpDivergence item) { keep(std::move(item)); });
    }
  }

  void take_alone(std::uint32_t place, bool in_baseline) {
    const core::DumpSource& source = evidence_.dump(in_baseline);
    const core::OpRecord head = source.op_head(place);
    rank_firsts_.see(head, in_baseline);
    modules_.see(head, OpOutcome::kUnseen);
    // All of them are read only where some may draw: traces of another order have millions.
    const bool draws = source.manifest().trace.drawing_operators != 0;
    if (!draws && alone_ >= kMostAlone) return;
    ++alone_;
    try {
      const core::OpRecord record = source.op(place);
      if (draws) evidence_.rng.see_unmatched(record, in_baseline);
      context_.observations.see_alone(record, in_baseline);
      steps_.see_alone(record, in_baseline);
    } catch (const core::Error& error) {
      if (draws || error.kind() != core::ErrorKind::kDumpDamaged) throw;
    }
  }

  /// @return whether bits differ
  bool take_pair(const OpPair& event) {
    std::optional<JudgedCall> read = read_call(context_, event);
    if (!read) {
      take_damaged(event);
      return false;
    }
    JudgedCall& call = *read;
    if (call.baseline.parent >= 0) with_inside_.insert(call.baseline.parent);
    call.has_inside = with_inside_.contains(static_cast<std::int64_t>(event.baseline));
    evidence_.rng.see(call);
    evidence_.see_gradients(call);
    judge_op(call, context_.options, context_.judge);
    if (call.findings.fails()) unfilled_.settle(call);
    context_.observations.see(call);
    context_.observations.note_unwritten(call, evidence_);
    steps_.see(call);
    decisions_.see(call);
    const bool differs = call.findings.bits_differ;
    conclude(event.baseline, call.findings.outcome);
    modules_.see(call.baseline, call.findings.outcome);
    note_progress(call);
    remember(call);
    remember_named(call.baseline);
    if (call.findings.fails()) diverge(call);
    taint_.see(call);
    trail_.see(call);
    evidence_.baseline_writes.see(call.baseline, differs);
    evidence_.candidate_writes.see(call.candidate, differs);
    const OpObserver& observer = context_.options.observer;
    const bool fails = call.why.has_value();
    if (fails ? room() != 0 || observer.see : observer.see_fine != nullptr) {
      const OpState state = state_of(call);
      OpDivergence item = to_item(std::move(call));
      item.matched_by = context_.pairing.how[event.baseline];
      fails ? keep(std::move(item)) : tell_fine(std::move(item), state);
    }
    return differs;
  }

  void take_damaged(const OpPair& event) {
    Phrases& first = context_.verdict.first_not_judged;
    if (first.empty()) first.push_back(Phrase("record-damaged", {{"op", event.baseline}}));
    conclude(event.baseline, OpOutcome::kNotJudged);
    trail_.see_damaged(event);
    OpDivergence item;
    item.baseline_index = event.baseline;
    item.candidate_index = event.candidate;
    tell_fine(std::move(item), OpState::kNotJudged);
  }

  /// One that is not fine: for the observer, and for the report where that has room.
  void keep(OpDivergence item) {
    occurrences_.fill(item);
    // Steps are those of the baseline, from which a run that resumes counts on.
    if (!item.baseline_index) item.candidate.step += context_.pairing.steps_before;
    if (context_.options.observer.see) context_.options.observer.see(item);
    if (room() == 0) return;
    if (!report_.first_divergence) {
      put_line_of_backward(context_.baseline, item.baseline_index, item.baseline);
      put_line_of_backward(context_.candidate, item.candidate_index, item.candidate);
      report_.first_divergence = std::move(item);
    } else {
      report_.divergences.push_back(std::move(item));
    }
  }

  /// What autograd itself calls has no line: that of the backward pass is where it was called from.
  static void put_line_of_backward(const core::DumpSource& dump,
                                   std::optional<std::uint64_t> op,
                                   core::OpRecord& record) {
    if (!op || record.phase != core::Phase::kBackward) return;
    if (record.site && core::display_frame(*record.site) != nullptr) return;
    const auto called = last_site(dump, *op, core::kLossRecord);
    if (!called) return;
    core::CallSite site = record.site ? *record.site : core::CallSite();
    site.frames = called->frames;
    record.site = std::make_shared<const core::CallSite>(std::move(site));
  }

  /// One run alone takes the memory of a tensor, as `numpy()` does by an operator that computes
  /// nothing, and a later operator reads in it what no operator wrote: the program did.
  void explain_handed_out(OpDivergence& first) {
    if (first.relation != Relation::kMissing) return;
    if (!context_.baseline.manifest().is_of_program()) return;
    const bool in_baseline = first.baseline_index.has_value();
    const core::TensorRecord* memory = handed_out(shown_record(first));
    if (memory == nullptr) return;
    const auto reads_it = [&](const OpDivergence& op) {
      return op.cause.kind == CauseKind::kUnobservedWrite && op.relation == Relation::kOrigin &&
             std::ranges::any_of(op.inputs, [&](const TensorComparison& input) {
               return (in_baseline ? input.baseline : input.candidate).storage == memory->storage;
             });
    };
    const auto reader = std::ranges::find_if(report_.divergences, reads_it);
    if (reader == report_.divergences.end()) return;
    lead_with({CauseKind::kUnobservedWrite,
               {Phrase("handed-out",
                       {{"run", run_field(in_baseline)}, {"op", op_text(shown_record(*reader))}})},
               Phrase("do-look-at-written")},
              first.cause);
  }

  /// The input whose memory is all that an operator returns, null where it computes something.
  static const core::TensorRecord* handed_out(const core::OpRecord& record) {
    if (!record.op || !is_word_of("detach alias", core::base_name(record.op->name))) return nullptr;
    const auto inputs = tensors_of(record, core::TensorRole::kInput);
    return inputs.empty() || inputs.front()->storage < 0 ? nullptr : inputs.front();
  }

  void tell_fine(OpDivergence item, OpState state) {
    if (!context_.options.observer.see_fine) return;
    occurrences_.fill(item);
    context_.options.observer.see_fine(item, state);
  }

  void conclude(std::uint32_t baseline, OpOutcome outcome) {
    evidence_.outcomes.set(baseline, outcome);
    count_outcome(outcome, report_.coverage.mismatched, report_.coverage);
  }

  /// Of the operators that are counted so, the names of the first.
  void note_without_content(const OpRecord& record) {
    ++report_.coverage.without_content;
    constexpr std::size_t kMost = 64;
    auto& operators = report_.without_content;
    const auto known = std::ranges::find(operators, record.op->name, &OperatorCount::name);
    if (known != operators.end()) {
      ++known->calls;
    } else if (operators.size() < kMost) {
      operators.push_back({record.op->name, 1});
    }
  }

  void note_progress(const JudgedCall& call) {
    const OpFindings& findings = call.findings;
    Coverage& coverage = report_.coverage;
    coverage.outputs += findings.tally.outputs;
    coverage.tensors += findings.tally.tensors;
    coverage.metadata_only += findings.tally.metadata_only;
    coverage.ignored += findings.tally.ignored;
    coverage.not_judged_tensors += findings.tally.not_judged;
    coverage.sliced += static_cast<std::uint64_t>(std::ranges::count_if(
        findings.outputs, [](const TensorComparison& output) { return output.slice.has_value(); }));
    if (findings.without_content) note_without_content(call.baseline);
    coverage.elements += findings.elements;
    coverage.bytes += findings.bytes;
    report_.screened.tensors += findings.screened.tensors;
    report_.screened.elements += findings.screened.elements;
    report_.screened.beyond += findings.screened.beyond;
    note_obstacles(findings, context_.verdict);
    context_.verdict.values += findings.values;
    if (findings.bits_differ && !report_.first_bit_difference) {
      report_.first_bit_difference = call.baseline.index;
    }
    Phrases& first = context_.verdict.first_not_judged;
    if (findings.outcome != OpOutcome::kNotJudged || !first.empty()) return;
    Phrase& named = first.emplace_back("operator-note");
    named.with("operator", op_text(call.baseline));
    if (const TensorComparison* output = first_uncomparable(findings)) {
      named.with("slot", output->baseline.slot).with("note", output->note);
    }
  }

  /// What causes of later operators are seen by.
  void remember(const JudgedCall& call) {
    const OpFindings& findings = call.findings;
    if (findings.outcome == OpOutcome::kWithin) {
      double worst = 0;
      for (const TensorComparison& output : findings.outputs) {
        if (output.metrics) worst = std::max(worst, output.metrics->l2_rel.value_or(0));
      }
      if (worst > 0) evidence_.passed_error.set(call.baseline.index, worst);
    }
    for (const ScalarDifference& result : findings.results) {
      if (evidence_.scalar_results.size() >= kRememberedScalars) return;
      evidence_.scalar_results.try_emplace({result.baseline, result.candidate},
                                           call.baseline.index);
    }
  }

  void remember_named(const core::OpRecord& record) {
    const bool is_step = record.op->name == core::kStepRecord;
    if (!is_step && record.op->name != core::kOrderRecord) return;
    std::vector<std::uint64_t>& known = is_step ? evidence_.optimizer_steps : evidence_.orders;
    known.insert(std::ranges::upper_bound(known, record.index), record.index);
  }

  void remember_unmade(const JudgedCall& call) {
    for (const TensorComparison& input : call.findings.inputs) {
      if (evidence_.unmade.size() >= kRememberedScalars) return;
      if (input.baseline.producer >= 0 || input.candidate.producer >= 0) continue;
      const core::TensorRecord& here = input.baseline;
      evidence_.unmade.try_emplace({here.storage, here.digest, input.candidate.digest},
                                   call.baseline.index);
    }
  }

  void diverge(JudgedCall& call) {
    if (!report_.first_divergence) measure_inputs(call);
    const Attribution& why = call.why.emplace(attribute(call, evidence_));
    const bool has_producer = why.relation == Relation::kPropagated || !why.producers.empty();
    ++(has_producer ? report_.coverage.propagated : report_.coverage.origins);
    remember_root(call.baseline, why);
    remember_unmade(call);
    if (core::is_of_worker(call.baseline.lane)) {
      std::vector<std::uint64_t>& known = evidence_.of_workers;
      known.insert(std::ranges::upper_bound(known, call.baseline.index), call.baseline.index);
    }
    ++report_.divergences_total;
    rank_firsts_.see(call.baseline, true);
  }

  void remember_root(const core::OpRecord& from, const Attribution& why) {
    auto root = static_cast<std::uint32_t>(from.index);
    // What is equal in both runs may have handed a difference on, but made none.
    const auto parted = std::ranges::find_if(why.producers, [this](std::uint64_t op) {
      return evidence_.outcomes.at(op) != OpOutcome::kEqual;
    });
    if (parted != why.producers.end()) {
      const std::uint32_t known = evidence_.root_of.at(*parted);
      root = known != kUnmatched ? known : static_cast<std::uint32_t>(*parted);
    }
    evidence_.root_of.set(from.index, root);
    const auto parent = static_cast<std::uint64_t>(from.parent);
    if (from.parent >= 0 && evidence_.divergent_child.at(parent) == kUnmatched) {
      evidence_.divergent_child.set(parent, static_cast<std::uint32_t>(from.index));
    }
  }

  /// Of the first divergence a reader wants to know how far its inputs were apart.
  void measure_inputs(JudgedCall& call) {
    const core::OpRecord& from = call.baseline;
    for (TensorComparison& input : call.findings.inputs) {
      if (input.outcome == TensorOutcome::kMismatch || input.metrics) continue;
      input = context_.judge.judge({input.baseline, input.candidate, from, call.candidate},
                                   Depth::kValues,
                                   fmt::format("op {} input {}", from.index, input.baseline.slot),
                                   context_.judge.rules().choose_for_input(from, input.baseline));
    }
  }

  WalkContext context_;
  Report& report_ = context_.report;
  Evidence evidence_{context_.baseline, context_.candidate, context_.pairing, report_};
  UnfilledInside unfilled_{context_.baseline, context_.candidate, context_.pairing};
  HunkJudge hunks_{evidence_};
  Taint taint_{evidence_};
  DecisionWatch decisions_;
  StepWatch steps_{report_.coverage, context_.pairing.steps_before};
  ModuleCounter modules_{report_.modules};
  TrailKeeper trail_{context_.baseline, context_.candidate, context_.options.keep_trail};
  Occurrences occurrences_{context_.pairing};
  RankFirsts rank_firsts_{context_.pairing.baseline.ranks};
  bool two_releases_ =
      are_of_two_releases(context_.baseline.manifest(), context_.candidate.manifest());
  std::string first_replaced_;  ///< in words
  std::uint64_t alone_ = 0;     ///< operators without a counterpart that were read
  std::unordered_set<std::int64_t> with_inside_;  ///< of the baseline: with operators inside
};

}  // namespace

void walk(const WalkContext& context) { Walk(context).run(); }

}  // namespace repro_check::comparators
