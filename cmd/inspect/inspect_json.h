// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"
#include "core/trace/value.h"

namespace repro_check::cmd {

using OrderedJson = nlohmann::ordered_json;

/// The start of every document `inspect` prints.
OrderedJson inspect_document(const std::string& location);

/// A finite number, else "nan", "inf", "-inf".
OrderedJson number_json(double value);
/// An integer beyond 2^53-1 is a decimal string, because many readers would round it.
OrderedJson integer_json(std::int64_t value);
OrderedJson count_json(std::uint64_t value);

/// None is null; a tensor is {"tensor": position in `tensors`}, a symbol {"symbol": name}, an
/// opaque value {"opaque": type}, a complex number {"complex": [re, im]}.
OrderedJson value_json(const core::Value& value);
OrderedJson stats_json(const core::TensorStats& stats);
OrderedJson tensor_json(const core::TensorRecord& tensor);
OrderedJson op_json(const core::OpRecord& op);
/// The same as compact text, which is made ten times as fast.
std::string op_text(const core::OpRecord& op);

/// Hexadecimal, most significant digit first.
std::string bits_text(std::span<const std::byte> element);

/// `{"value": 0.5, "bits": "3f000000"}`, most significant digit first.
OrderedJson element_json(core::Dtype dtype, std::span<const std::byte> element);

}  // namespace repro_check::cmd
