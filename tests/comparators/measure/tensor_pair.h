// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "tests/support/element_codec.h"

namespace repro_check::comparators {

/// Two contents of one dtype and shape.
struct TensorPair {
  TensorPair(core::Dtype of, std::vector<std::int64_t> sizes)
      : dtype(of), shape(std::move(sizes)) {}

  core::Dtype dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> baseline_bytes;
  std::vector<std::byte> candidate_bytes;

  [[nodiscard]] core::TensorView baseline() const { return {dtype, shape, baseline_bytes}; }
  [[nodiscard]] core::TensorView candidate() const { return {dtype, shape, candidate_bytes}; }
};

/// From two JSON lists of values, as dump fixtures take them.
inline TensorPair values_pair(core::Dtype dtype, const std::string& from, const std::string& to) {
  const auto left = nlohmann::json::parse(from);
  const auto right = nlohmann::json::parse(to);
  TensorPair pair(dtype, {static_cast<std::int64_t>(left.size())});
  for (const auto& value : left) test_support::append_value(dtype, value, pair.baseline_bytes);
  for (const auto& value : right) test_support::append_value(dtype, value, pair.candidate_bytes);
  return pair;
}

/// From two JSON lists of hexadecimal bit patterns.
inline TensorPair bits_pair(core::Dtype dtype, const std::string& from, const std::string& to) {
  const auto left = nlohmann::json::parse(from);
  const auto right = nlohmann::json::parse(to);
  TensorPair pair(dtype, {static_cast<std::int64_t>(left.size())});
  for (const auto& bits : left) test_support::append_bits(dtype, bits, pair.baseline_bytes);
  for (const auto& bits : right) test_support::append_bits(dtype, bits, pair.candidate_bytes);
  return pair;
}

}  // namespace repro_check::comparators
