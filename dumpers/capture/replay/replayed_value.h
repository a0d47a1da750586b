// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/dump_source.h"
#include "core/trace/replay_inputs.h"
#include "dumpers/capture/engine/operator_plan.h"

namespace repro_check::capture {

/// How arguments differ from the recorded ones.
struct RebuildOptions {
  std::optional<c10::Device> device;  ///< tensors and device arguments move there
  bool float64 = false;               ///< floating tensors and dtypes become float64, complex128
};

/// The tensor arguments of one record, made again from the stored values: same strides, and those
/// that shared a storage share one.
class ReplayedTensors {
 public:
  /// @param record   borrowed; as core::require_replayable() gives it
  /// @param written  per tensor of the record, whether the operator may write it
  ReplayedTensors(const core::DumpSource& dump,
                  const core::OpRecord& record,
                  const std::vector<bool>& written,
                  const RebuildOptions& options);

  /// Forgets what calls have written.
  void restart();

  /// @param index  of an input in the record's `tensors`; undefined where the argument was
  [[nodiscard]] const at::Tensor& tensor(std::uint32_t index) const;

 private:
  struct Memory {
    core::InputStorage storage;
    bool written = false;
    at::Tensor original;
    at::Tensor current;
  };

  [[nodiscard]] at::Tensor make_whole(std::size_t index) const;

  const core::OpRecord& record_;
  std::vector<Memory> memories_;
  std::vector<at::Tensor> tensors_;  ///< by position in the record; of quantised ones the integers
  std::vector<at::Tensor> wholes_;   ///< quantised, sparse and nested ones
  std::vector<bool> written_;
  c10::Device device_;
};

/// One tensor of its own, contiguous, from the stored values; undefined when they are not stored.
at::Tensor stored_tensor(const core::DumpSource& dump, const core::TensorRecord& tensor);

/// @throws core::Error{kNotComparable}, always
[[noreturn]] void throw_not_replayable(const std::string& what, const std::string& hint);

/// One argument as the operator takes it.
/// @throws core::Error{kNotComparable} for what a record only knows by its type
c10::IValue rebuild_value(const core::Value& value,
                          const c10::TypePtr& type,
                          IntegerMeaning meaning,
                          const ReplayedTensors& tensors,
                          const at::Generator* generator,
                          const RebuildOptions& options);

}  // namespace repro_check::capture
