// SPDX-License-Identifier: Apache-2.0
#include "comparators/policy.h"

#include <fmt/format.h>

namespace repro_check::comparators {
namespace {

using configs::EqualNan;
using configs::PolicyKind;

EqualNan equal_nan_of(const configs::CompareSpec& spec) noexcept {
  const bool bitwise = spec.policy == PolicyKind::kBitwise;
  return spec.equal_nan.value_or(bitwise ? EqualNan::kBits : EqualNan::kAny);
}

bool signed_zero_distinct(const configs::CompareSpec& spec) noexcept {
  return spec.signed_zero_distinct.value_or(spec.policy == PolicyKind::kBitwise);
}

struct Tolerance {
  double rtol = 0;
  double atol = 0;
};

Tolerance default_tolerance(core::Dtype dtype) noexcept {
  using core::Dtype;
  switch (dtype) {
    case Dtype::kFloat64:
    case Dtype::kComplex128:
      return {1e-7, 1e-7};
    case Dtype::kFloat32:
    case Dtype::kComplex64:
      return {1.3e-6, 1e-5};
    case Dtype::kFloat16:
    case Dtype::kComplex32:
      return {1e-3, 1e-5};
    case Dtype::kBFloat16:
      return {1.6e-2, 1e-5};
    default:
      return {};
  }
}

}  // namespace

ElementPolicy element_policy(const configs::CompareSpec& spec, core::Dtype dtype) noexcept {
  ElementPolicy policy;
  policy.equal_nan = equal_nan_of(spec);
  policy.signed_zero_distinct = signed_zero_distinct(spec);
  policy.canonical_bool = spec.policy == PolicyKind::kBitwise;
  if (spec.policy == PolicyKind::kTolerance) {
    const Tolerance standard = default_tolerance(dtype);
    policy.rtol = spec.rtol.value_or(standard.rtol);
    policy.atol = spec.atol.value_or(standard.atol);
  }
  return policy;
}

bool digests_decide(const configs::CompareSpec& spec) noexcept {
  return spec.policy == PolicyKind::kBitwise && equal_nan_of(spec) != EqualNan::kAny &&
         signed_zero_distinct(spec);
}

std::string describe_policy(const configs::CompareSpec& spec) {
  const bool bitwise = spec.policy == PolicyKind::kBitwise;
  std::string text = bitwise ? "bitwise" : "tolerance";
  if (!bitwise) {
    text += spec.rtol && spec.atol ? fmt::format(", rtol {}, atol {}", *spec.rtol, *spec.atol)
                                   : std::string(", by dtype");
  }
  switch (equal_nan_of(spec)) {
    case EqualNan::kBits:
      break;
    case EqualNan::kAny:
      text += ", NaN equals NaN";
      break;
    case EqualNan::kNever:
      text += ", NaN equals nothing";
      break;
  }
  if (bitwise && !signed_zero_distinct(spec)) text += ", -0 equals +0";
  if (!bitwise && signed_zero_distinct(spec)) text += ", -0 is not +0";
  return text;
}

}  // namespace repro_check::comparators
