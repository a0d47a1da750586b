// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "comparators/ranks/rank_roots.h"
#include "core/digest/digest.h"
#include "core/system/workers.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
namespace {

/// What ranks have under one name when they begin.
struct Beginning {
  core::Digest digest;
  std::size_t ranks = 0;
  bool equal = true;
};

/// What one rank says when it is read.
struct RankRead {
  RankRoots roots;
  std::uint32_t ranks = 0;  ///< how many there are, as it knows
  bool wrapped = false;     ///< a wrapper makes replicas
  bool grouped = false;     ///< it made groups of some of the ranks
};

/// What a rank has at some moment.
struct Held {
  RankState* state = nullptr;
  const ReplicaRoot* root = nullptr;
};

/// Digests that any rank has, with how many have it; the greatest first.
std::vector<std::pair<core::Digest, std::size_t>> by_frequency(const std::vector<Held>& held) {
  std::map<core::Digest, std::size_t> by_digest;
  for (const Held& each : held) ++by_digest[each.root->digest];
  std::vector<std::pair<core::Digest, std::size_t>> sorted(by_digest.begin(), by_digest.end());
  std::ranges::stable_sort(
      sorted, std::greater<>(), [](const auto& entry) { return entry.second; });
  return sorted;
}

class ReplicaComparison {
 public:
  ReplicaComparison(std::span<const RankRecording> recordings,
                    const OpenRank& open,
                    std::uint32_t expected)
      : open_(open) {
    report_.expected = expected;
    for (const RankRecording& recording : recordings) {
      report_.ranks.push_back({recording, 0, 0, {}, {}, {}});
    }
  }

  RanksReport run() {
    read_all();
    if (!wrapped_) {
      set_aside_others();
      if (!apart_.empty()) read_all();
    }
    report_.replicated = beginnings_.size() - apart_.size();
    find_absent();
    gather();
    for (std::size_t k = 0; k < kReplicaKinds; ++k) judge(static_cast<ReplicaKind>(k));
    find_other_collective();
    find_equal_inputs();
    find_equal_draws();
    find_frozen();
    return std::move(report_);
  }

 private:
  /// Of a rank that can be read; what went wrong is its state.
  template <typename Work>
  void with_dump(RankState& state, Work&& work) {
    if (state.failure) return;
    try {
      work(*open_(state.recording.location));
    } catch (const core::Error& error) {
      if (core::exit_code_for(error.kind()) != core::ExitCode::kDumpUnusable) throw;
      state.failure = error.kind();
      state.message = error.what();
    }
  }

  /// Ranks are read side by side, and then put together in their order.
  void read_all() {
    std::vector<RankRead> read(report_.ranks.size());
    std::atomic<std::size_t> next = 0;
    const auto workers = std::min<std::size_t>(core::worker_count(0), read.size());
    core::run_workers(std::max(static_cast<unsigned>(workers), 1U), [&](unsigned) {
      for (std::size_t i = next++; i < read.size(); i = next++) {
        with_dump(report_.ranks[i], [&](const core::DumpSource& dump) {
          note_manifest(dump.manifest(), report_.ranks[i], read[i]);
          read[i].roots = read_rank(dump, apart_);
        });
      }
    });
    roots_.clear();
    beginnings_.clear();
    begun_ = 0;
    report_.unread = 0;
    for (std::size_t i = 0; i < read.size(); ++i) {
      if (!report_.ranks[i].failure) add(report_.ranks[i], std::move(read[i]));
    }
  }

  void add(RankState& state, RankRead read) {
    note_beginning(read.roots.beginning);
    report_.expected = std::max(report_.expected, read.ranks);
    wrapped_ = wrapped_ || read.wrapped;
    grouped_ = grouped_ || read.grouped;
    state.steps = read.roots.steps;
    report_.unread += read.roots.unread;
    report_.steps = roots_.empty() ? state.steps : std::min(report_.steps, state.steps);
    roots_.emplace(&state, std::move(read.roots));
  }

  void note_beginning(const ReplicaItems& items) {
    if (!items.empty()) ++begun_;
    for (const auto& [name, digest] : items) {
      Beginning& known = beginnings_.try_emplace(name, Beginning{digest}).first->second;
      ++known.ranks;
      known.equal = known.equal && known.digest == digest;
    }
  }

  /// By a wrapper all parameters are replicas, else those that begin equal.
  void set_aside_others() {
    for (const auto& [name, known] : beginnings_) {
      const bool sharded = !part_of(name).empty();
      if (!known.equal || (!sharded && known.ranks != begun_)) apart_.insert(name);
    }
    report_.set_aside.assign(apart_.begin(), apart_.end());
  }

  static void note_manifest(const core::RunManifest& manifest, RankState& state, RankRead& read) {
    state.operators = manifest.trace.operator_calls();
    if (manifest.trace.partial) state.last_operator = manifest.trace.partial->last_operator;
    read.ranks = number_fact(manifest, core::kRanks).value_or(0);
    read.wrapped = core::environment_fact(manifest, core::kReplicaWrapper) != nullptr;
    read.grouped = core::environment_fact(manifest, core::kRankGroups) != nullptr;
  }

  void find_absent() {
    std::set<std::uint32_t> present;
    for (const RankState& state : report_.ranks) present.insert(state.recording.rank);
    for (std::uint32_t rank = 0; rank < report_.expected; ++rank) {
      if (!present.contains(rank)) report_.absent.push_back(rank);
    }
  }

  void gather() {
    for (auto& [state, found] : roots_) {
      for (const auto& [key, root] : found.roots) {
        moments_[key].push_back({state, &root});
        holders_[key.part].insert(state);
      }
    }
  }

  /// How many ranks must have something of a part alike.
  std::size_t holders_of(const std::string& part) const {
    return part.empty() ? roots_.size() : holders_.at(part).size();
  }

  /// At moments that every holder has: a rank that stopped is said to have stopped.
  void judge(ReplicaKind kind) {
    if (roots_.size() < 2) return;
    ReplicaTally& tally = report_.kinds.at(static_cast<std::size_t>(kind));
    for (const auto& [key, held] : moments_) {
      if (key.kind != kind) continue;
      const ReplicaRoot& first = *held.front().root;
      if (holders_of(key.part) == 1) report_.alone += first.items;
      if (held.size() < 2 || held.size() != holders_of(key.part)) continue;
      ++tally.moments;
      tally.items += first.items;
      const bool equal = std::ranges::all_of(
          held, [&](const Held& each) { return each.root->digest == first.digest; });
      if (!equal && !tally.first) tally.first = descend(key, held);
    }
  }

  ReplicaDifference descend(const ReplicaMoment& key, const std::vector<Held>& held) {
    const auto roots = by_frequency(held);
    ReplicaDifference difference;
    difference.kind = key.kind;
    difference.step = key.step;
    const bool has_majority = roots.size() > 1 && roots[0].second > roots[1].second;
    for (const auto& [state, root] : held) {
      const bool is_odd = root->digest != roots.front().first;
      if (has_majority && is_odd) difference.odd.push_back(state->recording.rank);
      if (is_odd || difference.op == 0) {
        difference.rank = state->recording.rank;
        difference.op = root->op;
      }
    }
    std::map<std::string, std::set<core::Digest>> by_name;
    std::map<std::string, std::size_t> having;
    for (const auto& [state, root] : held) {
      with_dump(*state, [&, op = root->op](const core::DumpSource& dump) {
        std::uint64_t ignored = 0;
        for (const ReplicaItem& item : items_of(dump.op(op), key.kind, apart_, ignored)) {
          if (part_of(item.name) != key.part) continue;
          by_name[item.name].insert(item.digest);
          ++having[item.name];
        }
      });
    }
    difference.of = by_name.size();
    for (const auto& [name, digests] : by_name) {
      if (digests.size() > 1 || having[name] != held.size()) difference.names.push_back(name);
    }
    return difference;
  }

  /// Where there is but one group, all ranks make the same collectives in the same order.
  void find_other_collective() {
    if (roots_.size() < 2 || grouped_) return;
    std::uint32_t last = 0;
    report_.collectives = roots_.begin()->second.collectives.count();
    for (const auto& [state, found] : roots_) {
      last = std::max(last, found.collectives.last_step());
      report_.collectives = std::min(report_.collectives, found.collectives.count());
    }
    for (std::uint32_t step = 0; step <= last; ++step) {
      const core::Digest first = roots_.begin()->second.collectives.at(step);
      const bool equal = std::ranges::all_of(
          roots_, [&](const auto& entry) { return entry.second.collectives.at(step) == first; });
      if (!equal) return note_other_collective(step);
    }
  }

  void note_other_collective(std::uint32_t step) {
    std::map<RankState*, std::vector<CollectiveCall>> calls;
    std::size_t most = 0;
    for (const auto& [state, found] : roots_) {
      with_dump(*state, [&](const core::DumpSource& dump) {
        calls[state] = collectives_of(dump, step);
        most = std::max(most, calls[state].size());
      });
    }
    for (std::size_t i = 0; i < most; ++i) {
      const auto there =
          std::ranges::find_if(calls, [&](const auto& entry) { return entry.second.size() > i; });
      const CollectiveCall& made = there->second[i];
      const std::string where = fmt::format("collective {} of step {}", i + 1, step);
      for (const auto& [state, own] : calls) {
        if (own.size() > i && own[i].meets(made)) continue;
        report_.findings.push_back(own.size() > i
                                       ? other_made(where, *there->first, made, *state, own[i])
                                       : never_came(where, *there->first, made, *state));
        return;
      }
    }
  }

  static std::string call_text(const CollectiveCall& call) {
    return call.op + call.sizes + call.place;
  }

  static RankFinding other_made(const std::string& where,
                                const RankState& one,
                                const CollectiveCall& made,
                                const RankState& other,
                                const CollectiveCall& instead) {
    return {RankFinding::Weight::kProof,
            fmt::format("ranks make other collectives: {} is {} on rank {}, and {} on rank {}",
                        where,
                        call_text(made),
                        one.recording.rank,
                        call_text(instead),
                        other.recording.rank),
            "let every rank make the same collectives in the same order, with the same sizes and "
            "dtype"};
  }

  static RankFinding never_came(const std::string& where,
                                const RankState& one,
                                const CollectiveCall& made,
                                const RankState& absent) {
    return {
        RankFinding::Weight::kProof,
        fmt::format("rank {} never came to {}, which rank {} entered as {}; {}",
                    absent.recording.rank,
                    where,
                    one.recording.rank,
                    call_text(made),
                    absent.last_operator.empty()
                        ? std::string("it came to its end without")
                        : "the last operator there was " + absent.last_operator),
        "look at what that rank did instead: a condition on the rank, fewer batches, an exception, "
        "or a process that was killed"};
  }

  /// Batches must differ: two ranks that read the same compute the same.
  void find_equal_inputs() {
    if (roots_.size() < 2) return;
    std::map<std::map<std::uint32_t, core::Digest>, std::vector<std::uint32_t>> readers;
    for (const auto& [state, found] : roots_) {
      if (!found.inputs.empty()) readers[found.inputs].push_back(state->recording.rank);
    }
    for (const auto& [inputs, ranks] : readers) {
      if (ranks.size() < 2) continue;
      report_.findings.push_back(
          {wrapped_ ? RankFinding::Weight::kProof : RankFinding::Weight::kSuspicion,
           fmt::format("ranks {} read the same data: every batch of {} steps is equal",
                       fmt::join(ranks, ", "),
                       inputs.size()),
           "give each rank its part: DistributedSampler, or a seed of the data that has the rank "
           "in it"});
    }
  }

  void find_equal_draws() {
    std::map<core::Digest, std::vector<std::uint32_t>> drawers;
    std::uint64_t draws = 0;
    for (const auto& [state, found] : roots_) {
      if (found.drawing == 0) continue;
      drawers[found.draws].push_back(state->recording.rank);
      draws = found.drawing;
    }
    for (const auto& [digest, ranks] : drawers) {
      if (ranks.size() < 2) continue;
      report_.findings.push_back(
          {RankFinding::Weight::kSuspicion,
           fmt::format(
               "masks are copies: ranks {} made all of their {} draws from one seed, at the "
               "same places",
               fmt::join(ranks, ", "),
               draws),
           "seed each rank with its number behind the initialisation: torch.manual_seed(seed + "
           "rank)"});
    }
  }

  void find_frozen() {
    const bool frozen = !roots_.empty() && std::ranges::all_of(roots_, [](const auto& entry) {
      const RankRoots& found = entry.second;
      std::set<core::Digest> seen;
      std::size_t moments = 0;
      for (const auto& [key, root] : found.roots) {
        if (key.kind != ReplicaKind::kParameters || key.ordinal != 0) continue;
        seen.insert(root.digest);
        ++moments;
      }
      return found.has_gradients && moments > 1 && seen.size() == 1;
    });
    if (!frozen) return;
    report_.findings.push_back(
        {RankFinding::Weight::kProof,
         fmt::format("weights never moved in {} steps, though their gradients are not 0",
                     report_.steps),
         "look at the learning rate, and whether the optimizer has the parameters of this model"});
  }

  const OpenRank& open_;
  RanksReport report_;
  std::map<RankState*, RankRoots> roots_;  ///< by rank: of states in one list
  std::map<ReplicaMoment, std::vector<Held>> moments_;
  std::map<std::string, std::set<RankState*>> holders_;  ///< by part
  std::map<std::string, Beginning> beginnings_;
  std::size_t begun_ = 0;  ///< ranks that have any
  SetAside apart_;
  bool wrapped_ = false;
  bool grouped_ = false;
};

}  // namespace

std::optional<std::uint32_t> number_fact(const core::RunManifest& manifest, std::string_view name) {
  const std::string* text = core::environment_fact(manifest, name);
  if (text == nullptr) return std::nullopt;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

const ReplicaDifference* RanksReport::leading() const noexcept {
  const ReplicaDifference* leading = nullptr;
  for (const ReplicaTally& tally : kinds) {
    if (tally.first && (leading == nullptr || tally.first->step < leading->step)) {
      leading = &*tally.first;
    }
  }
  return leading;
}

std::uint64_t RanksReport::compared() const noexcept {
  std::uint64_t items = 0;
  for (const ReplicaTally& tally : kinds) items += tally.items;
  return items;
}

RankCause cause_of(const ReplicaDifference& first) noexcept {
  const bool all = first.names.size() == first.of;
  switch (first.kind) {
    case ReplicaKind::kEntryParameters:
      if (first.step == 0) {
        return {"initial weights not synchronised",
                "the replicas do not begin with the same weights",
                "broadcast parameters and buffers of rank 0 before the first step; "
                "DistributedDataParallel does it unless init_sync=False"};
      }
      return {"weights written outside the optimizer",
              "the step before left them equal, and they differ when the next forward pass begins",
              "look for what writes parameters between two steps on one rank alone: loading a "
              "checkpoint, clipping or averaging weights, code under `if rank == 0`"};
    case ReplicaKind::kEntryBuffers:
      return {"running statistics drift apart",
              "buffers are not handed out before the forward pass",
              "leave broadcast_buffers of DistributedDataParallel on, or use SyncBatchNorm"};
    case ReplicaKind::kGradients:
      if (all) {
        return {
            "gradients not reduced",
            "no gradient is the same on all ranks when the optimizer reads it",
            "let the last micro-batch of a step run outside of no_sync(), and call the model by "
            "its wrapper"};
      }
      return {
          "some gradients not reduced",
          "the others are the same on all ranks when the optimizer reads them",
          "look for parameters that the reduction leaves out: replaced after wrapping, unused in "
          "some passes (find_unused_parameters), or skipped by a condition"};
    case ReplicaKind::kLearningRates:
      return {"learning rates differ",
              "the gradients are the same on all ranks",
              "step the scheduler on every rank alike, and load its state on all of them"};
    case ReplicaKind::kOptimizerState:
      return {
          "optimizer state differs",
          "the gradients are the same on all ranks",
          "load the optimizer's state on every rank when a run is resumed, and change it on none "
          "alone"};
    case ReplicaKind::kParameters:
      break;
  }
  return {
      "weights written outside the optimizer",
      "gradients, learning rates and optimizer state are the same on all ranks",
      "look for what writes parameters on one rank alone, and for other options of its optimizer"};
}

RanksReport compare_ranks(std::span<const RankRecording> recordings,
                          const OpenRank& open,
                          std::uint32_t expected) {
  return ReplicaComparison(recordings, open, expected).run();
}

core::ExitCode exit_code_of(const RanksReport& report) noexcept {
  const bool damaged = std::ranges::any_of(report.ranks, [](const RankState& state) {
    return state.failure.has_value() || !state.last_operator.empty();
  });
  const bool proven = std::ranges::any_of(report.findings, [](const RankFinding& finding) {
    return finding.weight == RankFinding::Weight::kProof;
  });
  if (damaged) return core::ExitCode::kDumpUnusable;
  if (report.leading() != nullptr || proven) return core::ExitCode::kDivergence;
  const bool nothing = report.steps == 0 || report.compared() == 0 || report.ranks.size() < 2;
  return nothing || !report.absent.empty() ? core::ExitCode::kNotComparable
                                           : core::ExitCode::kReproducible;
}

}  // namespace repro_check::comparators
