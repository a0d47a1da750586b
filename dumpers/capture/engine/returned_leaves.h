// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace c10 {
struct IValue;
}

namespace repro_check::capture {

/// @param path  `out`, `out[0]`, `out.logits`, `out["a key"]`
/// @param leaf  holds nothing further: a tensor, a number, a string, None, an empty container, or
///              what cannot be looked into
using LeafVisitor = std::function<void(const std::string& path, const c10::IValue& leaf)>;

/// All that is inside what a call returned, in the order of lists, tuples and attributes; a dict in
/// its own. A container inside itself is a leaf.
void for_each_returned(const c10::IValue& value, const LeafVisitor& visit);

}  // namespace repro_check::capture
