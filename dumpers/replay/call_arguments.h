// SPDX-License-Identifier: Apache-2.0
#pragma once

// The arguments of a recorded call, made again: private to this folder.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "core/trace/replay_inputs.h"
#include "dumpers/replay/recorded_call.h"

namespace repro_check::replay {

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
  /// @param shift  bytes by which memory begins later; one element where those are more
  void restart(std::int64_t shift);

  /// @param generator  what an argument that is one will be
  [[nodiscard]] ArgumentSource source(at::Generator generator) const;

 private:
  struct Memory {
    core::InputStorage storage;
    bool written = false;
    at::Tensor original;
  };

  void show(const Memory& memory, std::int64_t shift);
  [[nodiscard]] at::Tensor make_whole(std::size_t index) const;

  const core::OpRecord& record_;
  RebuildOptions options_;
  std::vector<bool> written_;
  std::vector<Memory> memories_;
  std::optional<std::int64_t> shift_;  ///< of what is in `tensors_`; empty = nothing is yet
  std::vector<at::Tensor> tensors_;  ///< by position in the record; of quantised ones the integers
  std::vector<at::Tensor> wholes_;   ///< quantised, sparse and nested ones
};

}  // namespace repro_check::replay
