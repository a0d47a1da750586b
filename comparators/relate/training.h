// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comparators/relate/weights.h"
#include "core/digest/digest.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// What of a step of a training is compared, in the order in which the step makes it.
enum class TrainedKind : std::uint8_t { kLoss, kNorm, kGradient, kState, kParameter };
inline constexpr std::size_t kTrainedKinds = 5;

/// A tensor that a step made, in one process.
struct Trained {
  TrainedKind kind{};
  std::size_t step = 0;      ///< index into TrainedProcess::steps
  std::size_t weight = 0;    ///< index into Training::weights; of losses and norms nothing
  std::string state;         ///< `exp_avg`, of kState
  std::uint64_t op = 0;      ///< op index of the record that holds it
  std::uint32_t tensor = 0;  ///< and its place there
  core::ContentKey content;
  bool stored = false;
  /// Of a loss: samples of the batches since the loss before it; 0 = not known.
  std::uint64_t samples = 0;
};

struct TrainedStep {
  std::vector<Trained> tensors;        ///< by kind; in a kind in the order of the records
  std::vector<core::Digest> samples;   ///< of its batches
  bool knows_samples = false;          ///< all of its batches say theirs, and there is one
  std::vector<std::uint64_t> records;  ///< op indices of its core::kStepRecord
};

/// What one process trained.
struct TrainedProcess {
  std::size_t dump = 0;  ///< index into the dumps of Training::weights
  std::uint32_t rank = 0;
  std::vector<TrainedStep> steps;  ///< by number; the last one ended with a step of an optimizer
};

/// A training, in one process or on several ranks.
struct Training {
  /// Parameters that optimizers step, each with the one version that it had before the first step;
  /// by their name on their rank: `fc.weight@0:1/2`.
  WeightSide weights;
  std::vector<TrainedProcess> processes;  ///< by dump
  std::uint64_t unknown = 0;  ///< parameters whose values before the first step are in no record

  [[nodiscard]] const core::DumpSource& dump_of(const TrainedProcess& process) const {
    return *weights.dumps[process.dump];
  }
};

/// @param dumps  of one process, or one per rank, in their order
/// @throws core::Error{kNotComparable} for a recording without values, without a step of an
///         optimizer, or of ranks that are not all there; {kDumpDamaged}
Training read_training(std::vector<std::unique_ptr<core::DumpSource>> dumps);

/// `fc.weight`, without its part. @param tensor  neither a loss nor a norm
std::string name_of(const Trained& tensor, const Training& training);

}  // namespace repro_check::comparators
