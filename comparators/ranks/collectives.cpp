// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "comparators/report/report.h"
#include "core/text/text.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

struct CollectiveRule {
  std::string_view name;
  bool equal_sizes = false;  ///< else ranks may have their own, or only one has any
  bool gives_alike = false;  ///< all ranks have the same behind it
};
constexpr std::array<CollectiveRule, 16> kCollectives{{
    {"allreduce_", true, true},
    {"allreduce_coalesced_", true, true},
    {"broadcast_", true, true},
    {"reduce_", true, false},
    {"_allgather_base_", true, true},
    {"_reduce_scatter_base_", true, false},
    {"allgather_", false, true},
    {"allgather_coalesced_", false, true},
    {"allgather_into_tensor_coalesced_", false, true},
    {"all_reduce", true, true},
    {"all_reduce_", true, true},
    {"all_reduce_coalesced", false, true},
    {"broadcast", true, true},
    {"all_gather_into_tensor", true, true},
    {"all_gather_into_tensor_coalesced", false, true},
    {"reduce_scatter_tensor", true, false},
}};

/// @param op  `c10d::allreduce_`
CollectiveRule rule_of(std::string_view op) {
  const std::string_view name = op.substr(op.rfind(':') + 1);
  const auto found = std::ranges::find(kCollectives, name, &CollectiveRule::name);
  return found == kCollectives.end() ? CollectiveRule{} : *found;
}

void fold(std::string_view bytes, core::Digest& into) {
  std::string both(reinterpret_cast<const char*>(&into), sizeof into);
  both += bytes;
  into = core::digest_leaf(std::as_bytes(std::span(both)));
}

RankGroup group_in(const core::OpRecord& record) {
  RankGroup group{core::argument_or<std::string>(record, core::kGroupName), {}};
  for (const std::int64_t rank : core::list_argument<std::int64_t>(record, core::kGroupRanks)) {
    group.ranks.push_back(static_cast<std::uint32_t>(rank));
  }
  return group;
}

/// Of `float32 [2, 3], int64 [4]` the dtypes, and of each how many elements.
struct Contents {
  std::string dtypes;
  std::string elements;
  std::uint64_t all = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

Contents contents_of(std::string_view tensors) {
  Contents contents;
  while (!tensors.empty()) {
    const std::size_t open = std::min(tensors.find(" ["), tensors.size());
    const std::size_t close = std::min(tensors.find(']', open), tensors.size());
    if (!contents.dtypes.empty()) contents.dtypes += ", ";
    contents.dtypes += tensors.substr(0, open);
    std::uint64_t elements = 1;
    for (std::size_t at = open; at < close; ++at) {
      if (tensors[at] < '0' || tensors[at] > '9') continue;
      std::uint64_t size = 0;
      const auto [end, error] = std::from_chars(&tensors[at], tensors.data() + close, size);
      elements *= error == std::errc() ? size : 1;
      at = static_cast<std::size_t>(end - tensors.data());
    }
    contents.elements += fmt::format("{},", elements);
    contents.all += elements;
    contents.last = static_cast<std::int64_t>(elements);
    if (contents.dtypes.find(',') == std::string::npos) contents.first = contents.last;
    const std::size_t next = tensors.find_first_not_of(", ", std::min(close + 1, tensors.size()));
    tensors.remove_prefix(std::min(next, tensors.size()));
  }
  return contents;
}

/// Where someone stands whose place in the group is this.
std::uint32_t rank_at(const RankGroup& group, std::int64_t place) {
  return place >= 0 && static_cast<std::size_t>(place) < group.ranks.size()
             ? group.ranks[static_cast<std::size_t>(place)]
             : kAnyRank;
}

/// The output is the first of the tensors and the input the last, or it has one alone.
std::optional<Splits> splits_in(const core::OpRecord& record,
                                const Contents& contents,
                                std::size_t members) {
  if (core::find_argument(record, core::kCollectiveSends) == nullptr || members == 0) {
    return std::nullopt;
  }
  const auto parts = [&](std::string_view name, std::int64_t elements) {
    auto list = core::list_argument<std::int64_t>(record, name);
    if (list.empty()) list.assign(members, elements / static_cast<std::int64_t>(members));
    return list;
  };
  return Splits{parts(core::kCollectiveSends, contents.last),
                parts(core::kCollectiveReceives, contents.first)};
}

/// Of the part of one call that one member hands to another.
std::uint64_t hash_of_part(std::uint64_t call,
                           std::size_t from,
                           std::size_t to,
                           std::int64_t elements) {
  const std::array<std::uint64_t, 4> part{call, from, to, static_cast<std::uint64_t>(elements)};
  return core::digest_leaf(std::as_bytes(std::span(part))).low;
}

}  // namespace

bool gives_alike(std::string_view op) { return rule_of(op).gives_alike; }

std::optional<core::Digest> digest_of_outputs(const core::OpRecord& record) {
  std::string bytes;
  for (const core::TensorRecord& tensor : record.tensors) {
    if (!core::is_output(tensor)) continue;
    if (tensor.state != core::ContentState::kHashed) return std::nullopt;
    bytes.append(reinterpret_cast<const char*>(&tensor.digest), sizeof tensor.digest);
  }
  if (bytes.empty()) return std::nullopt;
  return core::digest_leaf(std::as_bytes(std::span(bytes)));
}

std::string_view exchange_name(ExchangeKind kind) noexcept {
  return core::word_at("collective|sent|received", static_cast<std::size_t>(kind));
}

std::string_view CollectiveCall::mismatch_with(const CollectiveCall& other) const noexcept {
  if (type != other.type) return "type";
  if (dtypes != other.dtypes) return "dtype";
  if (sizes != other.sizes) return "size";
  if (root != other.root) return "root";
  return reduce_op != other.reduce_op ? "reduce op" : "";
}

std::string CollectiveCall::key() const {
  return fmt::format("{}\n{}\n{}\n{}\n{}", type, dtypes, sizes, root, reduce_op);
}

std::optional<RankExchange> ExchangeReader::see(std::uint64_t index, const core::OpRecord& head) {
  const std::string_view name = head.op->name;
  if (!awaited_.empty()) see_readers(index);
  if (inside_) see_end(index, name);
  if (name == core::kGroupRecord) {
    RankGroup group = group_in(dump_.op(index));
    std::string key = group.name;
    groups_.insert_or_assign(std::move(key), std::move(group));
  }
  if (name != core::kCollectiveRecord) return std::nullopt;
  RankExchange exchange = exchange_of(dump_.op(index));
  inside_ = exchange.key;
  operator_ = exchange.call.op;
  has_returned_ = false;
  return exchange;
}

/// A collective has its results when it returns. Who goes on behind a message need not wait for it.
void ExchangeReader::see_end(std::uint64_t index, std::string_view name) {
  const bool returns = name == operator_;
  if (inside_->kind != ExchangeKind::kCollective) {
    if (returns && !has_returned_) see_message(index);
    if (!returns && has_returned_) inside_.reset();
    has_returned_ = has_returned_ || returns;
  } else if (returns) {
    const core::OpRecord record = dump_.op(index);
    if (record.results.empty()) return;
    const auto digest = gives_alike(name) ? digest_of_outputs(record) : std::nullopt;
    if (digest) given_ = {*inside_, *digest};
    inside_.reset();
  }
}

void ExchangeReader::see_message(std::uint64_t index) {
  const std::uint64_t number = messages_[*inside_]++;
  const core::OpRecord record = dump_.op(index);
  const auto inputs = std::ranges::count_if(record.tensors, core::is_input);
  const auto memory = std::ranges::find_if(record.tensors, core::is_input);
  if (inputs != 1) return;
  if (inside_->kind == ExchangeKind::kReceived) {
    awaited_.push_back({{*inside_, number, {}}, *memory, index});
  } else if (memory->state == core::ContentState::kHashed) {
    contents_.push_back({*inside_, number, memory->digest});
  }
}

/// Who receives need not wait for it at once: what it holds is known by who reads it first.
void ExchangeReader::see_readers(std::uint64_t index) {
  constexpr std::uint64_t kFarthest = 4096;
  const core::OpRecord record = dump_.op(index);
  const auto is_settled = [&](const Awaited& awaited) {
    const core::TensorRecord& memory = awaited.memory;
    for (const core::TensorRecord& tensor : record.tensors) {
      if (!core::is_input(tensor) || tensor.storage != memory.storage) continue;
      if (!std::cmp_equal(tensor.producer, awaited.op)) return true;
      if (tensor.state != core::ContentState::kHashed || tensor.shape != memory.shape ||
          tensor.strides != memory.strides || tensor.storage_offset != memory.storage_offset) {
        continue;
      }
      contents_.push_back(awaited.content);
      contents_.back().digest = tensor.digest;
      return true;
    }
    return index - awaited.op > kFarthest;
  };
  std::erase_if(awaited_, is_settled);
}

RankExchange ExchangeReader::exchange_of(const core::OpRecord& record) {
  RankExchange exchange;
  ExchangeKey& key = exchange.key;
  CollectiveCall& call = exchange.call;
  call.op = call.type = core::argument_or<std::string>(record, core::kCollectiveName);
  call.tensors = core::argument_or<std::string>(record, core::kCollectiveTensors);
  const Contents contents = contents_of(call.tensors);
  call.dtypes = contents.dtypes;
  exchange.elements = contents.all;
  if (rule_of(call.op).equal_sizes) call.sizes = call.tensors;
  call.root = core::argument_or<std::int64_t>(record, core::kCollectiveRoot, -1);
  call.reduce_op = core::argument_or<std::string>(record, core::kCollectiveReduceOp);
  call.sequence = core::argument_or<std::int64_t>(record, core::kCollectiveSequence);
  call.step = record.step;
  call.line = core::line_text(record.site.get());
  const auto group = groups_.find(core::argument_or<std::string>(record, core::kCollectiveGroup));
  if (group != groups_.end()) key.group = group->second;
  const auto own = std::ranges::find(key.group.ranks, rank_);
  call.member = static_cast<std::size_t>(own - key.group.ranks.begin());
  call.splits = splits_in(record, contents, key.group.ranks.size());
  const auto* tag = core::argument_as<std::int64_t>(record, core::kMessageTag);
  if (tag == nullptr) return exchange;
  // On the other side it is another operator, and may be of another shape.
  call.type.clear();
  call.sizes = contents.elements;
  const auto* to = core::argument_as<std::int64_t>(record, core::kMessageTo);
  key.kind = to != nullptr ? ExchangeKind::kSent : ExchangeKind::kReceived;
  key.tag = *tag;
  key.from = key.to = rank_;
  if (to != nullptr) {
    key.to = rank_at(key.group, *to);
  } else {
    key.from = rank_at(key.group, core::argument_or<std::int64_t>(record, core::kMessageFrom, -1));
  }
  return exchange;
}

void CallChain::add(const CollectiveCall& call) {
  if (count % kBlock == 0) blocks.emplace_back();
  fold(call.key(), blocks.back());
  if (call.splits) add_splits(call);
  ++count;
}

void CallChain::add_splits(const CollectiveCall& call) {
  unbalanced.resize(blocks.size());
  const auto& [sends, receives] = *call.splits;
  for (std::size_t to = 0; to < sends.size(); ++to) {
    unbalanced.back() += hash_of_part(count, call.member, to, sends[to]);
  }
  for (std::size_t from = 0; from < receives.size(); ++from) {
    unbalanced.back() -= hash_of_part(count, from, call.member, receives[from]);
  }
}

void CallChain::add_given(core::Digest digest) {
  fold({reinterpret_cast<const char*>(&digest), sizeof digest}, blocks.back());
}

std::optional<std::uint64_t> CallChain::first_other(const CallChain& other) const {
  const auto [one, two] = std::ranges::mismatch(blocks, other.blocks);
  if (one == blocks.end() && two == other.blocks.end()) return std::nullopt;
  return static_cast<std::uint64_t>(one - blocks.begin()) * kBlock;
}

std::optional<std::uint64_t> CallChain::first_other_content(const CallChain& other) const {
  for (std::size_t i = 0; i < std::min(contents.size(), other.contents.size()); ++i) {
    const bool is_known = contents[i] != 0 && other.contents[i] != 0;
    if (is_known && contents[i] != other.contents[i]) return i / kBlock * kBlock;
  }
  return std::nullopt;
}

void ExchangeRoots::add(const MessageContent& content) {
  const auto chain = chains.find(content.key);
  if (chain == chains.end()) return;
  std::vector<std::uint64_t>& contents = chain->second.contents;
  contents.resize(std::max<std::size_t>(contents.size(), content.number + 1));
  contents[content.number] = content.digest.low;
}

void ExchangeRoots::add(const RankExchange& exchange) {
  // What has a root that hands out takes nothing of the others.
  const bool is_of_all = exchange.key.kind == ExchangeKind::kCollective &&
                         (exchange.call.root < 0 || !exchange.call.reduce_op.empty());
  if (is_of_all) largest = std::max(largest, exchange.elements);
  if (exchange.key.group.name.empty()) {
    ++unplaced;
  } else {
    chains[exchange.key].add(exchange.call);
  }
}

void ExchangeRoots::add(const GivenToAll& given) {
  if (!given.key.group.name.empty()) chains.at(given.key).add_given(given.digest);
}

ToldCalls read_calls(const core::DumpSource& dump,
                     std::uint32_t rank,
                     const ExchangeKey& key,
                     std::uint64_t first) {
  ToldCalls told{rank, key, first, {}};
  ExchangeReader reader(dump, rank);
  std::uint64_t number = 0;
  constexpr std::uint64_t kFarther = 1024;
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    // Of the last one is told later what it holds.
    const bool is_whole = told.calls.size() == 2 * CallChain::kBlock;
    if (is_whole && (key.kind == ExchangeKind::kCollective || i > last + kFarther)) break;
    const auto exchange = reader.see(i, dump.op_head(i));
    for (const MessageContent& content : reader.take_contents()) {
      const bool is_told = content.key == key && content.number >= first &&
                           content.number - first < told.calls.size();
      if (is_told) told.calls[content.number - first].given = content.digest;
    }
    if (const auto given = reader.take_given(); given && given->key == key && number > first) {
      told.calls.back().given = given->digest;
    }
    if (is_whole || !exchange || exchange->key != key || number++ < first) continue;
    told.calls.push_back(exchange->call);
    last = i;
  }
  return told;
}

}  // namespace repro_check::comparators
