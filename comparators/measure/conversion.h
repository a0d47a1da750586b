// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "configs/spec/compare_spec.h"
#include "core/tensor/content.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::comparators {

/// The dtype in which tensors of two dtypes can be compared: float64, complex128 or int64, each of
/// which holds both exactly; under a limit in ULP the narrower of the two instead. Empty where the
/// two are not of one class, or none of these holds both.
std::optional<core::Dtype> common_dtype(core::Dtype one,
                                        core::Dtype other,
                                        configs::PolicyKind policy) noexcept;

/// Makes every number of `bytes` whose magnitude is below the least normal one of `dtype` a zero of
/// its sign, or the only zero there is. Dtypes without subnormals are left as they are.
void flush_subnormals(core::Dtype dtype, std::vector<std::byte>& bytes) noexcept;

/// The elements of `view` as `dtype`, which common_dtype() chose: exactly, or rounded to the
/// nearest, ties to even.
std::vector<std::byte> converted(core::TensorView view, core::Dtype dtype);

/// What scales and zero points make of integers: (q - zero_point) * scale, in float64.
struct Quantiser {
  /// Dimension whose every index has a scale and a zero point of its own; empty where there is one
  /// of each for the whole tensor.
  std::optional<std::size_t> axis;
  std::vector<double> scales = {};       ///< one, or as many as the axis is long
  std::vector<double> zero_points = {};  ///< as many
};

/// Those of two tensors. By channel they come without numbers, which their parts hold.
struct QuantiserPair {
  Quantiser baseline;
  Quantiser candidate;
};

/// The most channels whose scales are kept in memory.
inline constexpr std::int64_t kMostChannels = std::int64_t{1} << 22;

/// Whether the policy looks at the values that integers of a quantised dtype stand for. Bitwise,
/// ulp, noise and fp64 go by the integers.
bool judges_dequantised(configs::PolicyKind policy) noexcept;

/// The quantisers of two tensors of one quantised dtype, one scheme and one axis, where
/// judges_dequantised(policy). Empty otherwise.
std::optional<QuantiserPair> quantisers_of(const core::TensorRecord& baseline,
                                           const core::TensorRecord& candidate,
                                           configs::PolicyKind policy);

/// Scales or zero points as numbers.
/// @param view  float32, float64, int32 or int64; empty for any other dtype
std::vector<double> channel_numbers(core::TensorView view);

/// The values that the integers of a content stand for, as float64. Made where they are read, so
/// that no tensor has to fit into memory.
class DequantisedParts final : public core::ContentParts {
 public:
  /// @param integers   of a quantised dtype, and right: nobody verifies them after this
  /// @param shape      of the tensor
  /// @param quantiser  with its numbers
  DequantisedParts(std::unique_ptr<core::ContentParts> integers,
                   core::Dtype dtype,
                   std::span<const std::int64_t> shape,
                   Quantiser quantiser);

  [[nodiscard]] std::uint64_t size() const noexcept override;
  [[nodiscard]] std::span<const std::byte> read(std::uint64_t begin,
                                                std::span<std::byte> buffer) const override;
  [[nodiscard]] bool verified() const noexcept override { return true; }
  void verify(std::span<const core::Digest> /*chunks*/) const override {}

 private:
  std::unique_ptr<core::ContentParts> integers_;
  core::Dtype dtype_;
  Quantiser quantiser_;
  std::uint64_t run_ = 1;  ///< elements that follow each other in one channel
};

}  // namespace repro_check::comparators
