// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comparators/ranks/collectives.h"
#include "comparators/ranks/rank_roots.h"
#include "comparators/ranks/ranks.h"
#include "core/digest/digest.h"

namespace repro_check::comparators {

/// What one rank says.
struct RankRead {
  RankState state;
  RankRoots roots;          ///< empty where it cannot be read
  std::uint32_t ranks = 0;  ///< how many there are, as it knows
  Replicas replicas;
  bool has_wrapper = false;  ///< DistributedDataParallel, of any part of its model
  Meshes meshes;
  bool averages = false;              ///< parameters now and then, in place of gradients
  std::vector<std::uint32_t> joined;  ///< how many steps it had made behind each join() context
  std::string run_id;                 ///< empty: older than 1.4
  std::uint64_t attempt = 0;
  std::string only;  ///< the part of the program that was recorded; empty = all of it
  /// What goes into blocks and comes out was recorded, and neither gradients, nor what optimizers
  /// keep, nor operators but those that exchange.
  bool of_blocks = false;

  [[nodiscard]] std::uint32_t number() const noexcept { return state.recording.rank; }
};

/// What ranks of a run say: all that it takes to judge them. So ranks that were read on several
/// machines are put together without reading their dumps again.
struct RankReads {
  std::uint32_t expected = 0;   ///< ranks that ran, as they say themselves
  RankRange asked;              ///< those that were to be read
  std::vector<RankRead> ranks;  ///< by rank, each once
  SetAside apart;               ///< what their roots leave out
  /// What a root is made of: of those that differ, at the first moment of a kind.
  std::map<core::Digest, ReplicaItems> items;
  /// Of roots of gradients among these the reduction of one that differs, and what follows it, as
  /// reduction_of().
  std::map<core::Digest, ReplicaItems> reductions;
  /// Of the same the norms of gradients before they were clipped in that step, as local_norms_of().
  std::map<core::Digest, ReplicaItems> unclipped;
  /// What was exchanged, from where it differs on: of the lowest rank that has it.
  std::vector<ToldCalls> told;
};

/// What a rank has at some moment. The rank is borrowed.
struct Held {
  const RankRead* rank = nullptr;
  ReplicaRoot root;
};

/// One series in one step, of all ranks that have it, by rank.
struct ReplicaMoment {
  std::uint32_t step = 0;
  ReplicaSeries series;
  std::vector<Held> held;
};

/// The moments of ranks side by side, those that could be read. Borrows the ranks.
class ReplicaMoments {
 public:
  explicit ReplicaMoments(std::span<const RankRead> ranks);

  /// By step, and in a step by series.
  void for_each(const std::function<void(const ReplicaMoment&)>& see) const;
  /// How many ranks must have something of a part alike.
  [[nodiscard]] std::size_t holders_of(const std::string& part) const;
  /// Whether every holder has it: a rank that stopped is said to have stopped.
  [[nodiscard]] bool is_compared(const ReplicaMoment& moment) const;
  /// Null where the kind is equal throughout.
  [[nodiscard]] const ReplicaMoment* first_difference(ReplicaKind kind) const;

 private:
  struct Column {
    const RankRead* rank = nullptr;
    const ReplicaColumn* of = nullptr;
  };

  std::map<ReplicaSeries, std::vector<Column>> columns_;
  std::map<std::string, std::size_t> holders_;  ///< by part
  std::size_t ranks_ = 0;
  std::array<std::optional<ReplicaMoment>, kReplicaKinds> firsts_;
  std::uint32_t end_;  ///< step from which on the steps of one rank are none of another's
};

/// The first step that ranks make behind join() contexts which they left behind other numbers of
/// steps; the highest number where there is none.
std::uint32_t end_of_common_steps(std::span<const RankRead> ranks);

/// Digests that any rank has, with how many have it; the greatest first.
std::vector<std::pair<core::Digest, std::size_t>> by_frequency(std::span<const Held> held);

/// Parameters before the first step.
struct Beginnings {
  std::size_t names = 0;
  SetAside apart;  ///< no replicas on all ranks: none where a wrapper makes them
};
Beginnings beginnings_of(std::span<const RankRead> ranks);

/// The ranks on which all parameters of a rank are replicas, as a user says; empty where nobody
/// does.
using DeclaredReplicas = std::function<std::string(std::uint32_t rank)>;

/// Reads ranks of one run. Each recording is open only while it is read; of what is equal no more
/// than one digest a kind, step and rank is kept.
/// @param recordings  by rank, each once
/// @param expected    how many ranks there were; 0 = as the recordings say
/// @param asked       of these, which are meant: what is absent elsewhere is nobody's business
RankReads read_ranks(std::span<const RankRecording> recordings,
                     const OpenRank& open,
                     std::uint32_t expected = 0,
                     RankRange asked = {},
                     const DeclaredReplicas& declared = {});

/// What the parts say together.
/// @param parts  of one run, each rank in one of them; one at least
/// @throws core::Error{kNotComparable} where their roots do not leave out the same
RankReads joined(std::vector<RankReads> parts);

/// Holds the ranks against each other.
RanksReport judge(const RankReads& reads);

/// Steps of a rank, one behind the other, in which the same kind parts before any other.
struct PartingRun {
  std::uint32_t first = 0;
  std::uint32_t steps = 1;
  ReplicaKind kind = ReplicaKind::kParameters;
  std::uint64_t op = 0;      ///< op index of the record that holds it, at the first step
  std::uint64_t stride = 0;  ///< from that of one step to that of the next
};

/// Where one rank has something else than most have; where no majority says which is wrong, than
/// any has.
struct RankPartings {
  std::uint32_t rank = 0;
  std::vector<PartingRun> runs;  ///< by step; not empty
};

/// Of each rank that parts, by rank.
std::vector<RankPartings> partings_of(const RankReads& reads);

}  // namespace repro_check::comparators
