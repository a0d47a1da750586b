// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/rank_reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>

#include "comparators/ranks/exchange_match.h"
#include "comparators/ranks/reductions.h"
#include "core/error.h"
#include "core/system/workers.h"
#include "core/text/text.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
namespace {

/// What ranks have under one name.
struct Shared {
  core::Digest digest;
  std::size_t ranks = 0;
  bool equal = true;
};
using SharedByName = std::map<std::string_view, Shared>;

void add(const ReplicaItems& items, SharedByName& known) {
  for (const ReplicaItem& item : items) {
    Shared& one = known.try_emplace(item.name, Shared{item.digest}).first->second;
    ++one.ranks;
    one.equal = one.equal && one.digest == item.digest;
  }
}

/// Of the name of a parameter, empty of those of the model itself.
std::string_view module_part(std::string_view name) { return name.substr(0, name.rfind('.') + 1); }

bool are_equal(std::span<const Held> held) {
  return std::ranges::all_of(
      held, [&](const Held& each) { return each.root.digest == held.front().root.digest; });
}

void note_manifest(const core::RunManifest& manifest, RankRead& read) {
  read.state.operators = manifest.trace.operator_calls();
  if (manifest.trace.partial) read.state.last_operator = manifest.trace.partial->last_operator;
  read.state.raised = core::raised_text(manifest);
  if (const auto* said = core::environment_fact(manifest, core::kRaisedText)) {
    read.state.said = *said;
  }
  read.run_id = manifest.run_id;
  read.attempt = manifest.attempt;
  read.only = manifest.trace.only;
  read.of_blocks = manifest.is_of_blocks();
  read.averages = core::environment_fact(manifest, core::kAverager) != nullptr;
  read.joined.clear();
  for (const core::EnvironmentFact& fact : manifest.environment) {
    const std::string_view name = fact.name;
    if (name.starts_with(core::kMesh)) {
      read.meshes.emplace(name.substr(core::kMesh.size()), fact.value);
    } else if (name.starts_with(core::kJoined)) {
      read.joined.push_back(core::parse_number<std::uint32_t>(fact.value).value_or(0));
    }
  }
  read.ranks = number_fact(manifest, core::kRanks).value_or(0);
  read.has_wrapper = core::environment_fact(manifest, core::kReplicaWrapper) != nullptr;
  if (read.replicas.declared) return;
  if (!read.has_wrapper || core::environment_fact(manifest, core::kReplicaGroups) != nullptr) {
    return;
  }
  read.replicas.declared = true;
  const std::string* ranks = core::environment_fact(manifest, core::kReplicas);
  if (ranks != nullptr) read.replicas.ranks = *ranks;
  for (const core::EnvironmentFact& fact : manifest.environment) {
    if (!fact.name.starts_with(core::kUnwrapped)) continue;
    read.replicas.unwrapped.insert(fact.name.substr(core::kUnwrapped.size()));
  }
}

class ReadingOfRanks {
 public:
  ReadingOfRanks(std::span<const RankRecording> recordings,
                 const OpenRank& open,
                 const DeclaredReplicas& declared)
      : open_(open) {
    for (const RankRecording& recording : recordings) {
      RankRead& read = reads_.ranks.emplace_back();
      read.state.recording = recording;
      if (declared) read.replicas = {true, declared(recording.rank)};
    }
  }

  RankReads read(std::uint32_t expected, RankRange asked) {
    read_all();
    reads_.apart = beginnings_of(reads_.ranks).apart;
    if (!reads_.apart.empty()) read_all();
    for (const RankRead& rank : reads_.ranks) expected = std::max(expected, rank.ranks);
    reads_.expected = expected;
    reads_.asked = asked;
    look_at_differences();
    look_at_exchanges();
    return std::move(reads_);
  }

 private:
  /// Of a rank that can be read; what went wrong is its state.
  template <typename Work>
  void with_dump(RankRead& rank, Work&& work) {
    if (!rank.state.is_read()) return;
    try {
      work(*open_(rank.state.recording.location));
    } catch (const core::Error& error) {
      if (core::exit_code_for(error.kind()) != core::ExitCode::kDumpUnusable) throw;
      rank.state.message = error.what();
      rank.roots = {};
    }
  }

  /// Ranks are read side by side.
  void read_all() {
    std::atomic<std::size_t> next = 0;
    const auto workers = std::min<std::size_t>(core::worker_count(0), reads_.ranks.size());
    core::run_workers(std::max(static_cast<unsigned>(workers), 1U), [&](unsigned) {
      for (std::size_t i = next++; i < reads_.ranks.size(); i = next++) {
        RankRead& rank = reads_.ranks[i];
        with_dump(rank, [&](const core::DumpSource& dump) {
          note_manifest(dump.manifest(), rank);
          rank.roots =
              read_rank(dump, rank.number(), {reads_.apart, rank.replicas, rank.meshes}, shared_);
          rank.state.steps = rank.roots.steps;
        });
      }
    });
  }

  /// Of ranks with one root one is opened.
  void look_at_differences() {
    const ReplicaMoments moments(reads_.ranks);
    for (std::size_t k = 0; k < kReplicaKinds; ++k) {
      const auto kind = static_cast<ReplicaKind>(k);
      const auto* first = moments.first_difference(kind);
      if (first == nullptr) continue;
      for (const auto& [rank, root] : first->held) {
        if (reads_.items.contains(root.digest)) continue;
        const auto dump = open_(rank->state.recording.location);
        reads_.items.emplace(root.digest, items_of(*dump, *rank, root, first->series));
      }
      if (kind == ReplicaKind::kGradients) look_at_reductions(first->held);
    }
  }

  void look_at_reductions(const std::vector<Held>& held) {
    SharedByName gradients;
    for (const Held& each : held) add(reads_.items.at(each.root.digest), gradients);
    std::set<std::string_view> names;
    for (const auto& [name, one] : gradients) {
      if (!one.equal) names.insert(name);
    }
    for (const auto& [rank, root] : held) {
      if (reads_.reductions.contains(root.digest)) continue;
      const auto dump = open_(rank->state.recording.location);
      reads_.reductions.emplace(root.digest, reduction_of(*dump, dump->op(root.op), names));
      reads_.unclipped.emplace(root.digest, unclipped_before(*dump, root.op));
    }
  }

  [[nodiscard]] ReplicaItems items_of(const core::DumpSource& dump,
                                      const RankRead& rank,
                                      const ReplicaRoot& root,
                                      const ReplicaSeries& series) const {
    if (series.kind == ReplicaKind::kActivations) return crossings_of(dump, root.op, series.part);
    core::OpRecord record = dump.op(root.op);
    if (series.kind == ReplicaKind::kParameters) ParameterRows(dump).put_into(record);
    const Replication replication{reads_.apart, rank.replicas, rank.meshes};
    ReplicaItems items = replication.items_of(record, series.kind, series.part);
    // They tell why a norm differs.
    std::ranges::move(local_norms_of(record), std::back_inserter(items));
    return items;
  }

  /// Norms of gradients as they were before the step clipped them.
  static ReplicaItems unclipped_before(const core::DumpSource& dump, std::uint64_t step) {
    ReplicaItems items;
    const std::uint32_t number = dump.op_head(step).step;
    for (std::uint64_t i = step; i-- > 0;) {
      const core::OpHead head = dump.op_head(i);
      if (head.op->name == core::kStepRecord || head.step != number) break;
      if (head.op->name != core::kClipRecord) continue;
      std::ranges::move(local_norms_of(dump.op(i)), std::back_inserter(items));
    }
    return items;
  }

  void look_at_exchanges() {
    for (const ToldCalls& wanted : calls_to_read(reads_.ranks)) {
      const auto rank = std::ranges::find(
          reads_.ranks, wanted.rank, [](const RankRead& read) { return read.number(); });
      const auto dump = open_(rank->state.recording.location);
      reads_.told.push_back(read_calls(*dump, wanted.rank, wanted.key, wanted.first));
    }
  }

  const OpenRank& open_;
  RankReads reads_;
  SharedColumns shared_;
};

}  // namespace

std::uint32_t end_of_common_steps(std::span<const RankRead> ranks) {
  std::uint32_t end = std::numeric_limits<std::uint32_t>::max();
  for (const RankRead& rank : ranks) {
    const auto [one, other] = std::ranges::mismatch(ranks.front().joined, rank.joined);
    if (one != ranks.front().joined.end()) end = std::min(end, *one);
    if (other != rank.joined.end()) end = std::min(end, *other);
  }
  return end;
}

ReplicaMoments::ReplicaMoments(std::span<const RankRead> ranks) : end_(end_of_common_steps(ranks)) {
  for (const RankRead& rank : ranks) {
    if (!rank.state.is_read()) continue;
    ++ranks_;
    std::set<std::string_view> parts;
    for (const auto& [series, column] : rank.roots.columns) {
      columns_[series].push_back({&rank, column.get()});
      if (parts.insert(series.part).second) ++holders_[series.part];
    }
  }
  for_each([&](const ReplicaMoment& moment) {
    auto& first = firsts_.at(static_cast<std::size_t>(moment.series.kind));
    if (!first && is_compared(moment) && !are_equal(moment.held)) first = moment;
  });
}

void ReplicaMoments::for_each(const std::function<void(const ReplicaMoment&)>& see) const {
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::vector<std::size_t>> places;  // of the next step, by series and rank
  for (const auto& [series, columns] : columns_) places.emplace_back(columns.size(), 0);
  ReplicaMoment moment;
  for (std::uint64_t step = 0, next = kNone; step != kNone; step = std::exchange(next, kNone)) {
    moment.step = static_cast<std::uint32_t>(step);
    auto place = places.begin();
    for (const auto& [series, columns] : columns_) {
      moment.held.clear();
      for (std::size_t i = 0; i < columns.size(); ++i) {
        const auto& [rank, column] = columns[i];
        std::size_t& at = (*place)[i];
        if (at < column->steps.size() && column->steps[at] == step) {
          moment.held.push_back({rank, column->root(at++)});
        }
        if (at < column->steps.size()) next = std::min<std::uint64_t>(next, column->steps[at]);
      }
      ++place;
      if (moment.held.empty()) continue;
      moment.series = series;
      see(moment);
    }
  }
}

std::size_t ReplicaMoments::holders_of(const std::string& part) const {
  return part.empty() ? ranks_ : holders_.at(part);
}

bool ReplicaMoments::is_compared(const ReplicaMoment& moment) const {
  const auto has_other_count = [&](const Held& each) {
    return each.root.items != moment.held.front().root.items;
  };
  // Of what crosses more on one rank, as for its log, it is not known which is which.
  const bool is_known = moment.series.kind != ReplicaKind::kActivations ||
                        std::ranges::none_of(moment.held, has_other_count);
  return moment.held.size() > 1 && moment.held.size() == holders_of(moment.series.part) &&
         moment.step < end_ && is_known;
}

const ReplicaMoment* ReplicaMoments::first_difference(ReplicaKind kind) const {
  const auto& first = firsts_.at(static_cast<std::size_t>(kind));
  return first ? &*first : nullptr;
}

std::vector<std::pair<core::Digest, std::size_t>> by_frequency(std::span<const Held> held) {
  std::map<core::Digest, std::size_t> by_digest;
  auto last = by_digest.end();  // most have what the one before has
  for (const Held& each : held) {
    if (last == by_digest.end() || last->first != each.root.digest) {
      last = by_digest.try_emplace(each.root.digest, 0).first;
    }
    ++last->second;
  }
  std::vector<std::pair<core::Digest, std::size_t>> sorted(by_digest.begin(), by_digest.end());
  std::ranges::stable_sort(
      sorted, std::greater<>(), [](const auto& entry) { return entry.second; });
  return sorted;
}

namespace {

/// What parameters begin with on each rank, and what becomes of their gradients, tells which are
/// replicas.
class BeginningsOfRanks {
 public:
  explicit BeginningsOfRanks(std::span<const RankRead> ranks) : ranks_(ranks) {
    for (const RankRead& rank : ranks) {
      if (!rank.roots.beginning.empty()) ++begun_;
      add(rank.roots.beginning, known_);
      add(rank.roots.gradients, gradients_);
    }
  }

  [[nodiscard]] std::size_t names() const { return known_.size(); }

  /// By a wrapper all parameters that it holds are replicas, else those that begin equal, and those
  /// whose gradients are reduced: nobody adds up gradients of weights that are meant to differ.
  [[nodiscard]] SetAside apart() const {
    const auto is_everywhere = [](const RankRead& rank) { return rank.replicas.everywhere(); };
    if (std::ranges::any_of(ranks_, is_everywhere)) return outside_of_wrappers();
    SetAside apart = begun_apart();
    add_biases(apart);
    // Wrappers of parts of the ranks, and no weight that is split over them: each part has a model
    // of its own, whatever it begins with.
    const auto has_part = [](const RankRead& rank) { return !rank.replicas.ranks.empty(); };
    if (!apart.empty() || !std::ranges::all_of(ranks_, has_part)) return apart;
    for (const auto& [name, one] : known_) {
      if (!is_reduced(name)) apart.emplace(name);
    }
    return apart;
  }

 private:
  [[nodiscard]] SetAside outside_of_wrappers() const {
    SetAside apart;
    for (const RankRead& rank : ranks_) {
      for (const std::string& name : rank.replicas.unwrapped) {
        if (known_.contains(name)) apart.insert(name);
      }
    }
    return apart;
  }

  [[nodiscard]] bool is_reduced(std::string_view name) const {
    const auto gradient = gradients_.find(name);
    // A part is on some of the ranks.
    const std::size_t holders = part_of(name).empty() ? begun_ : known_.at(name).ranks;
    return gradient != gradients_.end() && gradient->second.equal &&
           gradient->second.ranks == holders && holders > 1;
  }

  [[nodiscard]] SetAside begun_apart() const {
    std::set<std::string_view> exchanged;  // each rank's own, however they begin
    for (const RankRead& rank : ranks_) {
      exchanged.insert(rank.roots.exchanged.begin(), rank.roots.exchanged.end());
    }
    // Stages of a pipeline that begin alike are none the less each rank's own.
    const bool are_stages =
        std::ranges::any_of(ranks_, [](const RankRead& rank) { return rank.roots.passes_on; });
    SetAside apart;
    for (const auto& [name, one] : known_) {
      const bool everywhere = !part_of(name).empty() || one.ranks == begun_;
      const bool begins_alike = one.equal && !are_stages && !exchanged.contains(name);
      if (!everywhere || !(begins_alike || is_reduced(name))) apart.emplace(name);
    }
    return apart;
  }

  /// That it begins as zeros on all ranks says nothing of the bias of a weight that is split.
  void add_biases(SetAside& apart) const {
    std::set<std::string, std::less<>> split;  // modules that have a parameter which is none
    for (const std::string& name : apart) split.emplace(module_part(name));
    for (const auto& [name, one] : known_) {
      const std::string_view module = module_part(name);
      const bool is_bias = name.substr(module.size()).find("bias") != std::string_view::npos &&
                           part_of(name).empty();
      if (is_bias && split.contains(module) && !is_reduced(name)) apart.emplace(name);
    }
  }

  std::span<const RankRead> ranks_;
  SharedByName known_;
  SharedByName gradients_;
  std::size_t begun_ = 0;  ///< ranks that told what their parameters begin with
};

}  // namespace

Beginnings beginnings_of(std::span<const RankRead> ranks) {
  const BeginningsOfRanks beginnings(ranks);
  return {beginnings.names(), beginnings.apart()};
}

RankReads read_ranks(std::span<const RankRecording> recordings,
                     const OpenRank& open,
                     std::uint32_t expected,
                     RankRange asked,
                     const DeclaredReplicas& declared) {
  return ReadingOfRanks(recordings, open, declared).read(expected, asked);
}

RankReads joined(std::vector<RankReads> parts) {
  RankReads whole = std::move(parts.front());
  std::vector<SetAside> left_out{whole.apart};
  for (RankReads& part : std::span(parts).subspan(1)) {
    whole.expected = std::max(whole.expected, part.expected);
    whole.asked = {std::min(whole.asked.first, part.asked.first),
                   std::max(whole.asked.end, part.asked.end)};
    std::ranges::move(part.ranks, std::back_inserter(whole.ranks));
    whole.items.merge(part.items);
    whole.reductions.merge(part.reductions);
    whole.unclipped.merge(part.unclipped);
    std::ranges::move(part.told, std::back_inserter(whole.told));
    left_out.push_back(std::move(part.apart));
  }
  std::ranges::sort(whole.ranks, {}, [](const RankRead& rank) { return rank.number(); });
  whole.apart = beginnings_of(whole.ranks).apart;
  for (const SetAside& each : left_out) {
    if (each == whole.apart) continue;
    SetAside other;
    std::ranges::set_symmetric_difference(each, whole.apart, std::inserter(other, other.end()));
    throw core::not_comparable(
        fmt::format("{} and {} more parameters are replicas in some parts of the ranks, and not "
                    "in others",
                    *other.begin(),
                    other.size() - 1),
        "no wrapper says which are replicas, and what a part of the ranks begins with does not "
        "tell: compare them in one call of `repro-check ranks`, without --ranks");
  }
  return whole;
}

namespace {

/// Moments come by step and, of a step, by kind: what is noted first of a step stays.
void note(std::vector<PartingRun>& runs, const ReplicaMoment& moment, std::uint64_t op) {
  if (!runs.empty()) {
    PartingRun& last = runs.back();
    const std::uint32_t end = last.first + last.steps;
    if (moment.step < end) return;
    if (moment.step == end && moment.series.kind == last.kind && op >= last.op) {
      if (last.steps == 1) last.stride = op - last.op;
      if (op == last.op + last.stride * last.steps) {
        ++last.steps;
        return;
      }
    }
  }
  runs.push_back({moment.step, 1, moment.series.kind, op, 0});
}

}  // namespace

std::vector<RankPartings> partings_of(const RankReads& reads) {
  const ReplicaMoments moments(reads.ranks);
  std::map<std::uint32_t, std::vector<PartingRun>> runs;
  moments.for_each([&](const ReplicaMoment& moment) {
    if (!moments.is_compared(moment)) return;
    const auto roots = by_frequency(moment.held);
    if (roots.size() == 1) return;
    const bool has_majority = roots[0].second > roots[1].second;
    for (const auto& [rank, root] : moment.held) {
      if (has_majority && root.digest == roots[0].first) continue;
      note(runs[rank->number()], moment, root.op);
    }
  });
  std::vector<RankPartings> partings;
  partings.reserve(runs.size());
  for (auto& [rank, list] : runs) partings.push_back({rank, std::move(list)});
  return partings;
}

}  // namespace repro_check::comparators
