// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comparators/relate/forward_pass.h"
#include "comparators/relate/relations.h"
#include "comparators/relate/weights.h"

namespace repro_check::comparators {

/// Why two modules belong together.
enum class ModuleTie : std::uint8_t {
  kWeights,  ///< rows of the weights of one are rows of the weights of the other
  kPattern,  ///< as its siblings do, of the same name but for a number
  kOrder,    ///< the only ones with weights of their shape between related ones
  kParts,    ///< what was called inside of them belongs together, all of it
  kName,     ///< without weights: called the same inside of related ones
};

/// Features of B's output that are features of an output of A.
struct FeatureRange {
  std::uint64_t begin = 0;  ///< of B's last dimension
  std::uint64_t count = 0;
  std::size_t call = 0;    ///< of A
  std::uint64_t from = 0;  ///< of the last dimension of its output

  bool operator==(const FeatureRange&) const = default;
};

struct RelatedModule {
  std::size_t b = 0;           ///< call of B
  std::vector<std::size_t> a;  ///< calls of A, in the order of the features
  ModuleTie tie = ModuleTie::kWeights;
  std::vector<FeatureRange> parts;  ///< empty where outputs are cut in a way that does not tell
  /// Weights of B, by index, that are not what A has there last.
  std::vector<std::size_t> other_weights;
  /// The call of A that reads what B's call reads, where `a` is a normalisation behind it that was
  /// folded into B's weights.
  std::optional<std::size_t> folded = {};
};

struct RelatedModules {
  std::vector<RelatedModule> modules;  ///< by B's calls
  std::vector<std::size_t> unrelated;  ///< calls of B that have an output, and no counterpart
  std::uint64_t elements = 0;          ///< of the weights that B's calls read
  std::uint64_t related = 0;           ///< those of them whose module is related
  std::uint64_t proved = 0;            ///< those of these whose rows are A's
};

/// Pairs the modules of two forward passes by what their weights are made of, in the order of the
/// rows; those that content does not tell apart (fresh norms) by how often and in which order they
/// are called; those whose weights are others, as their siblings are paired.
/// @param relations  relate_weights(weights_a, weights_b)
RelatedModules relate_modules(const ForwardPass& a,
                              const WeightSide& weights_a,
                              const ForwardPass& b,
                              const WeightSide& weights_b,
                              std::span<const RelatedWeight> relations);

}  // namespace repro_check::comparators
