// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "comparators/ranks/exchange_match.h"
#include "comparators/ranks/gradient_norms.h"
#include "comparators/ranks/rank_reads.h"
#include "comparators/ranks/rank_roots.h"
#include "comparators/ranks/reductions.h"
#include "core/digest/digest.h"
#include "core/text/text.h"
#include "core/trace/program_records.h"

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
    exchanges_match_ = match_exchanges(reads_, report_);
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
    std::ranges::stable_sort(report_.findings, {}, &Finding::weight);
    return std::move(report_);
  }

 private:
  using Weight = Finding::Weight;

  /// The reference is good until the next finding.
  Finding& find(FindingId id, Weight weight) {
    return report_.findings.emplace_back(Finding{id, weight});
  }

  void note(const RankRead& rank) {
    report_.ranks.push_back(rank.state);
    if (!rank.state.is_read()) return;
    report_.unread += rank.roots.unread;
    report_.of_blocks = report_.of_blocks || rank.of_blocks;
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
    const auto differ_in = [&](FindingId id, auto say_of) {
      const auto said = sayings(say_of);
      if (said.size() < 2 || report_.why_not) return;
      std::vector<std::string> texts;
      texts.reserve(said.size());
      for (const auto& [of, ranks] : said) {
        texts.push_back(fmt::format("{} on {}", of, numbered("rank", ranks)));
      }
      report_.why_not = Finding{id, Weight::kProof};
      report_.why_not->with("said", std::move(texts));
    };
    differ_in(FindingId::kSeveralRuns, [](const RankRead& rank) {
      return rank.run_id.empty() ? std::string("unnamed") : rank.run_id;
    });
    differ_in(FindingId::kSeveralAttempts,
              [](const RankRead& rank) { return fmt::format("attempt {}", rank.attempt); });
    differ_in(FindingId::kSeveralParts, [](const RankRead& rank) {
      const std::string what = rank.of_blocks ? "blocks" : "";
      return rank.only.empty() ? (what.empty() ? "everything" : what)
                               : rank.only + (what.empty() ? "" : " of " + what);
    });
    const bool is_unnamed = !read_.empty() && std::ranges::all_of(read_, [](const RankRead* rank) {
      return rank->run_id.empty();
    });
    report_.is_unnamed = is_unnamed && read_.size() > 1;
    return report_.why_not.has_value();
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
    if (is_declared && !steps.empty()) {
      find(FindingId::kAveragedAtTimes, Weight::kNote).with("steps", std::move(steps));
      return;
    }
    report_.why_not = Finding{FindingId::kPartAndMeet, Weight::kSuspicion};
    report_.why_not->with("steps", std::move(steps));
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
    difference.of_blocks = report_.of_blocks;
    difference.past_wrapper = std::ranges::any_of(read_, [&](const RankRead* rank) {
      const std::set<std::uint32_t>& steps = rank->roots.past_wrapper;
      return report_.of_blocks ? !steps.empty() && *steps.begin() <= moment.step
                               : steps.contains(moment.step);
    });
    const RankRead& first = *held.front().rank;
    // Behind a step of a recording of blocks not all parameters are read.
    const std::uint32_t passes = begin_of_other_passes(held);
    const bool since_then = report_.of_blocks && passes > 0 && passes <= step;
    difference.other_passes = passes == step || since_then;
    difference.clipped_by_some = std::ranges::any_of(held, [&](const Held& each) {
      return report_.of_blocks
                 ? clips_until(*each.rank, moment.step) != clips_until(first, moment.step)
                 : clips_at(*each.rank, moment.step) != clips_at(first, moment.step);
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
    return one.name == other.name && one.by_norm == other.by_norm && one.digest == other.digest;
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
    const auto on = [](const ReplicaItem& item, const Held& where) {
      return BehindReduction{item.name, where.rank->number(), item.op, {}, item.by_norm};
    };
    const bool is_mine = mine != on_one.end() && !comes(*mine, theirs, on_other);
    const bool is_theirs = theirs != on_other.end() && !comes(*theirs, mine, on_one);
    if (is_mine && !is_theirs) return on(*mine, one);
    if (is_theirs && !is_mine) return on(*theirs, other);
    if (mine == on_one.end() || theirs == on_other.end()) return {};
    BehindReduction both = on(*mine, one);
    both.other = {theirs->name, other.rank->number()};
    both.by_norm = both.by_norm || theirs->by_norm;
    return both;
  }

  /// Ranks that have other numbers of micro-batches in all steps are meant to.
  static std::uint32_t begin_of_other_passes(const std::vector<Held>& held) {
    const auto since = [](const std::vector<StepPasses>& one, const std::vector<StepPasses>& two) {
      const auto [at, other] = std::ranges::mismatch(one, two);
      if (at == one.end() && other == two.end()) return kNever;
      return std::min(at == one.end() ? kNever : at->step,
                      other == two.end() ? kNever : other->step);
    };
    const auto& passes = held.front().rank->roots.passes;
    std::uint32_t first = kNever;
    for (const Held& each : held) first = std::min(first, since(passes, each.rank->roots.passes));
    return first;
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

  static std::set<std::uint32_t> clips_until(const RankRead& rank, std::uint32_t step) {
    std::set<std::uint32_t> steps;
    for (const auto& [series, column] : rank.roots.columns) {
      if (series.kind == ReplicaKind::kClipping) {
        steps.insert(column->steps.begin(), std::ranges::upper_bound(column->steps, step));
      }
    }
    return steps;
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
          clipped[core::placed_name(item.name).whole].insert(root);
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

  /// A wrapper says that ranks are replicas, which must read other data.
  [[nodiscard]] Weight data_weight() const {
    return is_declared(reads_.ranks) ? Weight::kProof : Weight::kSuspicion;
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
      find(FindingId::kSameData, data_weight()).with("ranks", ranks).with("steps", inputs->size());
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
      find(FindingId::kLeftJoinUneven, Weight::kNote).at_step(end);
      return;
    }
    if (least.state.steps == most.state.steps) return;
    const bool are_replicas = std::ranges::all_of(
        read_, [](const RankRead* rank) { return rank->replicas.everywhere(); });
    const bool skipped = all_passes(least) == all_passes(most);
    // Inside of join() who has no more batches takes part in what the others reduce.
    const bool joins = exchanges_match_ && are_replicas && !skipped &&
                       least.roots.exchanges_behind > most.roots.exchanges_behind;
    const FindingId id = !least.state.raised.empty() ? FindingId::kEndedByException
                         : joins                     ? FindingId::kJoinedToTheEnd
                         : skipped                   ? FindingId::kStepsSkipped
                                                     : FindingId::kStepsUneven;
    const Weight weight = id == FindingId::kJoinedToTheEnd                 ? Weight::kNote
                          : id == FindingId::kStepsSkipped && are_replicas ? Weight::kProof
                                                                           : Weight::kSuspicion;
    Finding& uneven = find(id, weight)
                          .with("least", least.state.steps)
                          .with("most", most.state.steps)
                          .with("other_rank", most.number())
                          .at_step(least.state.steps);
    uneven.where.rank = least.number();
    if (id == FindingId::kEndedByException) uneven.with("raised", least.state.raised);
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
    find(FindingId::kNoDraws, Weight::kSuspicion).with("ranks", std::move(silent)).at_step(since);
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
    Finding& nan = find(FindingId::kNanOnRank, Weight::kSuspicion)
                       .with("is_read", first->stage == NanStage::kRead)
                       .with("ranks", ranks);
    nan.where = {ranks.front(), first->step, first->op, "", first->name};
  }

  /// What is wrong with what the loaders of each rank hand out, and of several together.
  void find_data() {
    std::vector<std::pair<Finding, RankList>> found;
    std::map<std::int64_t, std::vector<Reading>> loaders;
    for (const RankRead* rank : read_) {
      const std::uint32_t number = rank->number();
      for (const Finding& finding : rank->roots.data.findings) {
        auto same = std::ranges::find(found, finding, &std::pair<Finding, RankList>::first);
        if (same == found.end()) same = found.insert(same, {finding, {}});
        same->second.push_back(number);
      }
      for (const LoaderRead& loader : rank->roots.data.loaders) {
        loaders[loader.loader].push_back({number, &loader});
      }
    }
    for (auto& [finding, ranks] : found) {
      if (ranks.size() != read_.size()) finding.with("ranks", std::move(ranks));
      report_.findings.push_back(std::move(finding));
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
      find(FindingId::kSameSamples, data_weight())
          .with("ranks", readers.ranks)
          .with("samples", readers.loader->samples)
          .where.line = readers.loader->name;
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
    find(FindingId::kSamplesPadded, Weight::kNote)
        .with("twice", twice)
        .with("samples", readers.size())
        .where.line = readings.front().loader->name;
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
    find(FindingId::kSamplesOverlap, Weight::kSuspicion)
        .with("shared", shared)
        .with("samples", samples)
        .where.line = loader;
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
    if (since == first) {
      find(FindingId::kMasksAreCopies, Weight::kSuspicion)
          .with("ranks", std::move(numbers))
          .with("draws", count);
      return;
    }
    find(FindingId::kGeneratorOfAnotherRank, Weight::kSuspicion)
        .with("ranks", std::move(numbers))
        .with("draws", count)
        .with("seed", std::to_string(begin->seed))
        .with("seeds", seeds_before(ranks, since))
        .at_step(since);
  }

  /// `seed 5 on rank 0, seed 6 on rank 1`
  static std::vector<std::string> seeds_before(const std::vector<const RankRead*>& ranks,
                                               std::uint32_t step) {
    constexpr std::size_t kShown = 4;
    std::vector<std::string> seeds;
    for (const RankRead* rank : ranks) {
      const auto at = std::ranges::lower_bound(rank->roots.draws, step, {}, &StepDraws::step);
      if (at == rank->roots.draws.begin() || seeds.size() == kShown) continue;
      seeds.push_back(fmt::format("seed {} on rank {}", std::prev(at)->seed, rank->number()));
    }
    return seeds;
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
          // Other ranks that hold the same part are replicas of these.
          const auto [whole, part, others, axes] = core::placed_name(item.name);
          if (part.size() <= 1) continue;  // no more than the mark
          Copies& copies = held[{whole, item.digest}];
          copies.parts.insert(part);
          copies.ranks.push_back(rank->number());
        }
      }
    }
    std::vector<std::string> names;
    RankList ranks;
    for (const auto& [key, copies] : held) {
      if (copies.parts.size() < 2) continue;
      if (names.empty()) ranks = copies.ranks;
      names.emplace_back(key.first);
    }
    if (names.empty()) return;
    find(FindingId::kPartsAreCopies, Weight::kSuspicion)
        .with("ranks", std::move(ranks))
        .with("names", std::move(names));
  }

  /// An optimizer that finds no gradient leaves its parameters alone.
  void find_no_gradients() {
    if (report_.of_blocks) return;
    const auto has_none = [](const RankRead* rank) {
      return rank->roots.steps > 0 && !rank->roots.beginning.empty() &&
             !rank->roots.finds_gradients;
    };
    if (read_.empty() || !std::ranges::all_of(read_, has_none)) return;
    trains_ = false;
    find(FindingId::kNoGradients, Weight::kProof).with("steps", report_.steps);
  }

  /// Samples that a rank trains on.
  static std::set<core::Digest> trained_by(const RankRead& rank) {
    std::set<core::Digest> trained;
    for (const LoaderRead& loader : rank.roots.data.loaders) {
      if (loader.trains) trained.insert(loader.digests.begin(), loader.digests.end());
    }
    return trained;
  }

  /// Samples that one rank trains on and another one validates with: each drew a split of its own.
  void find_validated() {
    std::set<core::Digest> trained;
    std::map<std::uint32_t, std::set<core::Digest>> own;
    for (const RankRead* rank : read_) {
      const auto& samples = own[rank->number()] = trained_by(*rank);
      trained.insert(samples.begin(), samples.end());
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
    find(FindingId::kTrainedAndValidated, Weight::kProof)
        .with("shared", shared.size())
        .with("ranks", std::move(ranks));
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
      const bool are_experts = std::ranges::any_of(
          names, [&](std::string_view name) { return exchanged.contains(name); });
      find_still(reason, {names.begin(), names.end()}, are_experts);
    }
  }

  void find_still(StillReason reason, std::vector<std::string> names, bool are_experts) {
    switch (reason) {
      case StillReason::kNoOptimizer:
        find(FindingId::kInNoOptimizer, Weight::kProof).with("names", std::move(names));
        break;
      case StillReason::kNoGradient:
        find(FindingId::kWithoutGradient, are_experts ? Weight::kProof : Weight::kSuspicion)
            .with("names", std::move(names))
            .with("are_experts", are_experts);
        break;
      case StillReason::kUnmoved:
        find(FindingId::kNotMoved, Weight::kSuspicion).with("names", std::move(names));
        break;
    }
  }

  void find_frozen() {
    const bool frozen = !read_.empty() && std::ranges::all_of(read_, [](const RankRead* rank) {
      if (rank->of_blocks) return rank->roots.stays.value_or(false);
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
    find(FindingId::kWeightsNeverMoved, Weight::kProof)
        .with("steps", report_.steps)
        .with("gradients", !report_.of_blocks);
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

FindingId cause_of_clipping(const ReplicaDifference& first) {
  if (first.names.empty()) return FindingId::kClippedInParts;
  if (std::ranges::find(first.names, core::kClippedNorm) == first.names.end()) {
    return FindingId::kClippedToOtherNorms;
  }
  if (first.other_parameters) return FindingId::kClippedOtherParameters;
  return first.follows ? FindingId::kClippedBeforeReduction : FindingId::kClippedByOwnNorm;
}

/// No gradient is the same on all ranks.
FindingId cause_of_all_gradients(const ReplicaDifference& first) {
  if (first.shared_by_some) return FindingId::kGradientsOfSomeRanksDiffer;
  return first.has_wrapper && first.some_have_none ? FindingId::kUnusedParameters
                                                   : FindingId::kGradientsNotReduced;
}

FindingId cause_of_gradients(const ReplicaDifference& first) {
  if (first.names.empty()) return FindingId::kReducedInParts;
  if (first.clipped_by_some) return FindingId::kClippedOnSomeRanks;
  if (const auto& behind = first.behind_reduction) {
    return behind->by_norm   ? FindingId::kScaledByOwnNorm
           : behind->reduced ? FindingId::kChangedBehindReduction
                             : FindingId::kChangedBehindBackward;
  }
  if (first.other_passes) return FindingId::kStepSkippedOnSomeRanks;
  if (first.past_wrapper) return FindingId::kCalledPastWrapper;
  if (first.beside_parts) return FindingId::kPartialGradients;
  if (first.names.size() == first.of) return cause_of_all_gradients(first);
  return first.some_have_none ? FindingId::kGradientsMissing : FindingId::kSomeGradientsNotReduced;
}

/// Of a recording of blocks: nothing says whether gradients, what the optimizer keeps, or somebody
/// beside it made them differ.
FindingId cause_of_parameters(const ReplicaDifference& first) {
  if (!first.of_blocks) return FindingId::kWeightsWritten;
  if (first.clipped_by_some) return FindingId::kClippedOnSomeRanks;
  if (first.other_passes) return FindingId::kStepSkippedOnSomeRanks;
  return first.past_wrapper ? FindingId::kCalledPastWrapper : FindingId::kWeightsPart;
}

FindingId cause_id(const ReplicaDifference& first) {
  switch (first.kind) {
    case ReplicaKind::kEntryParameters:
      if (first.step == 0) return FindingId::kInitialWeightsDiffer;
      return first.of_blocks ? cause_of_parameters(first) : FindingId::kWeightsWrittenBetweenSteps;
    case ReplicaKind::kEntryBuffers:
      return FindingId::kStatisticsDrift;
    case ReplicaKind::kActivations:
      return first.other_inputs  ? FindingId::kActivationsFromOtherData
             : first.other_draws ? FindingId::kActivationsFromOtherDraws
                                 : FindingId::kActivationsDiffer;
    case ReplicaKind::kClipping:
      return cause_of_clipping(first);
    case ReplicaKind::kLossScale:
      return first.names.empty() || !first.names.front().starts_with(core::kFoundInfPrefix)
                 ? FindingId::kLossScalesDiffer
                 : FindingId::kOverflowNotReduced;
    case ReplicaKind::kGradients:
      return cause_of_gradients(first);
    case ReplicaKind::kLearningRates:
      return first.other_groups ? FindingId::kParameterGroupsDiffer
                                : FindingId::kLearningRatesDiffer;
    case ReplicaKind::kOptions:
      return FindingId::kOptimizerOptionsDiffer;
    case ReplicaKind::kOptimizerState:
      return FindingId::kOptimizerStateDiffers;
    case ReplicaKind::kParameters:
      break;
  }
  return cause_of_parameters(first);
}

}  // namespace

Finding cause_of(const ReplicaDifference& first) {
  Finding cause{cause_id(first), Finding::Weight::kProof};
  cause.where.rank = first.rank;
  cause.where.step = first.step;
  cause.where.op = first.op;
  if (!first.names.empty()) cause.where.tensor = first.names.front();
  cause.with("names", first.names).with("odd_ranks", first.odd);
  cause.with("wrapper", first.has_wrapper).with("gradients", first.knows_gradients);
  if (first.kind == ReplicaKind::kLearningRates) cause.with("from_the_start", first.step == 0);
  if (cause.id == FindingId::kWeightsPart) cause.with("next", first.step + 1);
  return cause;
}

RanksReport judge(const RankReads& reads) { return ReplicaComparison(reads).run(); }

core::ExitCode exit_code_of(const RanksReport& report) noexcept {
  const bool damaged = std::ranges::any_of(report.ranks, [](const RankState& state) {
    return !state.is_read() || !state.last_operator.empty();
  });
  const bool proven = std::ranges::any_of(report.findings, [](const Finding& finding) {
    return finding.weight == Finding::Weight::kProof;
  });
  if (damaged) return core::ExitCode::kDumpUnusable;
  if (report.why_not && report.leading() == nullptr && !proven) {
    return core::ExitCode::kNotComparable;
  }
  if (report.leading() != nullptr || proven) return core::ExitCode::kDivergence;
  const bool nothing = report.steps == 0 || report.compared() == 0 || report.ranks.size() < 2 ||
                       report.knows_no_replica();
  return nothing || !report.absent.empty() ? core::ExitCode::kNotComparable
                                           : core::ExitCode::kReproducible;
}

}  // namespace repro_check::comparators
