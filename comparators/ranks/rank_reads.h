// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
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
  bool wrapped = false;     ///< a wrapper makes replicas
  bool grouped = false;     ///< it made groups of some of the ranks
};

/// The collectives of one step of a rank.
struct StepCollectives {
  std::uint32_t rank = 0;
  std::uint32_t step = 0;
  std::vector<CollectiveCall> calls;
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
  /// At the first step in which they differ: of the lowest rank that makes them.
  std::vector<StepCollectives> collectives;
};

/// What a rank has at some moment. Borrowed.
struct Held {
  const RankRead* rank = nullptr;
  const ReplicaRoot* root = nullptr;
};

/// The moments of ranks side by side, those that could be read. Borrows the ranks.
class ReplicaMoments {
 public:
  using Map = std::map<ReplicaMoment, std::vector<Held>>;

  explicit ReplicaMoments(std::span<const RankRead> ranks);

  /// By rank each.
  [[nodiscard]] const Map& all() const noexcept { return moments_; }
  [[nodiscard]] std::size_t ranks() const noexcept { return ranks_; }
  /// How many ranks must have something of a part alike.
  [[nodiscard]] std::size_t holders_of(const std::string& part) const;
  /// Whether every holder has it: a rank that stopped is said to have stopped.
  [[nodiscard]] bool is_compared(const Map::value_type& moment) const;
  /// Null where the kind is equal throughout.
  [[nodiscard]] const Map::value_type* first_difference(ReplicaKind kind) const;

 private:
  Map moments_;
  std::map<std::string, std::size_t> holders_;  ///< by part
  std::size_t ranks_ = 0;
};

/// Digests that any rank has, with how many have it; the greatest first.
std::vector<std::pair<core::Digest, std::size_t>> by_frequency(std::span<const Held> held);

/// The first step in which ranks did not make the same collectives; empty where they did, or where
/// they are not to.
std::optional<std::uint32_t> first_other_collectives(std::span<const RankRead> ranks);

/// The digest of what a rank entered in a step, empty where it made none.
core::Digest entered_in(const RankRead& rank, std::uint32_t step);

/// Parameters before the first step.
struct Beginnings {
  std::size_t names = 0;
  SetAside apart;  ///< no replicas: none where there is a wrapper
};
Beginnings beginnings_of(std::span<const RankRead> ranks);

/// Reads ranks of one run. Each recording is open only while it is read; of what is equal no more
/// than one digest a kind, step and rank is kept.
/// @param recordings  by rank, each once
/// @param expected    how many ranks there were; 0 = as the recordings say
/// @param asked       of these, which are meant: what is absent elsewhere is nobody's business
RankReads read_ranks(std::span<const RankRecording> recordings,
                     const OpenRank& open,
                     std::uint32_t expected = 0,
                     RankRange asked = {});

/// What the parts say together.
/// @param parts  of one run, each rank in one of them; one at least
/// @throws core::Error{kNotComparable} where their roots do not leave out the same
RankReads joined(std::vector<RankReads> parts);

/// Holds the ranks against each other.
RanksReport judge(const RankReads& reads);

}  // namespace repro_check::comparators
