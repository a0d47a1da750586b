// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "comparators/ranks/exchange_match.h"
#include "comparators/ranks/gradient_norms.h"
#include "comparators/ranks/rank_reads.h"
#include "comparators/ranks/rank_roots.h"
#include "comparators/ranks/reductions.h"
#include "core/digest/digest.h"
#include "core/text/text.h"
#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
namespace {

constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

/// What a rank read by one loader. Borrowed.
struct Reading {
  std::uint32_t rank = 0;
  const LoaderRead* loader = nullptr;
};

class ReplicaComparison {
 public:
  explicit ReplicaComparison(const RankReads& reads) : reads_(reads), moments_(reads.ranks) {}

  RanksReport run() {
    report_.expected = reads_.expected;
    for (const RankRead& rank : reads_.ranks) note(rank);
    const Beginnings beginnings = beginnings_of(reads_.ranks);
    // Those that are no replicas on all ranks may be replicas on some.
    const bool by_groups = !read_.empty() && std::ranges::all_of(read_, [](const RankRead* rank) {
      return rank->replicas.declared;
    });
    if (!by_groups) report_.set_aside.assign(reads_.apart.begin(), reads_.apart.end());
    report_.replicated = beginnings.names - report_.set_aside.size();
    find_peers();
    find_absent();
    if (find_mixture()) return std::move(report_);
    if (read_.size() > 1) judge_kinds();
    find_averaging();
    match_exchanges(reads_, report_);
    exchanges_match_ = report_.findings.empty();
    if (read_.size() > 1) match_norms(reads_, report_);
    find_uneven_steps();
    find_equal_inputs();
    find_nan();
    find_data();
    find_equal_draws();
    find_undrawn();
    find_copied_parts();
    find_validated();
    find_frozen();
    find_no_gradients();
    find_still();
    std::ranges::stable_sort(report_.findings, {}, &RankFinding::weight);
    return std::move(report_);
  }

 private:
  using Weight = RankFinding::Weight;

  void say(Weight weight, std::string what, std::string advice) {
    report_.findings.push_back({weight, std::move(what), std::move(advice)});
  }

  void note(const RankRead& rank) {
    report_.ranks.push_back(rank.state);
    if (!rank.state.is_read()) return;
    report_.unread += rank.roots.unread;
    report_.steps = read_.empty() ? rank.state.steps : std::min(report_.steps, rank.state.steps);
    read_.push_back(&rank);
  }

  void find_absent() {
    std::set<std::uint32_t> present;
    for (const RankState& state : report_.ranks) present.insert(state.recording.rank);
    const std::uint32_t end = std::min(reads_.asked.end, report_.expected);
    for (std::uint32_t rank = reads_.asked.first; rank < end; ++rank) {
      if (!present.contains(rank)) report_.absent.push_back(rank);
    }
  }

  /// Which ranks say what of something: `1 on rank 0 and 2 on ranks 1-3`.
  template <typename Say>
  [[nodiscard]] std::vector<std::pair<std::string, RankList>> sayings(Say say_of) const {
    std::vector<std::pair<std::string, RankList>> said;
    for (const RankRead* rank : read_) {
      const std::string what = say_of(*rank);
      auto found = std::ranges::find(said, what, &std::pair<std::string, RankList>::first);
      if (found == said.end()) found = said.insert(found, {what, {}});
      found->second.push_back(rank->number());
    }
    return said;
  }

  /// Whether the ranks are of several runs, attempts of a run, or parts of a program.
  bool find_mixture() {
    const auto differ_in = [&](std::string_view what, std::string mend, auto say_of) {
      const auto said = sayings(say_of);
      if (said.size() < 2 || !report_.why_not.empty()) return;
      std::vector<std::string> texts;
      for (const auto& [of, ranks] : said) {
        texts.push_back(fmt::format("{} on {}", of, text_of_ranks(ranks)));
      }
      report_.why_not =
          fmt::format("the ranks are of several {}: {}", what, fmt::join(texts, ", "));
      report_.mend = std::move(mend);
    };
    differ_in("runs", "give the ranks of one run", [](const RankRead& rank) {
      return rank.run_id.empty() ? std::string("one that is not named") : rank.run_id;
    });
    differ_in("attempts of one run", "give the ranks of one attempt", [](const RankRead& rank) {
      return fmt::format("attempt {}", rank.attempt);
    });
    differ_in("parts of the program",
              "record the same steps and phases on every rank",
              [](const RankRead& rank) { return rank.only.empty() ? "all of it" : rank.only; });
    const bool is_unnamed = !read_.empty() && std::ranges::all_of(read_, [](const RankRead* rank) {
      return rank->run_id.empty();
    });
    report_.is_unnamed = is_unnamed && read_.size() > 1;
    return !report_.why_not.empty();
  }

  /// Parameters that part and come together again are averaged now and then: between two times each
  /// rank has its own, and gradients of its own.
  void find_averaging() {
    const bool is_declared =
        std::ranges::any_of(read_, [](const RankRead* rank) { return rank->averages; });
    std::map<std::uint32_t, bool> together;  // by step, of parameters when the forward pass begins
    moments_.for_each([&](const ReplicaMoment& moment) {
      if (moment.series.kind != ReplicaKind::kEntryParameters || !moments_.is_compared(moment)) {
        return;
      }
      const auto is_odd = [&](const Held& each) {
        return each.root.digest != moment.held.front().root.digest;
      };
      bool& equal = together.try_emplace(moment.step, true).first->second;
      equal = equal && std::ranges::none_of(moment.held, is_odd);
    });
    std::vector<std::uint32_t> steps;
    bool apart = false;
    for (const auto& [step, equal] : together) {
      if (equal && apart) steps.push_back(step);
      apart = !equal;
    }
    const bool have_parted =
        std::ranges::any_of(together, [](const auto& one) { return !one.second; });
    if (!have_parted || (steps.empty() && !is_declared)) return;
    for (const ReplicaKind kind : {ReplicaKind::kEntryParameters,
                                   ReplicaKind::kActivations,
                                   ReplicaKind::kClipping,
                                   ReplicaKind::kLossScale,
                                   ReplicaKind::kGradients,
                                   ReplicaKind::kOptimizerState,
                                   ReplicaKind::kParameters}) {
      report_.kinds.at(static_cast<std::size_t>(kind)).first.reset();
    }
    const std::string when =
        steps.empty()
            ? std::string("in no step that was recorded")
            : fmt::format("at step{} {}", steps.size() == 1 ? "" : "s", list_of_ranks(steps));
    const std::string what =
        fmt::format("the ranks train each by itself, and have the same parameters again {}", when);
    if (is_declared && !steps.empty()) {
      return say(Weight::kNote,
                 what +
                     ", as their averager makes it: between these nothing is held against one "
                     "another",
                 "look at the steps at which parameters are averaged");
    }
    report_.why_not = what + ": nothing says whether they should have been the same in between";
    report_.mend =
        "where gradients are meant to be reduced, look at the first step that parts: `repro-check "
        "diff` of two ranks; where parameters are averaged now and then, use the averagers of "
        "torch.distributed.algorithms.model_averaging, of which is known what they do";
  }

  void judge_kinds() {
    moments_.for_each([&](const ReplicaMoment& moment) {
      const std::uint32_t items = moment.held.front().root.items;
      const bool is_of_one = moment.series.kind != ReplicaKind::kActivations &&
                             moments_.holders_of(moment.series.part) == 1;
      if (is_of_one) report_.alone += items;
      if (!moments_.is_compared(moment)) return;
      ReplicaTally& tally = report_.kinds.at(static_cast<std::size_t>(moment.series.kind));
      ++tally.moments;
      tally.items += items;
      const bool of_gradients = moment.series.kind == ReplicaKind::kGradients;
      if (of_gradients && !gradients_since_) gradients_since_ = moment.step;
    });
    for (std::size_t k = 0; k < kReplicaKinds; ++k) {
      if (const auto* first = moments_.first_difference(static_cast<ReplicaKind>(k))) {
        report_.kinds.at(k).first = difference_at(*first);
      }
    }
  }

  [[nodiscard]] ReplicaDifference difference_at(const ReplicaMoment& moment) const {
    const auto& [step, series, held] = moment;
    const auto roots = by_frequency(held);
    ReplicaDifference difference;
    difference.kind = series.kind;
    difference.step = step;
    difference.of = held.front().root.items;
    difference.past_wrapper = std::ranges::any_of(read_, [&](const RankRead* rank) {
      return rank->roots.past_wrapper.contains(moment.step);
    });
    const RankRead& first = *held.front().rank;
    difference.other_passes = begins_other_passes(held, step);
    difference.clipped_by_some = std::ranges::any_of(held, [&](const Held& each) {
      return clips_at(*each.rank, moment.step) != clips_at(first, moment.step);
    });
    difference.other_inputs = differ(held, step, &RankRoots::inputs);
    // What was alike before is no sum that is missing.
    difference.beside_parts = (!reads_.apart.empty() || report_.alone > 0) &&
                              !is_declared(reads_.ranks) && step == gradients_since_;
    difference.knows_gradients = gradients_since_ && *gradients_since_ <= step;
    difference.other_draws = differ(held, step, &RankRoots::draws);
    const bool has_majority = roots[0].second > roots[1].second;
    for (const auto& [rank, root] : held) {
      const bool is_odd = root.digest != roots.front().first;
      if (has_majority && is_odd) difference.odd.push_back(rank->number());
      if (is_odd || difference.op == 0) {
        difference.rank = rank->number();
        difference.op = root.op;
      }
    }
    difference.has_wrapper = std::ranges::any_of(reads_.ranks, &RankRead::has_wrapper);
    name_items(roots, difference);
    put_numbers(held, difference);
    const auto here = held_by(difference.rank, held);
    const auto there = other_than(*here, held);
    if (series.kind == ReplicaKind::kGradients) {
      difference.some_have_none = std::ranges::any_of(held, [&](const Held& each) {
        return lacks_gradients(each, moment.series, moment.step);
      });
      look_behind_reduction(held, *here, *there, difference);
      look_before_clipping(held, difference);
    }
    if (series.kind == ReplicaKind::kActivations) lead_by_order(*here, difference);
    difference.other_rank = there->rank->number();
    difference.other_op = there->root.op;
    if (held.size() < read_.size()) {
      for (const Held& each : held) difference.among.push_back(each.rank->number());
    }
    return difference;
  }

  static std::vector<Held>::const_iterator held_by(std::uint32_t rank,
                                                   const std::vector<Held>& held) {
    return std::ranges::find(held, rank, [](const Held& each) { return each.rank->number(); });
  }

  static std::vector<Held>::const_iterator other_than(const Held& one,
                                                      const std::vector<Held>& held) {
    return std::ranges::find_if(
        held, [&](const Held& each) { return each.root.digest != one.root.digest; });
  }

  /// Whether the optimizer has parameters without a gradient there.
  static bool lacks_gradients(const Held& each, ReplicaSeries series, std::uint32_t step) {
    series.kind = ReplicaKind::kParameters;
    const auto column = each.rank->roots.columns.find(series);
    if (column == each.rank->roots.columns.end()) return false;
    const auto& steps = column->second->steps;
    const auto at = std::ranges::lower_bound(steps, step);
    const auto place = static_cast<std::size_t>(at - steps.begin());
    return at != steps.end() && *at == step && column->second->items[place] > each.root.items;
  }

  /// Which operator it was that made gradients differ which a collective had made equal.
  void look_behind_reduction(const std::vector<Held>& held,
                             const Held& here,
                             const Held& there,
                             ReplicaDifference& difference) const {
    const auto alike = by_frequency(held).front();
    std::vector<Held> most;
    std::ranges::copy_if(held, std::back_inserter(most), [&](const Held& each) {
      return each.root.digest == alike.first;
    });
    difference.shared_by_some =
        most.size() > 1 && differ(most, difference.step, &RankRoots::inputs);
    const ReplicaItems* mine = reduction_on(here);
    for (const Held& each : held) {
      const ReplicaItems* other = reduction_on(each);
      if (mine == nullptr || other == nullptr || !is_same(mine->front(), other->front())) return;
    }
    BehindReduction& behind =
        difference.behind_reduction.emplace(first_behind(here, *mine, there, *reduction_on(there)));
    behind.by_norm = behind.what.find(kMadeOfNorm) != std::string::npos;
    behind.reduced = gives_alike(mine->front().name.substr(0, mine->front().name.find(' ')));
  }

  /// Clipping changes all gradients by a norm of all: those that differ before it made the others
  /// differ.
  void look_before_clipping(const std::vector<Held>& held, ReplicaDifference& difference) const {
    std::map<std::string_view, std::set<core::Digest>> norms;
    for (const Held& each : held) {
      const auto found = reads_.unclipped.find(each.root.digest);
      if (found == reads_.unclipped.end()) return;
      for (const ReplicaItem& item : found->second) {
        norms[std::string_view(item.name).substr(core::kLocalNormPrefix.size())].insert(
            item.digest);
      }
    }
    std::vector<std::string> names;
    std::ranges::copy_if(difference.names, std::back_inserter(names), [&](const std::string& name) {
      const auto found = norms.find(name);
      return found != norms.end() && found->second.size() > 1;
    });
    if (names.empty() || names.size() == difference.names.size()) return;
    difference.names = std::move(names);
    difference.before_clipping = true;
    difference.behind_reduction.reset();
  }

  [[nodiscard]] const ReplicaItems* reduction_on(const Held& each) const {
    const auto found = reads_.reductions.find(each.root.digest);
    return found == reads_.reductions.end() || found->second.empty() ? nullptr : &found->second;
  }

  static bool is_same(const ReplicaItem& one, const ReplicaItem& other) {
    return one.name == other.name && one.digest == other.digest;
  }

  static BehindReduction first_behind(const Held& one,
                                      const ReplicaItems& on_one,
                                      const Held& other,
                                      const ReplicaItems& on_other) {
    const auto [mine, theirs] = std::ranges::mismatch(on_one, on_other, is_same);
    const auto comes = [](const ReplicaItem& item, auto from, const ReplicaItems& in) {
      return std::find_if(from, in.end(), [&](const ReplicaItem& each) {
               return each.name == item.name;
             }) != in.end();
    };
    const auto on = [](const ReplicaItem& item, const Held& where, std::string_view how) {
      const std::uint32_t rank = where.rank->number();
      return BehindReduction{fmt::format("{} on rank {}{}", item.name, rank, how), rank, item.op};
    };
    const bool is_mine = mine != on_one.end() && !comes(*mine, theirs, on_other);
    const bool is_theirs = theirs != on_other.end() && !comes(*theirs, mine, on_one);
    if (is_mine && !is_theirs) return on(*mine, one, " alone");
    if (is_theirs && !is_mine) return on(*theirs, other, " alone");
    if (mine == on_one.end() || theirs == on_other.end()) return {};
    BehindReduction both = on(*mine, one, "");
    both.what = mine->name == theirs->name
                    ? fmt::format("{} gives rank {} something else than rank {}",
                                  mine->name,
                                  one.rank->number(),
                                  other.rank->number())
                    : both.what + ", " + on(*theirs, other, "").what;
    return both;
  }

  /// Ranks that have other numbers of micro-batches in all steps are meant to.
  static bool begins_other_passes(const std::vector<Held>& held, std::uint32_t step) {
    const auto since = [](const std::vector<StepPasses>& one, const std::vector<StepPasses>& two) {
      const auto [at, other] = std::ranges::mismatch(one, two);
      if (at == one.end() && other == two.end()) return kNever;
      return std::min(at == one.end() ? kNever : at->step,
                      other == two.end() ? kNever : other->step);
    };
    const auto& passes = held.front().rank->roots.passes;
    std::uint32_t first = kNever;
    for (const Held& each : held) first = std::min(first, since(passes, each.rank->roots.passes));
    return first == step;
  }

  static std::uint64_t all_passes(const RankRead& rank) {
    std::uint64_t passes = 0;
    for (const StepPasses& step : rank.roots.passes) passes += step.passes;
    return passes;
  }

  static bool clips_at(const RankRead& rank, std::uint32_t step) {
    return std::ranges::any_of(rank.roots.columns, [&](const auto& column) {
      return column.first.kind == ReplicaKind::kClipping &&
             std::ranges::binary_search(column.second->steps, step);
    });
  }

  static bool is_declared(std::span<const RankRead> ranks) {
    return std::ranges::any_of(ranks, [](const RankRead& rank) { return rank.replicas.declared; });
  }

  /// Whether ranks have something else there, up to a step.
  template <typename Of>
  static bool differ(const std::vector<Held>& held,
                     std::uint32_t step,
                     std::vector<Of> RankRoots::*of) {
    const auto up_to = [&](const Held& each) {
      const std::vector<Of>& list = each.rank->roots.*of;
      return std::span(list.begin(), std::ranges::upper_bound(list, step, {}, &Of::step));
    };
    return std::ranges::any_of(held, [&](const Held& each) {
      return !std::ranges::equal(up_to(held.front()), up_to(each));
    });
  }

  /// Of several records the one to name is that of the first that differs.
  void lead_by_order(const Held& led, ReplicaDifference& difference) const {
    const auto items = reads_.items.find(led.root.digest);
    if (items == reads_.items.end() || difference.names.empty()) return;
    const auto place = [&](const std::string& name) {
      return std::ranges::find(items->second, name, &ReplicaItem::name) - items->second.begin();
    };
    std::ranges::stable_sort(difference.names, {}, place);
    const auto first =
        std::ranges::find(items->second, difference.names.front(), &ReplicaItem::name);
    if (first != items->second.end()) difference.op = first->op;
  }

  /// What the first name is on the ranks, where it is a number.
  void put_numbers(const std::vector<Held>& held, ReplicaDifference& difference) const {
    constexpr std::size_t kShown = 4;
    if (difference.names.empty()) return;
    const std::string& name = difference.names.front();
    const bool tied = difference.odd.empty() && name.starts_with(core::kFoundInfPrefix);
    std::set<core::Digest> seen;
    for (const auto& [rank, root] : held) {
      const ReplicaItems& items = reads_.items.at(root.digest);
      const auto item = std::ranges::find(items, name, &ReplicaItem::name);
      auto number = item == items.end() ? std::nullopt : number_of(item->digest);
      if (difference.other_groups) number = root.items;
      if (!number) continue;
      if (tied && *number != 0) {  // it needs no majority to say what overflowed
        difference.odd.push_back(rank->number());
        difference.rank = rank->number();
        difference.op = root.op;
      }
      if (difference.numbers.size() < kShown && seen.insert(root.digest).second) {
        difference.numbers.push_back({rank->number(), *number});
      }
    }
  }

  void name_items(const std::vector<std::pair<core::Digest, std::size_t>>& roots,
                  ReplicaDifference& difference) const {
    std::map<std::string_view, std::set<core::Digest>> by_name;
    std::map<std::string_view, std::size_t> having;
    std::map<std::string_view, std::set<core::Digest>> clipped;  // by name, the roots beside it
    for (const auto& [root, ranks] : roots) {
      const auto found = reads_.items.find(root);
      if (found == reads_.items.end()) return;  // equal in one part of the ranks, and in another
      for (const ReplicaItem& item : found->second) {
        if (item.name.starts_with(core::kLocalNormPrefix)) {
          const std::string_view name = item.name;
          clipped[name.substr(0, name.find(core::kShardMark))].insert(root);
        }
        by_name[item.name].insert(item.digest);
        ++having[item.name];
      }
    }
    difference.other_parameters = std::ranges::any_of(
        clipped, [&](const auto& entry) { return entry.second.size() != roots.size(); });
    difference.of = 0;
    for (const auto& [name, digests] : by_name) {
      if (name.starts_with(core::kLocalNormPrefix)) {
        difference.follows = difference.follows || digests.size() > 1;
        continue;
      }
      ++difference.of;
      const bool some_lack = having[name] != roots.size();
      difference.other_groups =
          difference.other_groups || (some_lack && difference.kind == ReplicaKind::kLearningRates);
      if (digests.size() > 1 || some_lack) difference.names.emplace_back(name);
    }
  }

  /// Ranks that work on parts of the same: they must read and draw alike.
  void find_peers() {
    for (const RankRead* rank : read_) {
      for (const std::string& part : rank->roots.peers) {
        peers_[part].push_back(rank->number());
      }
    }
  }

  /// Whether ranks may be alike in what replicas must not: some work on parts of the same, and of
  /// others only some are replicas.
  [[nodiscard]] bool may_be_alike(const std::vector<std::uint32_t>& ranks) const {
    const bool are_peers = std::ranges::any_of(
        peers_, [&](const auto& peers) { return std::ranges::includes(peers.second, ranks); });
    std::set<std::string_view> groups;
    for (const RankRead* rank : read_) {
      const Replicas& replicas = rank->replicas;
      const bool is_meant = std::ranges::count(ranks, rank->number()) > 0;
      if (is_meant && (replicas.ranks.empty() || !groups.insert(replicas.ranks).second)) {
        return are_peers;
      }
    }
    return true;
  }

  /// Batches must differ: two ranks that read the same compute the same.
  void find_equal_inputs() {
    if (read_.size() < 2) return;
    const auto before = [](const auto* one, const auto* other) { return *one < *other; };
    std::map<const std::vector<StepInputs>*, RankList, decltype(before)> readers(before);
    for (const RankRead* rank : read_) {
      const auto& inputs = rank->roots.inputs;
      if (!inputs.empty()) readers[&inputs].push_back(rank->number());
    }
    for (const auto& [inputs, ranks] : readers) {
      if (ranks.size() < 2 || may_be_alike(ranks)) continue;
      say(is_declared(reads_.ranks) ? Weight::kProof : Weight::kSuspicion,
          fmt::format("ranks {} read the same data: every batch of {} steps is equal",
                      list_of_ranks(ranks),
                      inputs->size()),
          "give each rank its part: DistributedSampler, or a seed of the data that has the rank "
          "in it; of ranks that work on parts of one batch --mesh and --replicated tell");
    }
  }

  /// What one rank makes beyond the steps of another is held against nothing.
  void find_uneven_steps() {
    const auto is_whole = [](const RankRead* rank) {
      return rank->state.last_operator.empty() && rank->state.steps > 0;
    };
    if (read_.size() < 2 || !std::ranges::all_of(read_, is_whole)) return;
    const auto steps = [](const RankRead* rank) { return rank->state.steps; };
    const RankRead& least = **std::ranges::min_element(read_, {}, steps);
    const RankRead& most = **std::ranges::max_element(read_, {}, steps);
    const std::uint32_t end = end_of_common_steps(reads_.ranks);
    if (end < least.state.steps) {
      return say(Weight::kNote,
                 fmt::format("the ranks left join() behind other numbers of steps: from step {} on "
                             "those of one are none of another's, and nothing was compared",
                             end),
                 "give each rank as many batches where the last ones are to be compared as well");
    }
    if (least.state.steps == most.state.steps) return;
    const bool are_replicas = std::ranges::all_of(
        read_, [](const RankRead* rank) { return rank->replicas.everywhere(); });
    const bool skipped = all_passes(least) == all_passes(most);
    const auto what = [&](std::string_view how) {
      return fmt::format(
          "the optimizer made {} on rank {} and {} on rank {}{}: what comes behind "
          "the shorter run was compared with nothing",
          counted(least.state.steps, "step"),
          least.number(),
          most.state.steps,
          most.number(),
          how);
    };
    if (!least.state.raised.empty()) {
      return say(
          Weight::kSuspicion,
          what(fmt::format(", since rank {} ended by {}", least.number(), least.state.raised)),
          "look at that exception first");
    }
    // Inside of join() who has no more batches takes part in what the others reduce.
    const bool joins = exchanges_match_ && are_replicas && !skipped &&
                       least.roots.exchanges_behind > most.roots.exchanges_behind;
    if (joins) {
      return say(Weight::kNote,
                 what(", and the one took part in what the other reduced"),
                 "give each rank as many batches where the last ones are to be compared as well");
    }
    say(skipped && are_replicas ? Weight::kProof : Weight::kSuspicion,
        what(skipped ? ", for as many backward passes" : ""),
        skipped ? "look for what skips a step on one rank alone: a condition on its own loss or "
                  "data, an exception that it catches"
                : "give each rank as many batches, or let those that have more wait: join() of the "
                  "wrapper");
  }

  /// Replicas draw at the same places, if not the same.
  void find_undrawn() {
    RankList silent;
    std::uint32_t since = 0;
    for (const RankRead* rank : read_) {
      if (!rank->replicas.everywhere()) return;
      const auto& draws = rank->roots.draws;
      const auto end = std::ranges::lower_bound(draws, report_.steps, {}, &StepDraws::step);
      const std::uint32_t next = end == draws.begin() ? 0 : std::prev(end)->step + 1;
      if (next == report_.steps) continue;
      silent.push_back(rank->number());
      since = std::max(since, next);
    }
    if (silent.empty() || silent.size() == read_.size()) return;
    say(Weight::kSuspicion,
        fmt::format("{} draw{} no random numbers for the model from step {} on, and the others do",
                    text_of_ranks(silent),
                    silent.size() == 1 ? "s" : "",
                    since),
        "call train() on every rank before it trains: dropout is off in a model that eval() was "
        "called of");
  }

  /// What ranks reduce has the NaN of any of them: which one had it first is what matters.
  void find_nan() {
    const auto before = [](const NanValue& one, const NanValue& other) {
      return std::pair(one.step, one.stage) < std::pair(other.step, other.stage);
    };
    const NanValue* first = nullptr;
    for (const RankRead* rank : read_) {
      const auto& nan = rank->roots.nan;
      if (nan && (first == nullptr || before(*nan, *first))) first = &*nan;
    }
    if (first == nullptr) return;
    RankList ranks;
    for (const RankRead* rank : read_) {
      if (rank->roots.nan && !before(*first, *rank->roots.nan)) ranks.push_back(rank->number());
    }
    say(Weight::kSuspicion,
        fmt::format("values are NaN: first at step {} on {}, in {} `{}` (op {})",
                    first->step,
                    text_of_ranks(ranks),
                    first->stage == NanStage::kRead ? "what it reads," : "what it makes,",
                    first->name,
                    first->op),
        "look at what that operator of that rank is given: all that reduce with it have NaN from "
        "there on");
  }

  /// What is wrong with what the loaders of each rank hand out, and of several together.
  void find_data() {
    std::map<std::string, std::pair<std::string, std::vector<std::uint32_t>>> said;
    std::map<std::int64_t, std::vector<Reading>> loaders;
    for (const RankRead* rank : read_) {
      const std::uint32_t number = rank->number();
      for (const DataFinding& finding : rank->roots.data.findings) {
        auto& [advice, ranks] = said[finding.what];
        advice = finding.advice;
        ranks.push_back(number);
      }
      for (const LoaderRead& loader : rank->roots.data.loaders) {
        loaders[loader.loader].push_back({number, &loader});
      }
    }
    for (const auto& [what, finding] : said) {
      const auto& [advice, ranks] = finding;
      say(Weight::kProof,
          ranks.size() == read_.size() ? what : fmt::format("{} ({})", what, text_of_ranks(ranks)),
          advice);
    }
    for (const auto& [number, readings] : loaders) {
      find_same_samples(readings);
      find_padding(readings);
    }
  }

  /// Ranks that read the same samples in one order have equal batches, which is said elsewhere.
  void find_same_samples(const std::vector<Reading>& readings) {
    struct Readers {
      std::vector<std::uint32_t> ranks;
      std::set<core::Digest> orders;
      const LoaderRead* loader = nullptr;
    };
    std::map<core::Digest, Readers> by_contents;
    for (const auto& [rank, loader] : readings) {
      if (!loader->trains || loader->distinct < 2 || loader->batches < 2) continue;
      Readers& readers = by_contents[loader->contents];
      readers.ranks.push_back(rank);
      readers.orders.insert(loader->first_batch);
      readers.loader = loader;
    }
    for (const auto& [contents, readers] : by_contents) {
      if (readers.ranks.size() < 2 || readers.orders.size() < 2) continue;
      if (may_be_alike(readers.ranks)) continue;
      say(is_declared(reads_.ranks) ? Weight::kProof : Weight::kSuspicion,
          fmt::format("ranks {} read the same data, in another order: all {} samples of an epoch "
                      "of the loader of {}",
                      list_of_ranks(readers.ranks),
                      readers.loader->samples,
                      readers.loader->name),
          "give each rank its part: DistributedSampler");
    }
  }

  /// A DistributedSampler repeats samples so that each rank has as many, fewer than there are
  /// ranks.
  void find_padding(const std::vector<Reading>& readings) {
    std::set<std::span<const std::int64_t>, decltype(&before)> lists(&before);  // peers have one
    for (const auto& [rank, loader] : readings) lists.insert(loader->numbers);
    std::map<std::int64_t, std::size_t> readers;
    std::size_t all = 0;
    for (const auto& list : lists) {
      all += list.size();
      for (const std::int64_t sample : list) ++readers[sample];
    }
    const std::size_t twice = all - readers.size();
    if (twice < lists.size()) find_shared(readings);
    if (twice == 0) return;
    if (twice >= lists.size()) {
      const auto shared = static_cast<std::size_t>(
          std::ranges::count_if(readers, [](const auto& sample) { return sample.second > 1; }));
      return note_shared(shared, readers.size(), readings.front().loader->name);
    }
    say(Weight::kNote,
        fmt::format("padded: {} of {} samples {} read twice in an epoch of the loader of {}, so "
                    "that each rank has as many",
                    twice,
                    readers.size(),
                    twice == 1 ? "is" : "are",
                    readings.front().loader->name),
        "drop_last=True of DistributedSampler leaves some out instead");
  }

  static bool before(std::span<const std::int64_t> one, std::span<const std::int64_t> other) {
    return std::ranges::lexicographical_compare(one, other);
  }

  /// A DistributedSampler tells samples by their place in a dataset, which may be another one on
  /// each rank: a split that each draws by itself.
  void find_shared(const std::vector<Reading>& readings) {
    std::map<core::Digest, std::size_t> readers;
    std::set<std::span<const core::Digest>, decltype(&before_digest)> lists(&before_digest);
    for (const auto& [rank, loader] : readings) {
      if (loader->trains && loader->is_whole && !loader->numbers.empty()) {
        lists.insert(loader->digests);
      }
    }
    for (const auto& list : lists) {
      for (const core::Digest& sample : list) ++readers[sample];
    }
    const auto shared = static_cast<std::size_t>(
        std::ranges::count_if(readers, [](const auto& sample) { return sample.second > 1; }));
    if (shared >= std::max<std::size_t>(lists.size(), 1 + readers.size() / 50)) {
      note_shared(shared, readers.size(), readings.front().loader->name);
    }
  }

  static bool before_digest(std::span<const core::Digest> one,
                            std::span<const core::Digest> other) {
    return std::ranges::lexicographical_compare(one, other);
  }

  /// Samplers that shuffle by other seeds share some samples, and nobody reads others.
  void note_shared(std::size_t shared, std::size_t samples, const std::string& loader) {
    say(Weight::kSuspicion,
        fmt::format("parts of the data overlap: {} of {} samples are read more than once in an "
                    "epoch of the loader of {}, more than make each rank have as many",
                    shared,
                    samples,
                    loader),
        "give DistributedSampler the same dataset, seed and set_epoch() on every rank, and each "
        "its own rank");
  }

  /// Ranks that drew the same to the end: from their first draw on they were seeded alike, from a
  /// later step on they have one generator's state. What comes behind the last step is no training.
  void find_equal_draws() {
    std::map<std::pair<std::uint32_t, core::Digest>, std::vector<const RankRead*>> drawers;
    for (const RankRead* rank : read_) {
      const auto behind =
          std::ranges::lower_bound(rank->roots.draws, rank->roots.steps, {}, &StepDraws::step);
      if (behind == rank->roots.draws.begin()) continue;
      const StepDraws& last = *std::prev(behind);
      drawers[{last.step, last.digest}].push_back(rank);
    }
    for (const auto& [last, ranks] : drawers) {
      if (ranks.size() > 1) note_equal_draws(ranks, last.first);
    }
  }

  /// @param last  step in which all of them drew the same
  void note_equal_draws(const std::vector<const RankRead*>& ranks, std::uint32_t last) {
    const auto& draws = ranks.front()->roots.draws;
    const auto end = std::ranges::upper_bound(draws, last, {}, &StepDraws::step);
    const std::uint32_t first = draws.front().step;
    std::uint32_t since = first;
    for (const RankRead* rank : ranks) {
      const auto& other = rank->roots.draws;
      auto one = std::make_reverse_iterator(end);
      auto two =
          std::make_reverse_iterator(std::ranges::upper_bound(other, last, {}, &StepDraws::step));
      while (one != draws.rend() && two != other.rend() && one->step == two->step &&
             one->digest == two->digest) {
        ++one;
        ++two;
      }
      if (one != draws.rend()) since = std::max(since, one->step + 1);
    }
    std::uint64_t count = 0;
    const auto begin = std::ranges::lower_bound(draws, since, {}, &StepDraws::step);
    for (auto step = begin; step != end; ++step) count += step->draws;
    std::vector<std::uint32_t> numbers;
    numbers.reserve(ranks.size());
    for (const RankRead* rank : ranks) numbers.push_back(rank->number());
    if (may_be_alike(numbers)) return;
    const std::string who = list_of_ranks(numbers);
    if (since == first) {
      say(Weight::kSuspicion,
          fmt::format("masks are copies: ranks {} made all of their {} draws from one seed, at "
                      "the same places",
                      who,
                      count),
          "seed each rank with its number behind the initialisation: torch.manual_seed(seed + "
          "rank)");
      return;
    }
    say(Weight::kSuspicion,
        fmt::format("another rank's generator was restored: from step {} on ranks {} made all of "
                    "their {} draws from one seed ({}), at the same places; before it they drew "
                    "from {}",
                    since,
                    who,
                    count,
                    begin->seed,
                    seeds_before(ranks, since)),
        "save the state of the generators of every rank, and restore on each its own");
  }

  /// `seed 5 on rank 0, seed 6 on rank 1`
  static std::string seeds_before(const std::vector<const RankRead*>& ranks, std::uint32_t step) {
    constexpr std::size_t kShown = 4;
    std::vector<std::string> seeds;
    for (const RankRead* rank : ranks) {
      const auto at = std::ranges::lower_bound(rank->roots.draws, step, {}, &StepDraws::step);
      if (at == rank->roots.draws.begin() || seeds.size() == kShown) continue;
      seeds.push_back(fmt::format("seed {} on rank {}", std::prev(at)->seed, rank->number()));
    }
    return fmt::format("{}", fmt::join(seeds, ", "));
  }

  /// What is in parts differs from part to part, unless every rank made its part in the same way.
  void find_copied_parts() {
    struct Copies {
      std::set<std::string_view> parts;
      RankList ranks;
    };
    std::map<std::pair<std::string_view, core::Digest>, Copies> held;
    for (const RankRead* rank : read_) {
      for (const ReplicaItems* items : {&rank->roots.gradients, &rank->roots.parts}) {
        for (const ReplicaItem& item : *items) {
          std::string_view part = part_of(item.name);
          const std::string_view whole(item.name.data(), item.name.size() - part.size());
          // Other ranks that hold the same part are replicas of these.
          part = part.substr(0, part.find(core::kHoldersMark));
          if (part.size() <= 1) continue;  // no more than the mark
          Copies& copies = held[{whole, item.digest}];
          copies.parts.insert(part);
          copies.ranks.push_back(rank->number());
        }
      }
    }
    std::vector<std::string_view> names;
    RankList ranks;
    for (const auto& [key, copies] : held) {
      if (copies.parts.size() < 2) continue;
      if (names.empty()) ranks = copies.ranks;
      names.push_back(key.first);
    }
    if (names.empty()) return;
    constexpr std::size_t kShown = 3;
    const auto shown = std::span(names).first(std::min(names.size(), kShown));
    say(Weight::kSuspicion,
        fmt::format("parts are copies: ranks {} hold each another part of {}{}, and the same in "
                    "it, step after step",
                    list_of_ranks(ranks),
                    fmt::join(shown, ", "),
                    names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown)
                                          : std::string()),
        "let the parts be cut out of a whole (distribute_tensor), or seed what makes them by the "
        "place in the mesh; give each rank its own part of what goes in");
  }

  /// An optimizer that finds no gradient leaves its parameters alone.
  void find_no_gradients() {
    const auto has_none = [](const RankRead* rank) {
      return rank->roots.steps > 0 && !rank->roots.beginning.empty() &&
             !rank->roots.finds_gradients;
    };
    if (read_.empty() || !std::ranges::all_of(read_, has_none)) return;
    trains_ = false;
    say(Weight::kProof,
        fmt::format("the optimizer made {} with no gradient at all, on every rank",
                    counted(report_.steps, "step")),
        "look for what keeps gradients from the parameters that the optimizer has: "
        "set_requires_gradient_sync(False) or no_sync() that is never left, zero_grad() between "
        "backward() and step(), parameters of another model");
  }

  /// Samples that one rank trains on and another one validates with: each drew a split of its own.
  void find_validated() {
    std::map<core::Digest, std::uint32_t> trained;  // by the last rank that did
    std::map<std::uint32_t, std::set<core::Digest>> own;
    for (const RankRead* rank : read_) {
      for (const LoaderRead& loader : rank->roots.data.loaders) {
        if (!loader.trains) continue;
        for (const core::Digest& sample : loader.digests) trained[sample] = rank->number();
        own[rank->number()].insert(loader.digests.begin(), loader.digests.end());
      }
    }
    std::set<core::Digest> shared;
    std::size_t validated = 0;
    RankList ranks;
    for (const RankRead* rank : read_) {
      bool is_other = false;
      for (const LoaderRead& loader : rank->roots.data.loaders) {
        if (loader.trains || loader.digests.empty()) continue;
        const auto is_own = [&](const core::Digest& sample) {
          return own[rank->number()].contains(sample);
        };
        // Who looks at what he trains on means to, and so does who looks at the data of all.
        if (std::ranges::any_of(loader.digests, is_own)) continue;
        const auto before = shared.size();
        for (const core::Digest& sample : loader.digests) {
          if (trained.contains(sample)) shared.insert(sample);
        }
        validated += loader.digests.size();
        is_other = is_other || shared.size() > before;
      }
      if (is_other) ranks.push_back(rank->number());
    }
    if (shared.empty() || shared.size() == validated) return;
    say(Weight::kProof,
        fmt::format(
            "trained and validated: {} of the samples that {} validate{} with are trained on "
            "by other ranks, and none by the rank itself",
            shared.size(),
            text_of_ranks(ranks),
            ranks.size() == 1 ? "s" : ""),
        "draw one split on all ranks: the same generator for random_split(), without the rank in "
        "its "
        "seed");
  }

  /// Parameters that should train and stay as they are.
  void find_still() {
    std::map<StillReason, std::set<std::string_view>> by_reason;
    std::set<std::string_view> exchanged;
    for (const RankRead* rank : read_) {
      for (const StillParameter& still : rank->roots.still)
        by_reason[still.reason].insert(still.name);
      exchanged.insert(rank->roots.exchanged.begin(), rank->roots.exchanged.end());
    }
    // What moves on some rank, or has a gradient there, is no such thing.
    for (const RankRead* rank : read_) {
      for (auto& [reason, names] : by_reason) {
        std::erase_if(names, [&, which = reason](std::string_view name) {
          return std::ranges::find(rank->roots.still, StillParameter{std::string(name), which}) ==
                 rank->roots.still.end();
        });
      }
    }
    const bool all_rest = is_frozen_ || !trains_;
    for (const auto& [reason, names] : by_reason) {
      if (names.empty() || (all_rest && reason != StillReason::kNoOptimizer)) continue;
      constexpr std::size_t kShown = 3;
      std::vector<std::string_view> shown(names.begin(), names.end());
      const std::size_t more = shown.size() - std::min(shown.size(), kShown);
      shown.resize(shown.size() - more);
      const std::string which =
          fmt::format("{}{}",
                      fmt::join(shown, ", "),
                      more == 0 ? std::string() : fmt::format(" and {} more", more));
      const bool are_experts = std::ranges::any_of(
          names, [&](std::string_view name) { return exchanged.contains(name); });
      note_still(reason, which, are_experts);
    }
  }

  void note_still(StillReason reason, const std::string& which, bool are_experts) {
    switch (reason) {
      case StillReason::kNoOptimizer:
        return say(
            Weight::kProof,
            fmt::format("parameters never move: {}: they get gradients, and no optimizer has "
                        "them",
                        which),
            "give the optimizer all parameters that are to be trained, and set "
            "requires_grad=False of the others");
      case StillReason::kNoGradient:
        return say(
            are_experts ? Weight::kProof : Weight::kSuspicion,
            fmt::format("parameters never move: {}: an optimizer has them, and no step of it "
                        "finds a gradient{}",
                        which,
                        are_experts ? ", though they work on what ranks exchange" : ""),
            "look for detach(), for a collective without a backward pass, and for modules "
            "that nothing uses");
      case StillReason::kUnmoved:
        return say(
            Weight::kSuspicion,
            fmt::format("parameters never move: {}: they have gradients, and a step of their "
                        "optimizer changes nothing of them",
                        which),
            "look for steps that are lost in rounding, and for a gradient that is 0 but for "
            "rounding");
    }
  }

  void find_frozen() {
    const bool frozen = !read_.empty() && std::ranges::all_of(read_, [](const RankRead* rank) {
      bool stays = false;
      for (const auto& [series, column] : rank->roots.columns) {
        if (series.kind != ReplicaKind::kParameters || series.ordinal != 0) continue;
        const auto& digests = column->digests;
        if (std::ranges::adjacent_find(digests, std::ranges::not_equal_to()) != digests.end()) {
          return false;
        }
        stays = stays || digests.size() > 1;
      }
      return rank->roots.has_gradients && stays;
    });
    is_frozen_ = frozen;
    if (!frozen) return;
    say(Weight::kProof,
        fmt::format("weights never moved in {} steps, though their gradients are not 0",
                    report_.steps),
        "look at the learning rate, and whether the optimizer has the parameters of this model");
  }

  const RankReads& reads_;
  const ReplicaMoments moments_;
  std::map<std::string_view, RankList> peers_;
  RanksReport report_;
  std::optional<std::uint32_t> gradients_since_;  ///< the first step that compares them
  std::vector<const RankRead*> read_;             ///< those that can be
  bool exchanges_match_ = false;
  bool is_frozen_ = false;  ///< nothing moves at all
  bool trains_ = true;      ///< some step finds a gradient
};

}  // namespace

std::string list_of_ranks(const RankList& ranks) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> rows;
  std::size_t shown = 0;
  for (std::size_t first = 0, end = 0; first < ranks.size() && rows.size() < kShown; first = end) {
    for (end = first + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1; ++end) {
    }
    if (end - first > 2) {
      rows.push_back(fmt::format("{}-{}", ranks[first], ranks[end - 1]));
    } else {
      end = first + 1;
      rows.push_back(std::to_string(ranks[first]));
    }
    shown = end;
  }
  if (shown < ranks.size()) rows.back() += fmt::format(" and {} more", ranks.size() - shown);
  return fmt::format("{}", fmt::join(rows, ", "));
}

std::string text_of_ranks(const RankList& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", list_of_ranks(ranks));
}

std::optional<std::uint32_t> number_fact(const core::RunManifest& manifest, std::string_view name) {
  const std::string* text = core::environment_fact(manifest, name);
  return text == nullptr ? std::nullopt : core::parse_number<std::uint32_t>(*text);
}

const ReplicaDifference* RanksReport::leading() const noexcept {
  const ReplicaDifference* leading = nullptr;
  const ReplicaDifference* following = nullptr;
  for (const ReplicaTally& tally : kinds) {
    if (!tally.first) continue;
    if (tally.first->follows) {
      following = &*tally.first;
      continue;
    }
    const bool behind_statistics = leading != nullptr &&
                                   leading->kind == ReplicaKind::kEntryBuffers &&
                                   tally.first->kind != ReplicaKind::kActivations;
    if (leading == nullptr || tally.first->step < leading->step || behind_statistics) {
      leading = &*tally.first;
    }
  }
  return leading != nullptr ? leading : following;
}

std::vector<const ReplicaDifference*> RanksReport::independent() const {
  std::vector<const ReplicaDifference*> found;
  const ReplicaDifference* first = leading();
  const auto of = [&](ReplicaKind kind) {
    const auto& difference = kinds.at(static_cast<std::size_t>(kind)).first;
    return difference && &*difference != first ? &*difference : nullptr;
  };
  if (const ReplicaDifference* buffers = of(ReplicaKind::kEntryBuffers)) {
    // Other weights make other statistics, and nobody who hands weights out first forgets buffers.
    const bool is_made = first->step < buffers->step ||
                         (first->step == buffers->step && first->kind < ReplicaKind::kEntryBuffers);
    if (!is_made) found.push_back(buffers);
  }
  if (const ReplicaDifference* rates = of(ReplicaKind::kLearningRates)) {
    // A step that a rank skips may be one of its scheduler as well.
    const bool is_made = first->other_passes || first->kind == ReplicaKind::kLossScale;
    if (!is_made) found.push_back(rates);
  }
  return found;
}

std::uint64_t RanksReport::compared() const noexcept {
  std::uint64_t items = 0;
  for (const ReplicaTally& tally : kinds) items += tally.items;
  return items;
}

namespace {

RankCause cause_of_clipping(const ReplicaDifference& first) noexcept {
  if (first.names.empty()) {
    return {"gradients are clipped by other norms",
            "parts of the ranks are equal each, and clip otherwise than the others",
            "look for a norm that is not that of all ranks, and for other values of max_norm"};
  }
  if (std::ranges::find(first.names, core::kClippedNorm) == first.names.end()) {
    return {"gradients are clipped to other norms",
            "the norm that they are clipped by is the same on all ranks",
            "give clip_grad_norm_() the same max_norm and norm_type on every rank"};
  }
  if (first.other_parameters) {
    return {"gradients are clipped by other norms",
            "the ranks do not clip the same parameters",
            "clip the same parameters on every rank, by the norm of all of them"};
  }
  if (first.follows) {
    return {"gradients are clipped by other norms",
            "the gradients are not the same on all ranks before they are clipped",
            "reduce the gradients before their norm is taken"};
  }
  return {"gradients are clipped by other norms",
          "what ranks hold alike of the gradients is the same before they are clipped, so each "
          "norm is that of what one rank holds",
          "clip by the norm of all shards: sum the squares over the ranks that hold them, or leave "
          "it to DTensor, or to clip_grad_norm_() of FullyShardedDataParallel"};
}

/// No gradient is the same on all ranks.
RankCause cause_of_all_gradients(const ReplicaDifference& first) noexcept {
  if (first.shared_by_some) {
    return {"gradients of some ranks differ",
            "other ranks, which read other data, have the same gradients",
            "look for what changes gradients on these ranks behind the reduction, and for a "
            "reduction that leaves them out"};
  }
  if (first.has_wrapper && first.some_have_none) {
    return {"gradients not reduced",
            "no gradient is the same on all ranks when the optimizer reads it, and some parameters "
            "have none: DistributedDataParallel waits for these and reduces nothing",
            "set find_unused_parameters=True of DistributedDataParallel where a pass leaves "
            "parameters out, and let the last micro-batch of a step run outside of no_sync()"};
  }
  if (!first.has_wrapper) {
    return {"gradients not reduced",
            "no gradient is the same on all ranks when the optimizer reads it",
            "average every gradient over all ranks behind the last backward pass of a step "
            "(all_reduce), or let DistributedDataParallel do it"};
  }
  return {"gradients not reduced",
          "no gradient is the same on all ranks when the optimizer reads it",
          "let the last micro-batch of a step run outside of no_sync(), and call the model by "
          "its wrapper"};
}

RankCause cause_behind_backward(const ReplicaDifference& first) noexcept {
  if (first.behind_reduction->by_norm) {
    return {"gradients are clipped by other norms",
            "the gradients were the same on all ranks before they were multiplied by a factor that "
            "is made of a norm",
            "clip by the norm of all shards: sum the squares over the ranks that hold them"};
  }
  if (first.behind_reduction->reduced) {
    return {"gradients changed behind their reduction",
            "a collective gave all ranks the same, and their optimizers read something else",
            "do the same to gradients on every rank between the reduction and the step: look for "
            "another divisor, a scale, a clip or weight decay on some ranks alone, and for a "
            "communication hook that computes otherwise there"};
  }
  return {
      "gradients changed behind the backward pass",
      "the backward pass gave all ranks the same, and their optimizers read something else",
      "do the same to gradients on every rank between the backward pass and the step: look for a "
      "scale, a clip or weight decay on some ranks alone"};
}

RankCause cause_of_gradients(const ReplicaDifference& first) noexcept {
  if (first.names.empty()) {
    return {"gradients not reduced",
            "parts of the ranks are equal each, and have other gradients than the others",
            "look for a reduction that does not reach all ranks: a group of those of one "
            "machine alone, or a parameter that it leaves out"};
  }
  if (first.clipped_by_some) {
    return {"gradients are clipped on some ranks alone",
            "in this step ranks clip their gradients, and others do not",
            "clip on all ranks or on none: look for a condition on the rank, or on a value that is "
            "not the same on all of them"};
  }
  if (first.behind_reduction) return cause_behind_backward(first);
  if (first.other_passes) {
    return {"the optimizer skipped a step on some ranks",
            "the ranks made other numbers of backward passes before this step of their optimizers",
            "step the optimizer on all ranks or on none: look for a condition on the loss, on the "
            "data or on what one rank catches"};
  }
  if (first.past_wrapper) {
    return {"the model was called past its wrapper",
            "the forward pass of this step did not come through DistributedDataParallel, which "
            "reduces gradients only of those that do",
            "call the wrapper itself, not wrapper.module, nor the module that it was made of"};
  }
  if (first.beside_parts) {
    return {"replicated weights with partial gradients",
            "they are the same on all ranks, beside parameters of which each rank holds its "
            "own part, and on each they have the gradient of what that part did",
            "sum their gradients over the ranks that share the work before the optimizer reads "
            "them, as sequence parallelism needs it of the weights of norms, or distribute the "
            "module by torch.distributed.tensor.parallel"};
  }
  if (first.names.size() == first.of) return cause_of_all_gradients(first);
  if (first.some_have_none) {
    return {"some gradients not reduced",
            "the others are the same on all ranks when the optimizer reads them, and on some ranks "
            "parameters have none",
            "look for what takes gradients away on one rank alone, and for parameters that a pass "
            "leaves out there (find_unused_parameters)"};
  }
  return {"some gradients not reduced",
          "the others are the same on all ranks when the optimizer reads them",
          "look for parameters that the reduction leaves out: replaced after wrapping, unused in "
          "some passes (find_unused_parameters), or skipped by a condition; and for what changes "
          "gradients behind it on one rank alone"};
}

RankCause cause_of_buffers(const ReplicaDifference& first) noexcept {
  if (!first.has_wrapper) {
    return {"running statistics drift apart",
            "nothing hands buffers out before the forward pass",
            "use SyncBatchNorm, or broadcast the buffers of one rank before each step"};
  }
  return {"running statistics drift apart",
          "buffers are not handed out before the forward pass",
          "leave broadcast_buffers of DistributedDataParallel on, or use SyncBatchNorm"};
}

RankCause cause_of_rates(const ReplicaDifference& first) noexcept {
  if (first.other_groups) {
    return {"the optimizers have other parameter groups",
            "the gradients are the same on all ranks",
            "make the optimizer with the same parameter groups on every rank"};
  }
  if (first.step == 0) {
    return {"learning rates differ",
            "the gradients are the same on all ranks, and the rates differ from the first step "
            "on",
            "make the optimizer with the same lr on every rank"};
  }
  return {"learning rates differ",
          "the gradients are the same on all ranks",
          "step the scheduler on every rank alike, and load its state on all of them"};
}

RankCause cause_of_activations(const ReplicaDifference& first) noexcept {
  constexpr std::string_view kName = "activations differ outside of tensor parallelism";
  if (first.other_inputs) {
    return {kName,
            "these ranks work on parts of the same tensors, and read other data",
            "give all ranks of a tensor parallel group the same batches: seed and shard the data "
            "by the place along the data parallel axis alone"};
  }
  if (first.other_draws) {
    return {kName,
            "these ranks read the same data, and drew other numbers before it",
            "seed the ranks of a tensor parallel group alike for what is outside of its parts, as "
            "dropout, and by rank only for what each does to its own"};
  }
  return {kName,
          "these ranks read the same data and drew the same numbers",
          "look for what differs before it: weights that are not the same on all ranks of the "
          "group, a sum that not all of them make, code under `if rank == 0`"};
}

RankCause cause_of_kind(const ReplicaDifference& first) noexcept {
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
      return cause_of_buffers(first);
    case ReplicaKind::kActivations:
      return cause_of_activations(first);
    case ReplicaKind::kClipping:
      return cause_of_clipping(first);
    case ReplicaKind::kLossScale:
      if (first.names.empty() || !first.names.front().starts_with(core::kFoundInfPrefix)) {
        return {"loss scales differ",
                "the ranks skip the same steps",
                "load the state of the scaler on every rank, and update it on all of them alike"};
      }
      return {"skipped steps differ",
              "found_inf was not reduced: ranks whose gradients overflow skip the step, and the "
              "others make it",
              "let every rank know of an overflow on any: reduce gradients before unscale_(), or "
              "found_inf itself where each rank holds a part of them (ShardedGradScaler)"};
    case ReplicaKind::kGradients:
      return cause_of_gradients(first);
    case ReplicaKind::kLearningRates:
      return cause_of_rates(first);
    case ReplicaKind::kOptions:
      return {
          "options of the optimizers differ",
          "the gradients are the same on all ranks",
          "make the optimizer with the same options on every rank, and load its state on all of "
          "them alike"};
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
      "gradients, the numbers that the optimizer was told and its state are the same on all ranks",
      "look for what writes parameters on one rank alone, and for other switches of its optimizer"};
}

}  // namespace

RankCause cause_of(const ReplicaDifference& first) noexcept {
  RankCause cause = cause_of_kind(first);
  const bool is_of_step =
      first.kind == ReplicaKind::kLearningRates || first.kind == ReplicaKind::kOptions ||
      first.kind == ReplicaKind::kOptimizerState || first.kind == ReplicaKind::kParameters;
  if (is_of_step && !first.knows_gradients) {
    cause.evidence = "no gradient of this step could be held against another rank's";
  }
  return cause;
}

RanksReport judge(const RankReads& reads) { return ReplicaComparison(reads).run(); }

core::ExitCode exit_code_of(const RanksReport& report) noexcept {
  const bool damaged = std::ranges::any_of(report.ranks, [](const RankState& state) {
    return !state.is_read() || !state.last_operator.empty();
  });
  const bool proven = std::ranges::any_of(report.findings, [](const RankFinding& finding) {
    return finding.weight == RankFinding::Weight::kProof;
  });
  if (damaged) return core::ExitCode::kDumpUnusable;
  if (!report.why_not.empty() && report.leading() == nullptr && !proven) {
    return core::ExitCode::kNotComparable;
  }
  if (report.leading() != nullptr || proven) return core::ExitCode::kDivergence;
  const bool nothing = report.steps == 0 || report.compared() == 0 || report.ranks.size() < 2 ||
                       report.knows_no_replica();
  return nothing || !report.absent.empty() ? core::ExitCode::kNotComparable
                                           : core::ExitCode::kReproducible;
}

}  // namespace repro_check::comparators
