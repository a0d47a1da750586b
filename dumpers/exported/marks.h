// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <string>

namespace repro_check::exported {

/// What a node of a translated graph carries besides its operator: the module whose code it is, as
/// its scope. TorchScript files have no scopes.
struct ModuleMark {
  std::string path;  ///< `encoder.layers.0`; empty for the root
  std::string type;  ///< class name without its package
};

/// Of an entry `key,path,type` of what torch.export notes beside a node, `nn_module_stack`; a
/// second call of a module is `path@1`. Without a type where the entry names none.
ModuleMark parse_mark(const std::string& entry);

torch::jit::ScopePtr scope_of(const ModuleMark& mark);

/// Empty for a node without a mark.
std::optional<ModuleMark> mark_of(torch::jit::Node& node);

// TorchScript operators for what Python does by itself around an exported graph. None of them
// reaches the dispatcher.

/// `(Scalar number) -> Tensor`: what an operator is given where it takes a tensor and Python has a
/// number; of the number's dtype, and weak in type promotion.
inline constexpr const char* kWrapNumber = "repro_check::wrap_number";
/// `(bool flag) -> Scalar`: the flag itself. TorchScript's types take none for a Scalar.
inline constexpr const char* kAsScalar = "repro_check::as_scalar";
/// `(Tensor input, str name, int dtype, int[] least, int[] most) -> ()`: raises unless each size
/// lies between two bounds. The dtype, which Python does not check either, is for those who
/// describe the input.
inline constexpr const char* kExpectTensor = "repro_check::expect_tensor";
/// `(bool holds, str otherwise) -> ()`: raises unless it holds.
inline constexpr const char* kExpect = "repro_check::expect";

/// Registers the operators, once a process.
void register_operators();

}  // namespace repro_check::exported
