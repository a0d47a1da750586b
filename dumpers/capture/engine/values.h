// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <string>

#include "core/trace/op_record.h"
#include "dumpers/capture/engine/operator_plan.h"
#include "dumpers/capture/tensors/packed_object.h"

namespace c10 {
struct IValue;
}

namespace repro_check::capture {

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
/// its own. A container inside itself is a leaf.
void for_each_returned(const c10::IValue& value, const LeafVisitor& visit);

}  // namespace repro_check::capture
