// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/digest/digest.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {

/// The name of this check.
inline constexpr std::string_view kWeightsNeverMoved = "weights-never-moved";

/// Why a parameter that should train stays as it is.
enum class StillReason : std::uint8_t {
  kNoOptimizer,  ///< it gets gradients, and is in no optimizer
  kNoGradient,   ///< it is in an optimizer, and no step finds a gradient of it
  kUnmoved,      ///< it has gradients, which change from step to step, and a learning rate
};
inline constexpr StillReason kLastStillReason = StillReason::kUnmoved;

/// `no optimizer`, `no gradient`, `unmoved`.
std::string_view still_reason_name(StillReason reason) noexcept;

struct StillParameter {
  std::string name;
  StillReason reason = StillReason::kNoOptimizer;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const StillParameter&) const = default;
};

/// Finds the parameters of a program that never move, of its records in their order.
class StillParameterReader {
 public:
  /// @param record  a core::kStepRecord
  void see_step(const core::OpRecord& record);
  /// By name. Of a program of fewer than three steps no parameter is known to stay.
  [[nodiscard]] std::vector<StillParameter> finish(const core::RunManifest& manifest) const;

 private:
  struct Seen {
    core::Digest value;
    core::Digest gradient;
    std::uint32_t steps = 0;
    bool has_value = false;
    bool has_gradient = false;
    bool moves = false;            ///< or cannot be known to stay
    bool other_gradients = false;  ///< they are not all 0, since they differ
  };

  std::map<std::string, Seen, std::less<>> seen_;
  bool has_zero_rate_ = false;  ///< in every step some learning rate was 0
  std::uint32_t steps_ = 0;
};

/// @throws core::Error{kDumpDamaged}
std::vector<StillParameter> still_parameters(const core::DumpSource& dump);

}  // namespace repro_check::comparators
