// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/trace/op_record.h"
#include "dumpers/capture/engine/operator_plan.h"

namespace repro_check::capture {

/// Of the packed weights of a quantised layer,
/// `__torch__.torch.classes.quantized.LinearPackedParamsBase`; empty for what is none.
std::string packed_class_name(const c10::Type& type);

/// Makes the object again.
/// @param state  as PackedObjects::state_of() gives it
c10::IValue pack(const c10::ClassTypePtr& type, c10::IValue state);
/// The type of that state.
c10::TypePtr type_of_state(const c10::ClassTypePtr& type);

/// States of the objects met, unpacked once each: that takes as long as the operator that uses
/// them, and an object does not change. Not thread safe.
class PackedObjects {
 public:
  std::optional<c10::IValue> state_of(const c10::IValue& value);

 private:
  struct Entry {
    /// Keeps the address from being handed out again.
    c10::weak_intrusive_ptr<torch::CustomClassHolder> alive;
    c10::IValue state;
  };
  std::unordered_map<const void*, Entry> entries_;
};

/// Values by name.
using NamedValues = std::vector<std::pair<std::string, c10::IValue>>;

/// Told of every tensor inside a value.
/// @param slot  argument or result, with the position in lists: `tensors.3`
/// @return position of the tensor's record
using VisitTensor = std::function<std::uint32_t(const at::Tensor& tensor, const std::string& slot)>;

/// Writes `value` into `into`, whose memory is reused. The packed weights of a quantised layer
/// become a list: the Symbol of their class, then the items of their state. What else has no value
/// to compare becomes an Opaque of its type.
void build_value(const c10::IValue& value,
                 IntegerMeaning meaning,
                 const std::string& slot,
                 PackedObjects& packed,
                 const VisitTensor& visit,
                 core::Value& into);

/// @param path  `out`, `out[0]`, `out.logits`, `out["a key"]`
/// @param leaf  holds nothing further: a tensor, a number, a string, None, an empty container, or
///              what cannot be looked into
using LeafVisitor = std::function<void(const std::string& path, const c10::IValue& leaf)>;

/// All that is inside what a call returned, in the order of lists, tuples and attributes; a dict in
/// its own. A container inside itself is a leaf. What a fork still makes is waited for, and stands
/// at the path of its future.
/// @throws what the fork failed with
void for_each_returned(const c10::IValue& value, const LeafVisitor& visit);

}  // namespace repro_check::capture
