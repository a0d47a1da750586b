// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// Ranks that exchange something, in the order of their group. Two groups may have one name.
struct RankGroup {
  std::string name;
  std::vector<std::uint32_t> ranks;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const RankGroup&) const = default;
};

enum class ExchangeKind : std::uint8_t { kCollective, kSent, kReceived };
inline constexpr ExchangeKind kLastExchange = ExchangeKind::kReceived;

/// `collective`, `sent`, `received`.
std::string_view exchange_name(ExchangeKind kind) noexcept;

/// What has one order: the collectives of a group, or its messages from one rank to another with
/// one tag, as that one sends them or as this one receives them.
struct ExchangeKey {
  ExchangeKind kind = ExchangeKind::kCollective;
  RankGroup group;  ///< without a name where nobody told it
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::int64_t tag = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const ExchangeKey&) const = default;
};
/// In the place of the sender of what is received from any.
inline constexpr std::uint32_t kAnyRank = std::numeric_limits<std::uint32_t>::max();

/// Elements of a collective in which each rank hands each of the group its own part.
struct Splits {
  std::vector<std::int64_t> sends;     ///< to each, in the order of the group
  std::vector<std::int64_t> receives;  ///< from each: that it makes room for
};

/// A collective that a rank entered, or a message that it sent or receives.
struct CollectiveCall {
  std::string op;       ///< `c10d::allreduce_`
  std::string type;     ///< the same of a collective; empty of a message
  std::string tensors;  ///< `float32 [244], int64 [2, 3]`
  std::string dtypes;   ///< `float32, int64`
  std::string sizes;    ///< what all ranks must have alike; empty where they need not
  std::int64_t root = -1;
  std::string reduce_op;  ///< `SUM`; empty of what reduces nothing
  std::int64_t sequence = 0;
  std::uint32_t step = 0;
  std::string line;  ///< `train.py:40`; empty where it is not known
  /// Of what it gave, where all ranks get the same, and of what a message holds, as it is sent and
  /// as it is read by who received it; empty where they do not, or it is not known.
  std::optional<core::Digest> given;
  std::optional<Splits> splits;  ///< where the operator has some, and the recording holds them
  std::size_t member = 0;        ///< place of the rank in the group

  /// `type`, `dtype`, `size`, `root`, as PyTorch's flight recorder says it, or `reduce op`; empty
  /// where both can be the same one.
  [[nodiscard]] std::string_view mismatch_with(const CollectiveCall& other) const noexcept;
  /// All that must be alike.
  [[nodiscard]] std::string key() const;
};

/// Whether all ranks have the same behind a collective: `c10d::allreduce_`.
bool gives_alike(std::string_view op);

/// Of all that an operator gave; empty where something of it was not read.
std::optional<core::Digest> digest_of_outputs(const core::OpRecord& record);

/// What a rank is about to exchange.
struct RankExchange {
  ExchangeKey key;
  CollectiveCall call;
  std::uint64_t elements = 0;  ///< of all its tensors
};

/// What a rank got of a collective that gives all of them the same.
struct GivenToAll {
  ExchangeKey key;
  core::Digest digest;
};

/// What a message holds.
struct MessageContent {
  ExchangeKey key;
  std::uint64_t number = 0;  ///< from 0, of those with that key
  core::Digest digest;
};

/// Reads what a rank exchanges, of its records in their order.
class ExchangeReader {
 public:
  /// @param dump  of that rank, borrowed
  ExchangeReader(const core::DumpSource& dump, std::uint32_t rank) : dump_(dump), rank_(rank) {}

  /// @param index  of `head` in the dump
  std::optional<RankExchange> see(std::uint64_t index, const core::OpRecord& head);
  /// What the last one gave, behind the record with which it ended; once.
  std::optional<GivenToAll> take_given() { return std::exchange(given_, std::nullopt); }
  /// What messages hold of which that is known by now; each once.
  std::vector<MessageContent> take_contents() { return std::exchange(contents_, {}); }
  /// The last one, where the rank did not complete it: it waits there, or it raised.
  [[nodiscard]] const std::optional<ExchangeKey>& inside() const noexcept { return inside_; }

 private:
  /// A message that was received, until an operator reads the memory that it lies in.
  struct Awaited {
    MessageContent content;
    core::TensorRecord memory;
    std::uint64_t op = 0;  ///< op index of what received it
  };

  RankExchange exchange_of(const core::OpRecord& record);
  void see_end(std::uint64_t index, std::string_view name);
  void see_message(std::uint64_t index);
  void see_readers(std::uint64_t index);

  const core::DumpSource& dump_;
  std::uint32_t rank_;
  std::map<std::string, RankGroup, std::less<>> groups_;  ///< as they are now
  std::optional<ExchangeKey> inside_;
  std::optional<GivenToAll> given_;
  std::vector<MessageContent> contents_;
  std::vector<Awaited> awaited_;
  std::map<ExchangeKey, std::uint64_t> messages_;  ///< so far
  std::string operator_;                           ///< of the last one
  bool has_returned_ = false;  ///< of a message: it is waited for by no operator
};

/// Calls in their order, by a digest for each block of them: what a rank keeps of them.
struct CallChain {
  static constexpr std::size_t kBlock = 64;

  std::vector<core::Digest> blocks;
  std::uint64_t count = 0;
  /// Of messages, by number, half of the digest of what they hold; 0 where it is not known.
  std::vector<std::uint64_t> contents;
  /// Of each block what the rank sends less what it expects, each part as a hash of who, to whom
  /// and how much: that of all members is 0 where every part is as long here as there. Empty where
  /// nothing is split.
  std::vector<std::uint64_t> unbalanced;

  void add(const CollectiveCall& call);
  /// Of the last call.
  void add_given(core::Digest digest);
  bool operator==(const CallChain&) const = default;
  /// Number of the first call of the first block that is another one; empty where all are equal.
  [[nodiscard]] std::optional<std::uint64_t> first_other(const CallChain& other) const;
  /// The same of messages that hold something else.
  [[nodiscard]] std::optional<std::uint64_t> first_other_content(const CallChain& other) const;

 private:
  void add_splits(const CollectiveCall& call);
};

/// What one rank exchanged.
struct ExchangeRoots {
  std::map<ExchangeKey, CallChain> chains;
  std::uint64_t unplaced = 0;  ///< in a group that nobody named
  /// Elements of the largest collective that takes something of every rank.
  std::uint64_t largest = 0;
  std::optional<ExchangeKey> inside;  ///< of which the rank did not complete the last

  void add(const RankExchange& exchange);
  void add(const GivenToAll& given);
  void add(const MessageContent& content);
};

/// Calls of a rank, looked at closely.
struct ToldCalls {
  std::uint32_t rank = 0;
  ExchangeKey key;
  std::uint64_t first = 0;  ///< number of the first of them, from 0
  std::vector<CollectiveCall> calls;
};

/// As many from `first` on as may be asked about.
/// @throws core::Error{kDumpDamaged}
ToldCalls read_calls(const core::DumpSource& dump,
                     std::uint32_t rank,
                     const ExchangeKey& key,
                     std::uint64_t first);

}  // namespace repro_check::comparators
