// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/exchange_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/digest/digest.h"

namespace repro_check::comparators {
namespace {

using Calls = std::vector<CollectiveCall>;

/// Who makes one of those that must be alike.
struct Side {
  const RankRead* rank = nullptr;
  ExchangeKey key;  ///< there
  const CallChain* chain = nullptr;

  [[nodiscard]] std::uint32_t number() const { return rank->number(); }
  /// Whether it did not complete the call of that number.
  [[nodiscard]] bool is_inside(std::uint64_t call) const {
    return call + 1 == chain->count && rank->roots.exchanges.inside == key;
  }
};

/// The collectives of a group on all of its members, or messages as they are sent and as they are
/// received.
struct ComparedExchange {
  ExchangeKey key;
  std::vector<Side> sides;
  std::uint64_t least = 0;             ///< calls that all have
  std::optional<std::uint64_t> first;  ///< of the block in which they part
};

/// Two or more sides part at one of their calls.
struct Parting {
  Finding finding;
  std::uint32_t step = 0;
  bool is_mismatch = false;            ///< all came
  std::vector<std::uint32_t> waiting;  ///< ranks that did not complete it
  std::vector<std::uint32_t> missing;  ///< ranks that never came
};

/// Says which call it is; of two by which of them, as `other_operator`.
/// @param than  another one, by what else than that it is; null = none
void put_call(const CollectiveCall& call,
              const CollectiveCall* than,
              std::string_view prefix,
              Finding& finding) {
  const auto put = [&](std::string_view name, FieldValue value) {
    finding.with(fmt::format("{}{}", prefix, name), std::move(value));
  };
  put("operator", call.op);
  if (!call.tensors.empty()) put("tensors", call.tensors);
  if (prefix.empty()) {
    finding.where.line = call.line;
  } else if (!call.line.empty()) {
    put("line", call.line);
  }
  if (than == nullptr || call.type != than->type) return;
  if (call.root != than->root) put("root", call.root);
  if (call.reduce_op != than->reduce_op) put("reduce_op", call.reduce_op);
}

/// A proof about one exchange of a group.
Finding proof_of(FindingId id, const ExchangeKey& key, std::uint64_t number) {
  Finding finding{id, Finding::Weight::kProof};
  const auto count = static_cast<std::int64_t>(number);
  finding.with("group", key.group.name).with("ranks", key.group.ranks);
  if (key.kind == ExchangeKind::kCollective) return finding.with("collective", count);
  return finding.with("message", count)
      .with("from", std::int64_t{key.from})
      .with("to", std::int64_t{key.to})
      .with("tag", key.tag);
}

/// Where the first of those ended that never came.
void put_end(const RankState& state, Finding& finding) {
  finding.with("missing_rank", std::int64_t{state.recording.rank});
  if (!state.last_operator.empty()) {
    finding.with("last_operator", state.last_operator);
  } else if (!state.raised.empty()) {
    finding.with("raised", state.raised);
  } else {
    finding.with("came_to_its_end", true);
  }
}

/// Whether a call like this one comes from there on.
bool comes_later(const CollectiveCall& call, const Calls& calls, std::size_t from) {
  return std::any_of(
      calls.begin() + static_cast<std::ptrdiff_t>(std::min(from, calls.size())),
      calls.end(),
      [&](const CollectiveCall& other) { return call.mismatch_with(other).empty(); });
}

/// Those that can be read, by number.
class ExchangePairing {
 public:
  explicit ExchangePairing(std::span<const RankRead> ranks) {
    for (const RankRead& rank : ranks) {
      if (rank.state.is_read()) by_number_.emplace(rank.number(), &rank);
    }
  }

  [[nodiscard]] const RankRead* find(std::uint32_t number) const {
    const auto found = by_number_.find(number);
    return found == by_number_.end() ? nullptr : found->second;
  }

  [[nodiscard]] std::vector<ComparedExchange> compared() const {
    std::set<ExchangeKey> keys;
    for (const auto& [number, rank] : by_number_) {
      for (const auto& chain : rank->roots.exchanges.chains) {
        ExchangeKey key = chain.first;
        if (key.kind == ExchangeKind::kReceived) key.kind = ExchangeKind::kSent;
        keys.insert(std::move(key));
      }
    }
    std::vector<ComparedExchange> all;
    for (const ExchangeKey& key : keys) {
      ComparedExchange one{key, sides_of(key), 0, {}};
      if (one.sides.size() < 2) continue;
      one.least = one.sides.front().chain->count;
      for (const Side& side : one.sides) {
        one.least = std::min(one.least, side.chain->count);
        const auto other = one.sides.front().chain->first_other(*side.chain);
        if (other) one.first = std::min(one.first.value_or(*other), *other);
        const auto content = one.sides.front().chain->first_other_content(*side.chain);
        if (content && key.kind != ExchangeKind::kCollective) {
          one.first = std::min(one.first.value_or(*content), *content);
        }
      }
      if (const auto block = first_unbalanced(one)) {
        one.first = std::min(one.first.value_or(*block), *block);
      }
      all.push_back(std::move(one));
    }
    return all;
  }

 private:
  /// Number of the first call of the first block in which some part is not as long where it is sent
  /// as where it is received. It can be told of all members together alone.
  static std::optional<std::uint64_t> first_unbalanced(const ComparedExchange& one) {
    if (one.sides.size() != one.key.group.ranks.size()) return std::nullopt;
    std::vector<std::uint64_t> sums;
    for (const Side& side : one.sides) {
      const auto& own = side.chain->unbalanced;
      sums.resize(std::max(sums.size(), own.size()));
      for (std::size_t block = 0; block < own.size(); ++block) sums[block] += own[block];
    }
    const auto found = std::ranges::find_if(sums, [](std::uint64_t sum) { return sum != 0; });
    if (found == sums.end()) return std::nullopt;
    return static_cast<std::uint64_t>(found - sums.begin()) * CallChain::kBlock;
  }

  [[nodiscard]] std::vector<Side> sides_of(const ExchangeKey& key) const {
    std::vector<Side> sides;
    const auto add = [&](std::uint32_t number, const ExchangeKey& there) {
      static const CallChain none;
      const RankRead* rank = find(number);
      if (rank == nullptr) return;
      const auto found = rank->roots.exchanges.chains.find(there);
      const bool is_there = found != rank->roots.exchanges.chains.end();
      sides.push_back({rank, there, is_there ? &found->second : &none});
    };
    if (key.kind == ExchangeKind::kCollective) {
      for (const std::uint32_t number : key.group.ranks) add(number, key);
      return sides;
    }
    ExchangeKey received = key;
    received.kind = ExchangeKind::kReceived;
    ExchangeKey from_any = received;
    from_any.from = kAnyRank;
    const RankRead* receiver = find(key.to);
    // It may have taken what is sent here from any.
    if (receiver == nullptr || receiver->roots.exchanges.chains.contains(from_any)) return sides;
    add(key.from, key);
    add(key.to, received);
    return sides;
  }

  std::map<std::uint32_t, const RankRead*> by_number_;
};

class ExchangeMatching {
 public:
  ExchangeMatching(const RankReads& reads, RanksReport& report)
      : reads_(reads), report_(report), pairing_(reads.ranks) {}

  /// @return whether all match
  bool run() {
    for (const RankRead& rank : reads_.ranks) report_.unplaced += rank.roots.exchanges.unplaced;
    for (const ComparedExchange& one : pairing_.compared()) {
      const bool is_collective = one.key.kind == ExchangeKind::kCollective;
      (is_collective ? report_.collectives : report_.messages) += one.least;
      if (one.first) part(one);
    }
    keep_first();
    return partings_.empty();
  }

 private:
  /// What a rank that makes the same has told; null where no part of the ranks had reason to look.
  [[nodiscard]] const Calls* told_of(const Side& side, std::uint64_t first) const {
    static const Calls none;
    if (side.chain->count <= first) return &none;
    for (const ToldCalls& told : reads_.told) {
      if (told.first != first || told.key != side.key) continue;
      const RankRead* teller = pairing_.find(told.rank);
      if (teller == nullptr) continue;
      const auto chain = teller->roots.exchanges.chains.find(told.key);
      if (chain != teller->roots.exchanges.chains.end() && chain->second == *side.chain) {
        return &told.calls;
      }
    }
    return nullptr;
  }

  void part(const ComparedExchange& one) {
    std::vector<const Calls*> calls;
    std::size_t most = 0;
    for (const Side& side : one.sides) {
      const Calls* made = told_of(side, *one.first);
      if (made == nullptr) return note_untold(one);
      most = std::max(most, made->size());
      calls.push_back(made);
    }
    for (std::size_t i = 0; i < most; ++i) {
      if (auto parting = part_at(one, calls, i)) return partings_.push_back(*std::move(parting));
    }
  }

  void note_untold(const ComparedExchange& one) {
    Parting parting;
    parting.finding = proof_of(FindingId::kExchangesPart, one.key, *one.first + 1);
    partings_.push_back(std::move(parting));
  }

  [[nodiscard]] std::optional<Parting> part_at(const ComparedExchange& one,
                                               const std::vector<const Calls*>& calls,
                                               std::size_t i) const {
    const auto came =
        std::ranges::find_if(calls, [&](const Calls* own) { return own->size() > i; });
    const Side& side = one.sides[static_cast<std::size_t>(came - calls.begin())];
    const CollectiveCall& made = (**came)[i];
    Parting parting;
    parting.step = made.step;
    for (std::size_t other = 0; other < calls.size(); ++other) {
      const Side& there = one.sides[other];
      if (calls[other]->size() <= i) {
        parting.missing.push_back(there.number());
      } else if (there.is_inside(*one.first + i)) {
        parting.waiting.push_back(there.number());
      }
    }
    const std::uint64_t number = *one.first + i + 1;
    for (std::size_t other = 0; other < calls.size(); ++other) {
      if (calls[other]->size() <= i) continue;
      const CollectiveCall& instead = (*calls[other])[i];
      const std::string_view what = made.mismatch_with(instead);
      if (what.empty()) continue;
      const bool swapped = comes_later(made, *calls[other], i) && comes_later(instead, **came, i);
      parting.is_mismatch = true;
      parting.finding = proof_of(FindingId::kCollectiveMismatch, one.key, number);
      parting.finding.with("what", std::string(swapped ? "order" : what))
          .with("other_rank", std::int64_t{one.sides[other].number()});
      parting.finding.where = {side.number(), parting.step, {}, "", ""};
      put_call(made, &instead, "", parting.finding);
      put_call(instead, &made, "other_", parting.finding);
      return parting;
    }
    const bool is_message = one.key.kind != ExchangeKind::kCollective;
    auto other =
        is_message ? other_content(one, calls, i, number) : other_results(one, calls, i, number);
    if (!is_message && !other) other = other_splits(one, calls, i, number);
    if (other) {
      parting.is_mismatch = true;
      parting.finding = *std::move(other);
      return parting;
    }
    if (parting.missing.empty()) return std::nullopt;
    parting.finding = missing(parting, one, number, side, made);
    return parting;
  }

  /// What came is not what was sent.
  static std::optional<Finding> other_content(const ComparedExchange& one,
                                              const std::vector<const Calls*>& calls,
                                              std::size_t i,
                                              std::uint64_t number) {
    const bool came = std::ranges::all_of(calls, [&](const Calls* own) { return own->size() > i; });
    if (!came || calls.size() != 2) return std::nullopt;
    const CollectiveCall& sent = (*calls.front())[i];
    const CollectiveCall& received = (*calls.back())[i];
    if (!sent.given || !received.given || *sent.given == *received.given) return std::nullopt;
    Finding finding = proof_of(FindingId::kContentMismatch, one.key, number);
    finding.at_step(sent.step)
        .with("sent", core::to_hex(*sent.given))
        .with("received", core::to_hex(*received.given));
    put_call(sent, nullptr, "", finding);
    put_call(received, nullptr, "other_", finding);
    return finding;
  }

  /// All of them made it, and some part is not as long where it is sent as where it is received.
  static std::optional<Finding> other_splits(const ComparedExchange& one,
                                             const std::vector<const Calls*>& calls,
                                             std::size_t i,
                                             std::uint64_t number) {
    const std::size_t members = one.key.group.ranks.size();
    const auto knows = [&](const Calls* own) { return own->size() > i && (*own)[i].splits; };
    if (calls.size() != members || !std::ranges::all_of(calls, knows)) return std::nullopt;
    for (std::size_t from = 0; from < members; ++from) {
      const CollectiveCall& sent = (*calls[from])[i];
      for (std::size_t to = 0; to < members; ++to) {
        const CollectiveCall& received = (*calls[to])[i];
        const auto& sends = sent.splits->sends;
        const auto& receives = received.splits->receives;
        if (sends.size() != members || receives.size() != members) return std::nullopt;
        if (sends[to] == receives[from]) continue;
        Finding finding = proof_of(FindingId::kSplitMismatch, one.key, number);
        finding.where = {one.sides[from].number(), sent.step, {}, "", ""};
        finding.with("other_rank", std::int64_t{one.sides[to].number()})
            .with("sends", sends[to])
            .with("receives", receives[from]);
        put_call(received, nullptr, "", finding);
        return finding;
      }
    }
    return std::nullopt;
  }

  /// All of them made it, and some were given something else.
  static std::optional<Finding> other_results(const ComparedExchange& one,
                                              const std::vector<const Calls*>& calls,
                                              std::size_t i,
                                              std::uint64_t number) {
    std::map<core::Digest, std::vector<std::uint32_t>> ranks;
    const CollectiveCall* made = nullptr;
    for (std::size_t side = 0; side < calls.size(); ++side) {
      if (calls[side]->size() <= i || !(*calls[side])[i].given) continue;
      made = &(*calls[side])[i];
      ranks[*made->given].push_back(one.sides[side].number());
    }
    if (ranks.size() < 2) return std::nullopt;
    const auto size = [](const auto& entry) { return entry.second.size(); };
    const auto most = std::ranges::max_element(ranks, {}, size);
    const auto odd = std::ranges::min_element(ranks, {}, size);
    Finding finding = proof_of(FindingId::kResultMismatch, one.key, number);
    finding.at_step(made->step)
        .with("odd", odd == most ? std::next(most)->second : odd->second)
        .with("most", most->second);
    put_call(*made, nullptr, "", finding);
    return finding;
  }

  [[nodiscard]] const RankState& state_of(std::uint32_t rank) const {
    return pairing_.find(rank)->state;
  }

  [[nodiscard]] Finding missing(const Parting& parting,
                                const ComparedExchange& one,
                                std::uint64_t number,
                                const Side& side,
                                const CollectiveCall& made) const {
    const bool is_collective = one.key.kind == ExchangeKind::kCollective;
    Finding finding = proof_of(
        is_collective ? FindingId::kRankMissing : FindingId::kMessageMissing, one.key, number);
    finding.where = {side.number(), made.step, {}, "", ""};
    put_call(made, nullptr, "", finding);
    if (is_collective) {
      finding.with("missing", parting.missing)
          .with("incomplete", std::ranges::count(parting.waiting, side.number()) != 0);
    } else {
      const bool is_sent = side.key.kind == ExchangeKind::kSent;
      finding.with("what", is_sent ? "recv" : "send")
          .with("is_sent", is_sent)
          .with("incomplete", !parting.waiting.empty());
    }
    put_end(state_of(parting.missing.front()), finding);
    return finding;
  }

  /// Who waits in one makes others wait in those that it never came to: what is said are those that
  /// lead to none but themselves, of the earliest step.
  void keep_first() {
    std::map<std::uint32_t, std::size_t> waits_in;
    for (std::size_t i = 0; i < partings_.size(); ++i) {
      for (const std::uint32_t rank : partings_[i].waiting) waits_in.emplace(rank, i);
    }
    std::vector<std::set<std::size_t>> reached;
    for (std::size_t i = 0; i < partings_.size(); ++i) reached.push_back(causes_of(i, waits_in));
    std::vector<Parting> kept;
    for (std::size_t i = 0; i < partings_.size(); ++i) {
      const bool leads_on = std::ranges::any_of(
          reached[i], [&](std::size_t cause) { return !reached[cause].contains(i); });
      if (!leads_on) kept.push_back(std::move(partings_[i]));
    }
    std::ranges::stable_sort(kept, [](const Parting& one, const Parting& other) {
      return std::pair(one.step, !one.is_mismatch) < std::pair(other.step, !other.is_mismatch);
    });
    constexpr std::size_t kSaid = 3;
    for (std::size_t i = 0; i < std::min(kept.size(), kSaid); ++i) {
      if (kept[i].step != kept.front().step) break;
      report_.findings.push_back(std::move(kept[i].finding));
    }
  }

  /// All partings that ranks wait in which never came to this one, to those that never came there,
  /// and so on; and itself.
  [[nodiscard]] std::set<std::size_t> causes_of(
      std::size_t parting, const std::map<std::uint32_t, std::size_t>& waits_in) const {
    std::set<std::size_t> reached{parting};
    std::vector<std::size_t> ahead{parting};
    while (!ahead.empty()) {
      const std::size_t next = ahead.back();
      ahead.pop_back();
      for (const std::uint32_t rank : partings_[next].missing) {
        const auto found = waits_in.find(rank);
        if (found == waits_in.end() || !reached.insert(found->second).second) continue;
        ahead.push_back(found->second);
      }
    }
    return reached;
  }

  const RankReads& reads_;
  RanksReport& report_;
  const ExchangePairing pairing_;
  std::vector<Parting> partings_;
};

}  // namespace

std::vector<ToldCalls> calls_to_read(std::span<const RankRead> ranks) {
  std::vector<ToldCalls> wanted;
  for (const ComparedExchange& one : ExchangePairing(ranks).compared()) {
    if (!one.first) continue;
    std::vector<const CallChain*> seen;
    for (const Side& side : one.sides) {
      const bool is_known =
          std::ranges::any_of(seen, [&](const CallChain* chain) { return *chain == *side.chain; });
      if (side.chain->count <= *one.first || (is_known && side.key == one.key)) continue;
      seen.push_back(side.chain);
      wanted.push_back({side.number(), side.key, *one.first, {}});
    }
  }
  return wanted;
}

bool match_exchanges(const RankReads& reads, RanksReport& report) {
  return ExchangeMatching(reads, report).run();
}

}  // namespace repro_check::comparators
