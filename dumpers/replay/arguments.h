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

namespace repro_check::replay {

/// @throws core::Error{kNotComparable}, always
[[noreturn]] void cannot(const std::string& what, const std::string& hint);

inline constexpr const char* kOwnRecorder = "use the recorder that made the dump: --recorder";

/// How arguments differ from the recorded ones.
struct RebuildOptions {
  std::optional<c10::Device> device;  ///< tensors and device arguments move there
  bool float64 = false;               ///< floating tensors and dtypes become float64, complex128
};

/// The arguments of one recorded call, made again from the stored values: tensors with the same
/// strides, and those that shared a storage share one.
class Arguments {
 public:
  /// @param record   borrowed; as core::require_replayable() gives it
  /// @param written  per tensor of the record, whether the operator may write it
  Arguments(const core::DumpSource& dump,
            const core::OpRecord& record,
            std::vector<bool> written,
            const RebuildOptions& options);

  /// Forgets what calls have written.
  void restart();

  /// One argument as the operator takes it.
  /// @param generator  for an argument that is one; undefined where nothing was drawn
  /// @throws core::Error{kNotComparable} for what a record only knows by its type
  [[nodiscard]] c10::IValue value(const core::Value& value,
                                  const c10::TypePtr& type,
                                  capture::IntegerMeaning meaning,
                                  const at::Generator& generator) const;

 private:
  struct Memory {
    core::InputStorage storage;
    bool written = false;
    at::Tensor original;
  };

  [[nodiscard]] at::Tensor make_whole(std::size_t index) const;
  [[nodiscard]] std::int64_t number_of(const core::Symbol& symbol,
                                       capture::IntegerMeaning meaning) const;
  /// Packs the weights of a quantised layer again, from the state in the record.
  [[nodiscard]] c10::IValue packed(const core::ValueList& data,
                                   const c10::ClassTypePtr& type,
                                   capture::IntegerMeaning meaning,
                                   const at::Generator& generator) const;

  const core::OpRecord& record_;
  RebuildOptions options_;
  std::vector<bool> written_;
  std::vector<Memory> memories_;
  bool made_ = false;                ///< whether those that nobody writes are in `tensors_`
  std::vector<at::Tensor> tensors_;  ///< by position in the record; of quantised ones the integers
  std::vector<at::Tensor> wholes_;   ///< quantised, sparse and nested ones
};

}  // namespace repro_check::replay
