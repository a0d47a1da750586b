// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>

#include "core/trace/value.h"
#include "dumpers/capture/engine/operator_plan.h"
#include "dumpers/capture/tensors/packed_object.h"

namespace repro_check::capture {

/// Told of every tensor inside a value.
class TensorVisitor {
 public:
  TensorVisitor() = default;
  TensorVisitor(const TensorVisitor&) = delete;
  TensorVisitor& operator=(const TensorVisitor&) = delete;
  TensorVisitor(TensorVisitor&&) = delete;
  TensorVisitor& operator=(TensorVisitor&&) = delete;
  virtual ~TensorVisitor() = default;

  /// @param slot  argument or result, with the position in lists: `tensors.3`
  /// @return position of the tensor's record
  virtual std::uint32_t visit(const at::Tensor& tensor, const std::string& slot) = 0;

  /// As packed_state().
  virtual std::optional<c10::IValue> state_of(const c10::IValue& object) {
    return packed_state(object);
  }
};

/// Writes `value` into `into`, whose memory is reused. The packed weights of a quantised layer
/// become a list: the Symbol of their class, then the items of their state. What else has no value
/// to compare becomes an Opaque of its type.
void build_value(const c10::IValue& value,
                 IntegerMeaning meaning,
                 const std::string& slot,
                 TensorVisitor& tensors,
                 core::Value& into);

}  // namespace repro_check::capture
