// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a recorded call is made again, whatever its tensors are: private to this folder.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/trace/op_record.h"
#include "dumpers/capture/engine/operator_plan.h"

namespace repro_check::replay {

inline constexpr const char* kOwnRecorder = "use the recorder that made the dump: --recorder";

/// @throws core::Error{kNotComparable}, always
[[noreturn]] void cannot(const std::string& what, const std::string& hint);

/// float64 and complex128 of floating and complex types; others as they are.
c10::ScalarType wider(c10::ScalarType type);

/// A tensor of one dimension.
at::Tensor from_bytes(std::span<const std::byte> bytes, c10::ScalarType type, std::int64_t count);

/// The type of its elements in memory.
/// @throws core::Error{kNotComparable} when this LibTorch has none of that dtype
c10::ScalarType type_of(const core::TensorRecord& tensor);

/// The enumerator that LibTorch's names give this name.
template <typename Enum>
std::optional<Enum> named(std::string (*name_of)(Enum), const std::string& name) {
  for (int i = 0; i < static_cast<int>(Enum::NumOptions); ++i) {
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

/// Calls `each` with the position of every tensor inside a value.
void for_each_tensor(const core::Value& value, const auto& each) {
  if (const auto* slot = std::get_if<core::TensorSlot>(&value.data)) each(slot->index);
  if (const auto* list = std::get_if<core::ValueList>(&value.data)) {
    for (const core::Value& item : list->items) for_each_tensor(item, each);
  }
}

/// How arguments differ from the recorded ones.
struct RebuildOptions {
  std::optional<c10::Device> device;  ///< tensors and device arguments move there
  bool float64 = false;               ///< floating tensors and dtypes become float64, complex128
};

/// What an operator is given in the place of what a record only describes.
struct ArgumentSource {
  RebuildOptions options;
  std::function<at::Tensor(std::uint32_t index)> tensor;  ///< by its position in the record
  at::Generator generator;                                ///< undefined where nothing was drawn
};

/// The operator of a record, as this LibTorch has it.
class RecordedOperator {
 public:
  /// @param plans  borrowed
  /// @throws core::Error{kNotComparable} when this LibTorch has no such operator, or it takes other
  ///         arguments
  RecordedOperator(capture::OperatorPlans& plans, const core::OpRecord& record);

  [[nodiscard]] const capture::OperatorPlan& plan() const noexcept { return *plan_; }
  void call(torch::jit::Stack& stack) const { handle_.callBoxed(&stack); }

  /// Per tensor of the record, whether the operator may write it.
  [[nodiscard]] std::vector<bool> written_tensors(const core::OpRecord& record) const;

  /// @throws core::Error{kNotComparable} for what a record only knows by its type
  [[nodiscard]] torch::jit::Stack arguments(const core::OpRecord& record,
                                            const ArgumentSource& source) const;

 private:
  c10::OperatorHandle handle_;
  capture::OperatorPlan* plan_ = nullptr;
};

}  // namespace repro_check::replay
