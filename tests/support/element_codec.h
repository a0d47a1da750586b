// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::test_support {

/// Throws what is said of a fixture that cannot be read.
[[noreturn]] void refuse(const std::string& message);

/// Appends one element written as JSON (a number, "nan", "inf", "-inf", "-0", or [re, im]) in
/// `dtype`, rounded to nearest even. Written without the comparators, so that it can check them.
void append_value(core::Dtype dtype, const nlohmann::json& value, std::vector<std::byte>& bytes);

/// Appends one element given by its bits in hexadecimal, most significant digit first; a complex
/// one is [re, im].
void append_bits(core::Dtype dtype, const nlohmann::json& bits, std::vector<std::byte>& bytes);

/// Statistics of a real tensor's content, as a recorder keeps them.
core::TensorStats statistics(core::Dtype dtype, std::span<const std::byte> bytes);

}  // namespace repro_check::test_support
