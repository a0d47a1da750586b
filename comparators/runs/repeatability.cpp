// SPDX-License-Identifier: Apache-2.0
#include "comparators/runs/repeatability.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "comparators/align/pairing.h"
#include "comparators/judge/tensor_judge.h"
#include "comparators/report/compare_options.h"
#include "core/system/memory.h"

namespace repro_check::comparators {
namespace {

/// What the alignments of all parted streams may hold together, in bytes.
constexpr std::uint64_t kAlignmentBytes = std::uint64_t{64} << 20U;

bool is_same_place(const core::OpRecord& left, const core::OpRecord& right) {
  return left.op && right.op && left.op->name == right.op->name &&
         left.op->overload == right.op->overload && left.phase == right.phase &&
         left.step == right.step && left.rank == right.rank && left.lane == right.lane &&
         left.depth == right.depth && module_of(left) == module_of(right);
}

/// Reads the records of one run that belong to those of the first, in order.
class Follower {
 public:
  /// @param memory  bytes that an alignment may hold
  Follower(const core::DumpSource& first, const core::DumpSource& run, std::uint64_t memory)
      : first_(first), run_(run), memory_(memory) {}

  /// @param like  the first run's record at `index`
  /// @return empty where this run has no such record
  std::optional<core::OpRecord> record(std::uint64_t index, const core::OpRecord& like) {
    std::optional<core::OpRecord> found;
    if (!trouble_.empty()) return found;
    if (const auto damage = damage_in([&] { found = find(index, like); })) trouble_ = *damage;
    return found;
  }

  [[nodiscard]] const core::DumpSource& source() const noexcept { return run_; }
  /// Why it gives no more records; empty while it does.
  [[nodiscard]] const std::string& trouble() const noexcept { return trouble_; }

 private:
  std::optional<core::OpRecord> find(std::uint64_t index, const core::OpRecord& like) {
    if (aligned_.empty()) {
      if (index < run_.op_count()) {
        core::OpRecord found = run_.op(index);
        if (is_same_place(like, found)) return found;
      }
      // The streams are not the same from here on.
      if (first_.op_count() * sizeof(std::uint32_t) > memory_) {
        trouble_ = fmt::format(
            "{} parts from the first run at op {}, and there are too many operators to align",
            run_.location(),
            index);
        return std::nullopt;
      }
      aligned_ = pair_records(first_, run_).candidate_of;
    }
    if (aligned_[index] == kUnmatched) return std::nullopt;
    return run_.op(aligned_[index]);
  }

  const core::DumpSource& first_;
  const core::DumpSource& run_;
  std::uint64_t memory_;
  Ops aligned_;  ///< per op index of the first run; empty = by position
  std::string trouble_;
};

/// Runs of one group that gave one result, and the first of them.
struct Result {
  core::Digest print;
  std::uint64_t runs = 0;
  const core::DumpSource* source = nullptr;
  std::uint64_t index = 0;
};

struct Found {
  FlakyOp op;
  std::vector<Result> results;  ///< in order of the runs
};

bool is_less_repeatable(const Found& left, const Found& right) {
  if (left.op.disagreement != right.op.disagreement) {
    return left.op.disagreement > right.op.disagreement;
  }
  return left.op.index < right.op.index;
}

/// The results of the runs with equal inputs, of the largest such group; of several the one that
/// comes first.
class Groups {
 public:
  void add(const OpPrints& prints, const core::DumpSource& source, std::uint64_t index) {
    auto group = std::ranges::find(groups_, prints.inputs, &Group::inputs);
    if (group == groups_.end()) {
      groups_.push_back({prints.inputs, 0, {}});
      group = groups_.end() - 1;
    }
    ++group->runs;
    auto result = std::ranges::find(group->results, prints.results, &Result::print);
    if (result == group->results.end()) {
      group->results.push_back({prints.results, 0, &source, index});
      result = group->results.end() - 1;
    }
    ++result->runs;
  }

  [[nodiscard]] std::vector<Result> take_largest() {
    const auto largest = std::ranges::max_element(groups_, {}, &Group::runs);
    if (largest == groups_.end() || largest->runs < 2) return {};
    return std::move(largest->results);
  }

 private:
  struct Group {
    core::Digest inputs;
    std::uint64_t runs = 0;
    std::vector<Result> results;
  };
  std::vector<Group> groups_;
};

FlakyOp describe(const core::OpRecord& record, const std::vector<Result>& results) {
  FlakyOp op;
  op.index = record.index;
  op.record = core::OpRecord{static_cast<const core::OpHead&>(record)};
  for (const Result& result : results) op.counts.push_back(result.runs);
  std::ranges::sort(op.counts, std::greater<>());
  op.disagreement = disagreement(op.counts);
  return op;
}

/// Worst distance of two outputs of one kind; NaN or an infinity on one side alone is the worst.
void widen(const TensorMetrics& metrics, FlakyOp& op) {
  const bool is_apart = metrics.apart() != 0;
  const double far = std::numeric_limits<double>::infinity();
  if (is_apart || metrics.l2_rel) {
    op.l2_rel = std::max(op.l2_rel.value_or(0), is_apart ? far : *metrics.l2_rel);
  }
  if (metrics.ulp_max) op.ulp_max = std::max(op.ulp_max.value_or(0), *metrics.ulp_max);
}

void measure_result(const Result& first, const Result& other, FlakyOp& op) {
  const CompareOptions options;
  TensorJudge judge(*first.source, *other.source, options);
  const core::OpRecord left = first.source->op(first.index);
  const core::OpRecord right = other.source->op(other.index);
  const std::size_t count = std::min(left.tensors.size(), right.tensors.size());
  for (std::size_t i = 0; i < count; ++i) {
    const core::TensorRecord& from = left.tensors[i];
    const core::TensorRecord& to = right.tensors[i];
    const bool is_alike = from.dtype == to.dtype && from.shape == to.shape &&
                          from.state == core::ContentState::kHashed && to.state == from.state;
    if (!core::is_output(from) || !is_alike || from.digest == to.digest) continue;
    const auto measured = judge.measure_pair({from.content_key(), to.content_key()},
                                             fmt::format("op {} output {}", op.index, from.slot),
                                             judge.rules().fallback());
    // A slice would say less than the worst.
    if (measured && !measured->slice) widen(measured->metrics, op);
  }
}

class Assessment {
 public:
  Assessment(std::span<const core::DumpSource* const> runs, std::size_t max_items)
      : first_(*runs.front()), max_items_(max_items) {
    const std::uint64_t memory = kAlignmentBytes / std::min(runs.size(), kMostAssessed);
    for (const core::DumpSource* run : runs) {
      if (followers_.size() == kMostAssessed) {
        result_.notes.push_back(fmt::format(
            "operators of the first {} of {} runs were assessed", kMostAssessed, runs.size()));
        break;
      }
      if (run->manifest().trace.digest_algorithm != first_.manifest().trace.digest_algorithm) {
        result_.notes.push_back(run->location() + " has digests of another rule: left out");
      } else {
        followers_.emplace_back(first_, *run, memory);
      }
    }
    result_.runs = followers_.size();
  }

  OpRepeatability run() {
    for (std::uint64_t index = 0; index < first_.op_count(); ++index) {
      if (!assess(index)) break;
    }
    for (const Follower& follower : followers_) {
      if (!follower.trouble().empty()) result_.notes.push_back(follower.trouble());
    }
    result_.not_assessed = first_.op_count() - returned_ - result_.assessed;
    prune();
    for (Found& found : found_) finish(found);
    return std::move(result_);
  }

 private:
  /// False when the first run itself cannot be read on.
  bool assess(std::uint64_t index) {
    Groups groups;
    core::OpRecord like;
    for (Follower& follower : followers_) {
      const bool is_first = &follower == followers_.data();
      std::optional<core::OpRecord> record =
          is_first ? read_first(index) : follower.record(index, like);
      if (is_first && !record) return false;
      // What a call returned is no operator: it only passes on what operators gave.
      if (is_first && core::is_returned(*record)) {
        ++returned_;
        return true;
      }
      if (!record) continue;
      if (const auto prints = op_prints(*record)) {
        groups.add(*prints, follower.source(), record->index);
      }
      if (is_first) like = std::move(*record);
    }
    std::vector<Result> results = groups.take_largest();
    if (results.empty()) return true;
    ++result_.assessed;
    if (results.size() == 1) return true;
    ++result_.flaky;
    found_.push_back({describe(like, results), std::move(results)});
    if (found_.size() / 2 > max_items_) prune();
    return true;
  }

  std::optional<core::OpRecord> read_first(std::uint64_t index) {
    std::optional<core::OpRecord> record;
    if (const auto damage = damage_in([&] { record = first_.op(index); })) {
      result_.notes.push_back(*damage);
    }
    return record;
  }

  void prune() {
    std::ranges::sort(found_, is_less_repeatable);
    if (found_.size() > max_items_) found_.resize(max_items_);
  }

  void finish(Found& found) {
    const std::uint64_t trials = found.op.runs() - 1;
    const std::uint64_t hits = found.op.runs() - found.results.front().runs;
    found.op.differs =
        clopper_pearson(hits, trials, kAlpha / static_cast<double>(result_.assessed));
    if (result_.ops.size() < kMostMeasured) measure(found);
    result_.ops.push_back(std::move(found.op));
  }

  void measure(Found& found) {
    for (std::size_t i = 1; i < found.results.size(); ++i) {
      const auto damage =
          damage_in([&] { measure_result(found.results.front(), found.results[i], found.op); });
      if (damage) result_.notes.push_back(*damage);
    }
  }

  const core::DumpSource& first_;
  std::size_t max_items_;
  std::vector<Follower> followers_;
  std::vector<Found> found_;
  std::uint64_t returned_ = 0;  ///< records that stand for no operator
  OpRepeatability result_;
};

}  // namespace

OpRepeatability assess_ops(std::span<const core::DumpSource* const> runs, std::size_t max_items) {
  if (runs.size() < 2) return {};
  return Assessment(runs, max_items).run();
}

}  // namespace repro_check::comparators
