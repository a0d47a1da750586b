// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comparators/report/finding.h"
#include "core/error.h"
#include "core/trace/dump.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {

/// What replicas of one model must have alike, in the order in which a step comes by it: what
/// differs first made the others differ.
enum class ReplicaKind : std::uint8_t {
  kEntryParameters,  ///< when the first forward pass of a step begins
  kEntryBuffers,     ///< at the same moment: behind it they are each rank's own
  kActivations,      ///< where they go into tensors that lie on several ranks, and come out of them
  kClipping,         ///< the norm that gradients are clipped by, and to which
  kLossScale,        ///< behind the step that it was for, with what overflowed there
  kGradients,        ///< when the optimizer has read them
  kLearningRates,
  kOptions,         ///< other numbers that the optimizer was told
  kOptimizerState,  ///< behind the step of the optimizer, like the parameters
  kParameters,
};
inline constexpr std::size_t kReplicaKinds = static_cast<std::size_t>(ReplicaKind::kParameters) + 1;

/// `gradients`, `parameters when the forward pass begins`.
std::string_view replica_kind_name(ReplicaKind kind) noexcept;

/// A fact of the environment that is a whole number, as core::kRank is; empty where it is not
/// there, or is none.
std::optional<std::uint32_t> number_fact(const core::RunManifest& manifest, std::string_view name);

/// Ranks from `first` up to, and without, `end`.
struct RankRange {
  std::uint32_t first = 0;
  std::uint32_t end = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] bool contains(std::uint32_t rank) const noexcept {
    return first <= rank && rank < end;
  }
};

/// A recording of one rank.
struct RankRecording {
  std::uint32_t rank = 0;
  std::string location;
};

/// One of them as far as it could be read.
struct RankState {
  RankRecording recording;
  std::uint64_t operators = 0;
  std::uint32_t steps = 0;    ///< that its optimizer made
  std::string last_operator;  ///< where it did not come to its end
  std::string raised;         ///< the exception that ended its program, and where; empty = none
  std::string said;           ///< first line of its text
  std::string message;        ///< why it cannot be read; empty = it can

  [[nodiscard]] bool is_read() const noexcept { return message.empty(); }
};

/// A number as one rank has it.
struct RankNumber {
  std::uint32_t rank = 0;
  double value = 0;
};

/// A call on one rank.
struct RankCall {
  std::string call;  ///< `aten::mul_ (train.py:7)`
  std::uint32_t rank = 0;
};

/// What some ranks alone did to gradients behind their reduction.
struct BehindReduction {
  std::string call;  ///< `aten::mul_ (train.py:7)`; empty where it is not known
  std::uint32_t rank = 0;
  std::uint64_t op = 0;  ///< op index there
  /// What another rank called in its place; the same call where it gave something else there.
  std::optional<RankCall> other;
  bool by_norm = false;  ///< it is a factor that was made of a norm
  bool reduced = true;   ///< a collective gave all ranks the same; else their backward passes did
};

/// Where ranks part in one kind, for the first time.
struct ReplicaDifference {
  ReplicaKind kind = ReplicaKind::kParameters;
  std::uint32_t step = 0;
  /// That differ, sorted; empty where no dump with it was at hand.
  std::vector<std::string> names;
  std::size_t of = 0;  ///< names that were compared there
  /// Those that have something else than most have; empty where no majority says which is wrong.
  std::vector<std::uint32_t> odd;
  std::uint32_t rank = 0;  ///< one that differs: an odd one, or the last
  std::uint64_t op = 0;    ///< op index there of the record that holds it
  /// One that has something else than that rank.
  std::uint32_t other_rank = 0;
  std::uint64_t other_op = 0;
  RankList among;  ///< that must have it alike; empty = all
  /// Of the first name, where it is a number: as many as there are different ones, of which a few.
  std::vector<RankNumber> numbers;
  /// Of what is clipped: the gradients differ before it, of which no earlier record tells.
  bool follows = false;
  bool other_parameters = false;  ///< of what is clipped: the ranks clip other ones
  bool other_inputs = false;      ///< the ranks read other data in that step, or in one before it
  bool other_draws = false;       ///< or drew other numbers
  /// The ranks made other numbers of backward passes for the step, and not for those before it.
  bool other_passes = false;
  bool clipped_by_some = false;  ///< of gradients: ranks that clip them there, and some that do not
  bool has_wrapper = false;      ///< DistributedDataParallel is used at all
  bool other_groups = false;     ///< of learning rates: `numbers` are those of parameter groups
  /// Of what the optimizer makes of gradients: these were compared before, or in the same step.
  bool knows_gradients = false;
  bool some_have_none = false;  ///< of gradients: parameters beside them have none
  /// Of gradients that are clipped: `names` are those that differ before, and made the others
  /// differ.
  bool before_clipping = false;
  /// Of gradients: some of the ranks, which read other data, have the same.
  bool shared_by_some = false;
  /// Of gradients: a collective gave all ranks the same.
  std::optional<BehindReduction> behind_reduction;
  bool past_wrapper = false;  ///< the forward pass of that step did not come through the wrapper
  bool of_blocks = false;     ///< of no gradient anything is known
  /// Without a wrapper, where other parameters are each rank's own part: what is the same on all
  /// of them has on each the gradient of that part.
  bool beside_parts = false;
};

struct ReplicaTally {
  std::uint64_t moments = 0;  ///< at which all ranks had something of the kind
  std::uint64_t items = 0;    ///< tensors and numbers there, of one rank
  std::optional<ReplicaDifference> first;
};

struct RanksReport {
  std::uint32_t expected = 0;  ///< ranks that ran, as they say themselves
  std::vector<RankState> ranks;
  std::vector<std::uint32_t> absent;              ///< of the expected ones that were asked for
  std::uint32_t steps = 0;                        ///< that every rank that was read has made
  std::array<ReplicaTally, kReplicaKinds> kinds;  ///< by ReplicaKind
  std::size_t replicated = 0;                     ///< parameters that are compared
  /// Those that were not equal before the first step, and do not get the same gradients, where no
  /// wrapper says that they must be equal: no replicas.
  std::vector<std::string> set_aside;
  std::uint64_t unread = 0;  ///< tensors of these kinds that have no digest
  std::uint64_t alone = 0;   ///< tensors that one rank alone holds: shards without a replica
  /// That were held against each other: of all members of a group, and from sender to receiver.
  std::uint64_t collectives = 0;
  std::uint64_t messages = 0;
  std::uint64_t unplaced = 0;  ///< both, in groups that nobody named
  /// By which gradients are clipped: held against what all ranks hold of these, and not.
  std::uint64_t norms = 0;
  std::uint64_t open_norms = 0;
  Phrases why_open;  ///< the first of them
  /// Why the ranks cannot be held against each other, though they were read; null = they can.
  std::optional<Finding> why_not;
  bool is_unnamed = false;  ///< no rank says of which run it is
  /// Recordings of blocks: gradients, what optimizers keep and operators were not judged.
  bool of_blocks = false;
  /// Something that is wrong although nothing that must be equal differs, or looks like it.
  std::vector<Finding> findings;

  /// The earliest of all kinds; null where all is equal. Running statistics that drift change no
  /// gradient that ranks reduce, and so lead nothing but activations.
  [[nodiscard]] const ReplicaDifference* leading() const noexcept;
  /// Those that leading() cannot have made: each is a fault with a cause of its own.
  [[nodiscard]] std::vector<const ReplicaDifference*> independent() const;
  [[nodiscard]] std::uint64_t compared() const noexcept;
  /// Whether there are parameters, and nothing says of any that it is a replica.
  [[nodiscard]] bool knows_no_replica() const noexcept {
    return replicated == 0 && !set_aside.empty();
  }
};

/// What made them differ, by what differs first.
Finding cause_of(const ReplicaDifference& first);

/// Opens a recording. @throws core::Error as store::open_dump()
using OpenRank = std::function<std::unique_ptr<core::DumpSource>(const std::string&)>;

/// kDumpUnusable where a recording cannot be read or is cut short, kDivergence where replicas or a
/// proof say so, kNotComparable where a rank is absent, or no parameter could be compared.
core::ExitCode exit_code_of(const RanksReport& report) noexcept;

}  // namespace repro_check::comparators
