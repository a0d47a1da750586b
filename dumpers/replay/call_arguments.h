// SPDX-License-Identifier: Apache-2.0
#pragma once

// The arguments of a recorded call, made again: private to this folder.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "core/trace/replay_inputs.h"
#include "dumpers/replay/recorded_call.h"

namespace repro_check::replay {

/// How the arguments of one call differ from the recorded ones.
struct ArgumentChange {
  std::int64_t shift = 0;  ///< bytes by which memory begins later; one element where those are more
  std::optional<std::size_t> nudged;  ///< the memory of which each number has another last bit

  bool operator==(const ArgumentChange&) const = default;
};

/// Whether this process has it.
bool has_device(const c10::Device& device);

/// The arguments of one recorded call, made again from the stored values: tensors with the same
/// strides, and those that shared a storage share one.
class CallArguments {
 public:
  /// @param record   borrowed; as core::require_replayable() gives it
  /// @param written  per tensor of the record, whether the operator may write it
  /// @throws core::Error{kNotComparable} when one cannot be made
  CallArguments(const core::DumpSource& dump,
                const core::OpRecord& record,
                std::vector<bool> written,
                const RebuildOptions& options);

  /// Forgets what calls have written.
  void restart(const ArgumentChange& change);

  /// From now on tensors of no dimension are numbers of Python, which do not widen the other
  /// arguments: which they were is not recorded.
  /// @return false where there are none
  bool take_for_numbers();

  /// Numbers of a memory that can be nudged, and that the operator reads.
  struct Nudge {
    std::size_t memory = 0;  ///< for ArgumentChange
    std::string slot;        ///< of its first argument
    double size = 0;         ///< of what moves, relative to what is there: 2-norms
  };
  [[nodiscard]] std::vector<Nudge> nudges() const;

  /// @param generator  what an argument that is one will be
  [[nodiscard]] ArgumentSource source(at::Generator generator) const;

 private:
  struct Memory {
    core::InputStorage storage;
    bool written = false;
    at::Tensor original;
  };

  void show(std::size_t memory, const ArgumentChange& change);
  [[nodiscard]] at::Tensor make_whole(std::size_t index) const;

  const core::OpRecord& record_;
  RebuildOptions options_;
  std::vector<bool> written_;
  std::vector<Memory> memories_;
  bool are_numbers_ = false;
  std::optional<ArgumentChange> change_;  ///< of what is in `tensors_`; empty = nothing is yet
  std::vector<at::Tensor> tensors_;  ///< by position in the record; of quantised ones the integers
  std::vector<at::Tensor> wholes_;   ///< quantised, sparse and nested ones
};

}  // namespace repro_check::replay
