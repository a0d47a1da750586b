// SPDX-License-Identifier: Apache-2.0
#include "cmd/ranks/rank_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "cmd/words/causes.h"
#include "cmd/words/finding_words.h"
#include "core/digest/digest.h"
#include "core/error.h"

namespace repro_check::cmd {

using comparators::ClippedNorm;
using comparators::RankRead;
using comparators::RankReads;
using comparators::ReplicaColumn;
using comparators::ReplicaItems;
using comparators::ReplicaSeries;
using comparators::SharedColumns;

namespace {

/// The roots of one series.
struct RootColumn {
  ReplicaSeries series;
  std::optional<std::uint32_t> as_rank;  ///< the same there: then nothing else stands here
  ReplicaColumn column;
};

/// What a rank exchanged in one order.
struct ChainColumn {
  /// Empty: as in that column of that rank, and the chain too.
  std::optional<comparators::ExchangeKey> key;
  std::uint32_t as_rank = 0;
  std::size_t as_column = 0;
  comparators::CallChain chain;
};

/// What a rank has: its own, or that of a rank before it.
template <typename T>
struct Told {
  std::optional<std::uint32_t> as_rank;
  T own;  ///< empty where another one's is meant
};

struct RankLine {
  RankRead rank;  ///< but for its roots, and what a rank begins with
  std::vector<std::string> unwrapped;
  std::vector<std::string> exchanged;
  std::vector<RootColumn> columns;
  Told<ReplicaItems> beginning;
  Told<ReplicaItems> gradients;
  Told<ReplicaItems> parts;
  Told<std::vector<ClippedNorm>> norms;
  std::vector<std::uint32_t> past_wrapper;
  std::vector<std::string> peers;
  std::vector<ChainColumn> exchanges;
};

/// What a root is made of.
struct RootLine {
  core::Digest root;
  ReplicaItems items;
  std::optional<ReplicaItems> reduction;  ///< of gradients, where it was looked for
  std::optional<ReplicaItems> unclipped;
};

}  // namespace

void describe(auto f, Of<decltype(f), comparators::ReplicaKind>& it) {
  f.word(it, comparators::ReplicaKind::kParameters, comparators::replica_kind_name);
}

DESCRIBE(comparators::StepInputs, NAMED("steps", step) NAMED("digests", digest))
DESCRIBE(comparators::StepDraws,
         NAMED("steps", step) NAMED("digests", digest) MEMBER(draws) NAMED("seeds", seed))
DESCRIBE(comparators::StepPasses, NAMED("steps", step) MEMBER(passes))
DESCRIBE(
    comparators::ReplicaItem,
    NAMED("names", name) NAMED("digests", digest).unless_empty("ops", it.op) SOMETIMES(by_norm))

void describe(JsonWriter f, const ReplicaItems& it) { describe(f, Columns{it}); }
void describe(JsonReader f, ReplicaItems& it) { describe(f, Columns{it}); }

template <typename T>
void describe(JsonWriter f, const Told<T>& it) {
  f SOMETIMES(as_rank);
  if (!it.as_rank) f MEMBER(own);
}
template <typename T>
void describe(JsonReader f, Told<T>& it) {
  f SOMETIMES(as_rank);
  if (!it.as_rank) f MEMBER(own);
}

DESCRIBE(RootColumn,
         NAMED("kind", series.kind) NAMED("ordinal", series.ordinal) NAMED("part", series.part)
             SOMETIMES(as_rank) NAMED("steps", column.steps) NAMED("digests", column.digests)
                 NAMED("ops", column.ops) NAMED("items", column.items))
void describe(auto f, Of<decltype(f), comparators::ExchangeKind>& it) {
  f.word(it, comparators::kLastExchange, comparators::exchange_name);
}

DESCRIBE(comparators::RankGroup, MEMBER(name) MEMBER(ranks))
DESCRIBE(comparators::ExchangeKey,
         MEMBER(kind) MEMBER(group) SOMETIMES(from) SOMETIMES(to) SOMETIMES(tag))
DESCRIBE(comparators::CallChain,
         MEMBER(count) MEMBER(blocks) SOMETIMES(contents) SOMETIMES(unbalanced))
DESCRIBE(comparators::Splits, MEMBER(sends) MEMBER(receives))
DESCRIBE(ChainColumn, SOMETIMES(key) SOMETIMES(as_rank) SOMETIMES(as_column) MEMBER(chain))
DESCRIBE(comparators::CollectiveCall,
         MEMBER(op) MEMBER(type) MEMBER(tensors) MEMBER(dtypes) MEMBER(sizes) MEMBER(root)
             SOMETIMES(reduce_op) MEMBER(sequence) MEMBER(step) MEMBER(line) SOMETIMES(given)
                 SOMETIMES(splits))
DESCRIBE(comparators::ToldCalls, MEMBER(rank) MEMBER(key) MEMBER(first) MEMBER(calls))
DESCRIBE(comparators::NormPart, MEMBER(place) MEMBER(names) MEMBER(squares))
DESCRIBE(ClippedNorm,
         MEMBER(step) MEMBER(norm) MEMBER(is_l2) MEMBER(elements) MEMBER(epsilon)
             SOMETIMES(why_open) MEMBER(parts))
DESCRIBE(RootLine, MEMBER(root) MEMBER(items) SOMETIMES(reduction) SOMETIMES(unclipped))

constexpr std::string_view stage_name(comparators::NanStage stage) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"read", "loss", "parameters"};
  return kNames.at(static_cast<std::size_t>(stage));
}
void describe(auto f, Of<decltype(f), comparators::NanStage>& it) {
  f.word(it, comparators::NanStage::kParameters, stage_name);
}
DESCRIBE(comparators::NanValue, MEMBER(step) MEMBER(stage) MEMBER(op) MEMBER(name))

DESCRIBE(comparators::LoaderRead,
         MEMBER(loader) MEMBER(name) MEMBER(trains) MEMBER(batches) MEMBER(samples) MEMBER(distinct)
             MEMBER(contents) MEMBER(first_batch) SOMETIMES(numbers) SOMETIMES(digests)
                 MEMBER(is_whole))
DESCRIBE(comparators::RankData, SOMETIMES(findings) SOMETIMES(loaders))

void describe(auto f, Of<decltype(f), comparators::StillReason>& it) {
  f.word(it, comparators::kLastStillReason, comparators::still_reason_name);
}
DESCRIBE(comparators::StillParameter, MEMBER(name) MEMBER(reason))

void describe(auto f, Of<decltype(f), RankLine>& it) {
  describe(f, it.rank.state);
  f SOMETIMES(unwrapped) SOMETIMES(exchanged) NAMED("run_id", rank.run_id)
      NAMED("attempt", rank.attempt) NAMED("only", rank.only) NAMED("averages", rank.averages)
          NAMED("joined", rank.joined) NAMED("still", rank.roots.still);
  f NAMED("ranks", rank.ranks) NAMED("wrapped", rank.replicas.declared)
      NAMED("has_wrapper", rank.has_wrapper) NAMED("replicas", rank.replicas.ranks) NAMED(
          "exchanges_behind", rank.roots.exchanges_behind)
          NAMED("has_gradients", rank.roots.has_gradients) NAMED(
              "finds_gradients", rank.roots.finds_gradients)("draws", Columns{it.rank.roots.draws})(
              "passes", Columns{it.rank.roots.passes})MEMBER(norms)
              .unless_empty("passes_on", it.rank.roots.passes_on) SOMETIMES(past_wrapper)
                  SOMETIMES(peers)
              .unless_empty("of_blocks", it.rank.of_blocks)
              .unless_empty("stays", it.rank.roots.stays)
              .unless_empty("nan", it.rank.roots.nan) NAMED("tensors_unread", rank.roots.unread)
                  NAMED("unplaced", rank.roots.exchanges.unplaced)
                      NAMED("inside", rank.roots.exchanges.inside)
                          MEMBER(exchanges)("inputs", Columns{it.rank.roots.inputs})
                              NAMED("data", rank.roots.data) MEMBER(beginning) MEMBER(gradients)
                                  MEMBER(parts) NAMED("roots", columns);
}

namespace {

/// Tells what one rank after the other has of something.
template <typename T>
class Teller {
 public:
  Told<T> tell(std::uint32_t rank, T own) {
    const auto [found, is_new] = since_.try_emplace(json_of(own).dump(), rank);
    return is_new ? Told<T>{{}, std::move(own)} : Told<T>{found->second, {}};
  }

 private:
  std::map<std::string, std::uint32_t> since_;  ///< the first rank that has it
};

/// The inverse.
template <typename T>
class Hearer {
 public:
  /// Borrowed.
  const T& hear(std::uint32_t rank, Told<T>&& told) {
    if (!told.as_rank) own_[rank] = std::move(told.own);
    return own_.at(told.as_rank.value_or(rank));
  }

 private:
  std::map<std::uint32_t, T> own_;
};

/// Of one slice: finds what a rank has as another one before it.
class LineWriter {
 public:
  RankLine line_of(const RankRead& rank) {
    RankLine line;
    line.rank = rank;
    line.past_wrapper.assign(rank.roots.past_wrapper.begin(), rank.roots.past_wrapper.end());
    line.peers.assign(rank.roots.peers.begin(), rank.roots.peers.end());
    line.unwrapped.assign(rank.replicas.unwrapped.begin(), rank.replicas.unwrapped.end());
    line.exchanged.assign(rank.roots.exchanged.begin(), rank.roots.exchanged.end());
    const std::uint32_t number = rank.state.recording.rank;
    for (const auto& [key, chain] : rank.roots.exchanges.chains) {
      line.exchanges.push_back(column_of(number, line.exchanges.size(), {key, 0, 0, chain}));
    }
    line.beginning = beginnings_.tell(number, rank.roots.beginning);
    line.norms = norms_.tell(number, rank.roots.norms);
    line.gradients = gradients_.tell(number, rank.roots.gradients);
    line.parts = parts_.tell(number, rank.roots.parts);
    for (const auto& [series, column] : rank.roots.columns) {
      const auto [found, is_new] = since_.try_emplace({series, column}, number);
      if (is_new) {
        line.columns.push_back({series, {}, *column});
      } else {
        line.columns.push_back({series, found->second, {}});
      }
    }
    return line;
  }

 private:
  ChainColumn column_of(std::uint32_t rank, std::size_t place, const ChainColumn& column) {
    const auto [found, is_new] =
        chains_.try_emplace(json_of(column).dump(), std::pair(rank, place));
    return is_new ? column : ChainColumn{{}, found->second.first, found->second.second, {}};
  }

  Teller<ReplicaItems> beginnings_;
  Teller<ReplicaItems> gradients_;
  Teller<ReplicaItems> parts_;
  Teller<std::vector<ClippedNorm>> norms_;
  /// The first rank that has a column.
  std::map<std::pair<ReplicaSeries, SharedColumns::Shared>, std::uint32_t> since_;
  std::map<std::string, std::pair<std::uint32_t, std::size_t>> chains_;
};

/// Of one slice: the inverse.
class LineReader {
 public:
  void read(const Json& json, RankReads& into) {
    const std::string type = json.at("type");
    const JsonReader reader(json);
    if (type == "rank") {
      into.ranks.push_back(rank_of(reader));
    } else if (type == "root") {
      RootLine line;
      describe(reader, line);
      into.items.emplace(line.root, std::move(line.items));
      if (line.reduction) into.reductions.emplace(line.root, *std::move(line.reduction));
      if (line.unclipped) into.unclipped.emplace(line.root, *std::move(line.unclipped));
    } else if (type == "calls") {
      describe(reader, into.told.emplace_back());
    } else if (type == "set_aside") {
      const auto names = json.at("names").get<std::vector<std::string>>();
      into.apart.insert(names.begin(), names.end());
    } else {
      reader.refuse("nothing is called \"" + type + "\"");
    }
  }

 private:
  RankRead rank_of(JsonReader reader) {
    RankLine line;
    describe(reader, line);
    RankRead& rank = line.rank;
    const std::uint32_t number = rank.state.recording.rank;
    rank.roots.steps = rank.state.steps;
    rank.roots.norms = norms_.hear(number, std::move(line.norms));
    rank.roots.past_wrapper.insert(line.past_wrapper.begin(), line.past_wrapper.end());
    rank.roots.peers.insert(line.peers.begin(), line.peers.end());
    rank.replicas.unwrapped.insert(line.unwrapped.begin(), line.unwrapped.end());
    rank.roots.exchanged.insert(line.exchanged.begin(), line.exchanged.end());
    for (std::size_t i = 0; i < line.exchanges.size(); ++i) {
      ChainColumn& column = line.exchanges[i];
      if (!column.key) column = chains_.at({column.as_rank, column.as_column});
      rank.roots.exchanges.chains[*column.key] = column.chain;
      chains_[{number, i}] = std::move(column);
    }
    rank.roots.beginning = beginnings_.hear(number, std::move(line.beginning));
    rank.roots.gradients = gradients_.hear(number, std::move(line.gradients));
    rank.roots.parts = parts_.hear(number, std::move(line.parts));
    for (auto& [series, as_rank, column] : line.columns) {
      if (!as_rank) columns_[{number, series}] = shared_.keep(whole(std::move(column)));
      rank.roots.columns.emplace(series, columns_.at({as_rank.value_or(number), series}));
    }
    return std::move(rank);
  }

  static ReplicaColumn whole(ReplicaColumn column) {
    const std::size_t steps = column.steps.size();
    const bool ascends =
        std::ranges::adjacent_find(column.steps, std::greater_equal()) == column.steps.end();
    const bool is_whole = ascends && column.digests.size() == steps && column.ops.size() == steps &&
                          column.items.size() == steps;
    if (!is_whole) throw std::out_of_range("the roots of a rank are not whole");
    return column;
  }

  Hearer<ReplicaItems> beginnings_;
  Hearer<ReplicaItems> gradients_;
  Hearer<ReplicaItems> parts_;
  Hearer<std::vector<ClippedNorm>> norms_;
  SharedColumns shared_;
  std::map<std::pair<std::uint32_t, ReplicaSeries>, SharedColumns::Shared> columns_;
  std::map<std::pair<std::uint32_t, std::size_t>, ChainColumn> chains_;
};

template <typename T>
Json typed(const char* type, const T& value) {
  Json line{{"type", type}};
  line.update(json_of(value));
  return line;
}

}  // namespace

std::vector<Json> lines_of(const RankReads& reads) {
  std::vector<Json> lines;
  if (!reads.apart.empty()) {
    lines.push_back({{"type", "set_aside"}, {"names", reads.apart}});
  }
  LineWriter writer;
  for (const RankRead& rank : reads.ranks) lines.push_back(typed("rank", writer.line_of(rank)));
  for (const auto& [root, items] : reads.items) {
    const auto told = [root = root](const std::map<core::Digest, ReplicaItems>& of) {
      const auto found = of.find(root);
      return found == of.end() ? std::nullopt : std::optional(found->second);
    };
    lines.push_back(
        typed("root", RootLine{root, items, told(reads.reductions), told(reads.unclipped)}));
  }
  for (const comparators::ToldCalls& told : reads.told) lines.push_back(typed("calls", told));
  return lines;
}

RankReads reads_of(std::span<const RankSlice> slices) {
  std::vector<RankReads> parts;
  for (const RankSlice& slice : slices) {
    RankReads& part = parts.emplace_back();
    part.expected = slice.expected;
    part.asked = slice.ranks;
    LineReader reader;
    std::size_t number = 1;
    for (const Json& line : slice.lines) {
      ++number;
      try {
        reader.read(line, part);
      } catch (const std::exception& error) {
        throw core::damaged_dump(
            fmt::format("{}, line {} of a slice: {}", slice.file, number, error.what()));
      }
    }
  }
  return joined(std::move(parts));
}

}  // namespace repro_check::cmd
