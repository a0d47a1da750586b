// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace repro_check::torchscript {

/// A tensor that two versions of a model file hold with other values.
struct WeightDifference {
  std::vector<std::string> names;  ///< more than one where names share memory: one cannot be
                                   ///< changed without the others
  std::string what;                ///< dtype and shape of the first
  std::uint64_t elements = 0;      ///< of all
  /// Of them, those with other bits; empty where that is not counted (quantised, sparse).
  std::optional<std::uint64_t> differing;
};

/// What two versions of a model file own under the same names: parameters, buffers and other
/// tensor attributes of their modules.
struct WeightVersions {
  std::vector<std::string> names;           ///< in the order of the model
  std::vector<WeightDifference> different;  ///< in the same order
  /// Why the tensors of one cannot stand in the other, and how to mend it; empty = they can.
  std::string obstacle;
  std::string mend;
};

/// Compares bit by bit: two NaN of the same bits are equal, zeros of other signs are not.
/// @throws core::Error{kUsage} when a file is missing or no TorchScript; core::Error{kRunFailed}
///         when memory runs out
WeightVersions compare_weights(const std::filesystem::path& first,
                               const std::filesystem::path& second);

}  // namespace repro_check::torchscript
