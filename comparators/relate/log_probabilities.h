// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comparators/relate/row_map.h"

namespace repro_check::comparators {

/// One token and its log-probability, in nats, on both sides.
struct TokenProbability {
  std::uint64_t row = 0;  ///< of B, in whose distribution it is
  std::int64_t token = 0;
  double a = 0;
  double b = 0;
};

/// What two computations of the same logits say of the same tokens.
struct LogProbabilities {
  std::uint64_t rows = 0;    ///< distributions that were compared
  std::uint64_t tokens = 0;  ///< of these, followed by a token that both sides were given
  double mean = 0;           ///< of |b - a| over the tokens
  double max = 0;
  double divergence = 0;  ///< KL of B from A, in nats, mean over the rows
  double max_divergence = 0;
  std::uint64_t same_best = 0;          ///< rows whose most likely token is the same
  std::vector<TokenProbability> worst;  ///< by |b - a|
  /// B's logits are A's times this, in each row, but for a constant; empty where they are not, or
  /// it is 1.
  std::optional<double> factor;
};

/// @param a, b     logits, row-major; rows of width_a and width_b. The first min(width_a, width_b)
///                 are those of the same tokens
/// @param tokens   by A's row: what was given there
/// @return empty where no rows are the same
std::optional<LogProbabilities> compare_log_probabilities(std::span<const double> a,
                                                          std::uint64_t width_a,
                                                          std::span<const double> b,
                                                          std::uint64_t width_b,
                                                          const RowMap& rows,
                                                          std::span<const std::int64_t> tokens);

inline constexpr std::size_t kWorstTokens = 8;

}  // namespace repro_check::comparators
