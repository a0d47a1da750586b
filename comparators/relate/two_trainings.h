// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comparators/relate/relations.h"
#include "comparators/relate/row_pairs.h"
#include "comparators/relate/training.h"

namespace repro_check::comparators {

/// Elements of a parameter of B that are elements of one of A's: so are those of its gradient, and
/// of what an optimizer keeps in its shape.
struct TrainedPiece {
  std::size_t b = 0;  ///< index into the weights
  std::size_t a = 0;
  std::uint64_t elements = 0;
  RowPairs pairs;
};

/// A training in one process, and the same in another or on ranks.
struct TwoTrainings {
  Training a;  ///< of one process
  Training b;
  std::vector<TrainedPiece> pieces;  ///< by A's weight
  std::vector<std::size_t>
      other;  ///< weights of B that begin with other values than A's of their name
  std::vector<std::size_t> unrelated;  ///< weights of B that are nobody's
  std::uint64_t elements = 0;          ///< of B's weights
  std::uint64_t related = 0;           ///< those of them in pieces
  std::uint64_t elsewhere = 0;         ///< those in `other`
  std::uint64_t elements_a = 0;        ///< of A's weights
  std::uint64_t related_a = 0;         ///< those of A's weights that have pieces
  std::size_t steps = 0;               ///< that both have

  [[nodiscard]] const TrainedProcess& single() const { return a.processes.front(); }
};

/// Finds which elements of B's parameters are which of A's, by their values before the first step:
/// at its name and place first, else wherever they are.
TwoTrainings relate_trainings(Training a, Training b);

/// Tensors of A of which a shadow is asked: of the steps that both have.
std::vector<const Trained*> judged_tensors(const TwoTrainings& trainings);

/// What an optimizer left in B, in A's elements; where B has none, A's. Empty of what is no start
/// of the next step: losses, norms, gradients.
/// @param of_a  a tensor of A
/// @throws core::Error{kDumpDamaged}
std::optional<std::vector<double>> brought_to_a(const TwoTrainings& trainings, const Trained& of_a);

}  // namespace repro_check::comparators
