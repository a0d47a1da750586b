// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/float_pass.h"
#include "comparators/measure/leaf_pass.h"

namespace repro_check::comparators::detail {
namespace {

template <typename Format>
std::unique_ptr<LeafPass> pass_for(const Format& format, const ElementPolicy& policy) {
  return std::make_unique<FloatPass<Format>>(format, policy);
}

}  // namespace

std::unique_ptr<LeafPass> make_float_pass(core::Dtype dtype, const ElementPolicy& policy) {
  switch (dtype) {
    case core::Dtype::kFloat32:
      return pass_for(Float32Format{}, policy);
    case core::Dtype::kBFloat16:
      return pass_for(BFloat16Format{}, policy);
    case core::Dtype::kFloat16:
      return pass_for(Float16Format{}, policy);
    case core::Dtype::kFloat64:
      return pass_for(Float64Format{}, policy);
    default:
      return pass_for(Float8Format{&core::byte_float(dtype)}, policy);
  }
}

}  // namespace repro_check::comparators::detail
