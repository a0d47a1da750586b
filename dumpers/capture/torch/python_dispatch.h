// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

// Where LibTorch hands an operator to Python: a class of tensors with `__torch_dispatch__` (DTensor
// is one), or a mode. The operators that it calls there are hidden from every key above Python's,
// the engine's among them, as if they were none of the program's.

namespace repro_check::capture {

/// Whether the call goes to a class of tensors; where a mode stands before that, it does not.
inline bool enters_tensor_class(c10::DispatchKeySet keys) {
  return keys.has(c10::DispatchKey::Python) &&
         !c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python);
}

using PythonDispatch = void (*)(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// From now on `around` is called on every thread in the place of what Python does for an operator,
/// and does that itself with go_to_python(). The first call counts, in the life of the process.
/// @param stack  of a call with a tensor that is of a class of Python's: that is how its
///               interpreter is found in older releases
/// @return false where this is not known how to do: of another compiler's classes, or of a second
///         interpreter
bool stand_before_python(const torch::jit::Stack& stack, PythonDispatch around);

/// What Python does.
void go_to_python(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace repro_check::capture
