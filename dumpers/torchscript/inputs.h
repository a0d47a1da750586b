// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "configs/spec/run_config.h"
#include "core/tensor/dtype.h"
#include "dumpers/torchscript/torchscript_run.h"

namespace repro_check::torchscript {

/// Empty when this LibTorch does not have the dtype.
std::optional<at::ScalarType> to_scalar_type(core::Dtype dtype) noexcept;

/// @throws core::Error{kUsage} when `text` is no device, or one that is not available here
at::Device parse_device(const std::string& text);

/// Makes the tensor on the CPU with RandomNumbers, in float64 or int64, and rounds it to its dtype
/// (to nearest, ties to even). Complex dtypes get the same number as real and imaginary part in
/// turn; bool is "not zero".
/// @param where  JSON pointer, for messages
/// @throws core::Error{kUsage} when the shape, dtype or range makes no sense
at::Tensor generate_tensor(const configs::GeneratedInput& input, const std::string& where);

/// The tensor that one input names, new each time, on the CPU and in its own dtype. Empty when the
/// input is no tensor (a value, a list, ...).
/// @throws core::Error{kUsage} with the JSON pointer, when it cannot be read or made
std::optional<at::Tensor> read_tensor(const configs::InputSpec& input, const Hdf5Reader& hdf5);

struct InputContext {
  const Hdf5Reader* hdf5 = nullptr;
  at::Device device = at::kCPU;
  std::optional<at::ScalarType> dtype;  ///< floating tensors are cast to it
};

/// A value for every argument of the method but self, in the order of the schema, defaults filled
/// in, of exactly the types it asks for.
/// @param pointer  JSON pointer of the call's inputs, for what is missing from them
/// @throws core::Error{kUsage} with JSON pointer, argument, type expected and what was given
std::vector<c10::IValue> build_inputs(const c10::FunctionSchema& schema,
                                      const c10::IValue& self,
                                      const configs::CallSpec& call,
                                      const std::string& pointer,
                                      const InputContext& context);

/// Every tensor in the values, lists and dicts included, by the name of its argument: `tokens`,
/// `states.0`, `batch.mask`.
std::vector<std::pair<std::string, at::Tensor>> named_input_tensors(
    const c10::FunctionSchema& schema, const std::vector<c10::IValue>& inputs);

}  // namespace repro_check::torchscript
