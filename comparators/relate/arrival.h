// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comparators/relate/relations.h"
#include "comparators/relate/weights.h"
#include "comparators/report/finding.h"
#include "core/error.h"

namespace repro_check::comparators {

/// What has become of a weight on its way from a sender to a receiver.
enum class WeightState : std::uint8_t {
  kArrived,    ///< every row is of the sender's last values, bit-equal or in another dtype
  kEarlier,    ///< some rows are of values that the sender had before
  kMisplaced,  ///< it has the sender's last values of another name, and the sender has its own
  kUnmerged,   ///< the last values of a weight without those of its adapter, which was not sent
  kRounded,    ///< the last values, rounded to a dtype that is narrower than both sides' dtypes
  kOther,      ///< its place among the sender's weights is known; some rows have values of its own
  kUnrelated,  ///< nothing of the sender's was found in it, and nothing says where it belongs
  kUnread,     ///< its values are not stored, and no digest of the sender's is its digest
};

struct ArrivedWeight {
  std::string name;
  core::Dtype dtype = core::Dtype::kUnknown;
  std::vector<std::int64_t> shape;
  RelatedWeight relation;
  WeightState state = WeightState::kArrived;
  /// Steps of the optimizer that had been done when the earliest of the values that arrived was
  /// left; empty where none did.
  std::optional<std::uint32_t> steps;
};

/// Whether the weights of a sender arrived at a receiver.
struct WeightsReport {
  std::vector<ArrivedWeight> weights;  ///< those of the receiver, in its order
  std::vector<std::string> unsent;     ///< the sender's of which no value is in the receiver
  std::uint64_t sent = 0;              ///< weights of the sender
  std::uint32_t steps = 0;             ///< the sender's last values are behind so many
  std::uint64_t elements = 0;          ///< of the receiver's weights
  std::uint64_t related = 0;           ///< those of them in rows that are the sender's
  std::uint64_t unread = 0;            ///< names on both sides without a value
  double least = 0;                    ///< the share that has to be related
  std::vector<Finding> findings;       ///< the worst first; one for all weights of one fault

  [[nodiscard]] std::uint64_t count(WeightState state) const;
  /// Whether some weight is not what the sender had last.
  [[nodiscard]] bool has_diverged() const;
  [[nodiscard]] bool is_related() const;
};

/// @param least  the share of the receiver's elements that must be the sender's for a pass, 0 to 1
/// @throws core::Error{kDumpDamaged}
WeightsReport judge_arrival(const WeightSide& sender, const WeightSide& receiver, double least);

/// kDivergence where a weight that belongs to the sender is not what it had last; kNotComparable
/// where less is related than must be, or something was not read; else kReproducible.
core::ExitCode exit_code_of(const WeightsReport& report);

}  // namespace repro_check::comparators
