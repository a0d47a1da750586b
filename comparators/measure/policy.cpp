// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "configs/parser/config_parser.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
namespace {

using configs::EqualNan;
using configs::PolicyKind;
using configs::PolicySpec;

EqualNan equal_nan_of(const PolicySpec& policy) noexcept {
  const bool bitwise = policy.kind == PolicyKind::kBitwise;
  return policy.equal_nan.value_or(bitwise ? EqualNan::kBits : EqualNan::kAny);
}

bool signed_zero_distinct(const PolicySpec& policy) noexcept {
  return policy.signed_zero_distinct.value_or(policy.kind == PolicyKind::kBitwise);
}

/// Elements that fail every policy with these rules for NaN and zeros.
std::uint64_t refused(const PolicySpec& policy, const TensorMetrics& m) noexcept {
  std::uint64_t count = m.apart();
  const EqualNan nan = equal_nan_of(policy);
  if (nan != EqualNan::kAny) count += m.nan_both_payload;
  if (nan == EqualNan::kNever) count += m.nan_both_same;
  return count + (signed_zero_distinct(policy) ? m.zero_sign_only : 0);
}

TensorVerdict judge_ulps(const PolicySpec& policy, const TensorMetrics& m) {
  if (m.n_beyond == 0) return {true, {}};
  const double allowed = policy.share * static_cast<double>(m.elements);
  const bool passes = refused(policy, m) == 0 && static_cast<double>(m.n_beyond) <= allowed;
  if (policy.share == 0) return {passes, {}};
  return {passes,
          {Phrase("beyond-ulps",
                  {{"beyond", m.n_beyond},
                   {"elements", m.elements},
                   {"ulp", policy.ulp},
                   {"allowed", std::floor(allowed)}})}};
}

TensorVerdict judge_cosine(const PolicySpec& policy, const TensorMetrics& m) {
  // Of nothing finite, or of dtypes that have no angle, elements are all there is to judge by.
  if (!m.cosine || !m.norm_ratio) return {m.n_beyond == 0, {}};
  const bool alike = *m.cosine >= policy.cosine && std::abs(*m.norm_ratio - 1) <= policy.drift;
  return {alike && refused(policy, m) == 0,
          {Phrase("cosine-is", {{"cosine", *m.cosine}, {"ratio", *m.norm_ratio}})}};
}

/// The thresholds of msprobe's documents, on its own quantities.
TensorVerdict judge_msprobe(const PolicySpec& policy, const TensorMetrics& m) {
  constexpr double kLeastCosine = 0.99;
  constexpr double kGreatestError = 1e-3;
  if (!m.cosine || !m.max_abs) return {m.n_beyond == 0, {}};
  const bool passes = *m.cosine > kLeastCosine && *m.max_abs < kGreatestError;
  return {passes && refused(policy, m) == 0,
          {Phrase("msprobe-is",
                  {{"cosine", *m.cosine},
                   {"max_abs", *m.max_abs},
                   {"thousandth", m.within_1e3.value_or(0)},
                   {"five", m.within_5e3.value_or(0)}})}};
}

double times_the_floor(const Metric& value, double floor) noexcept {
  if (value.value_or(0) == 0) return 0;
  return floor == 0 ? std::numeric_limits<double>::infinity() : *value / floor;
}

using Tolerance = std::pair<double, double>;  ///< rtol, atol

Tolerance default_tolerance(core::Dtype dtype) noexcept {
  switch (core::part_dtype(dtype)) {
    case core::Dtype::kFloat64:
      return {1e-7, 1e-7};
    case core::Dtype::kFloat32:
      return {1.3e-6, 1e-5};
    case core::Dtype::kFloat16:
      return {1e-3, 1e-5};
    case core::Dtype::kBFloat16:
      return {1.6e-2, 1e-5};
    default:
      return {};
  }
}

}  // namespace

ElementPolicy element_policy(const PolicySpec& policy, core::Dtype dtype) noexcept {
  ElementPolicy element;
  element.equal_nan = equal_nan_of(policy);
  element.signed_zero_distinct = signed_zero_distinct(policy);
  element.canonical_bool = policy.kind == PolicyKind::kBitwise;
  if (policy.kind == PolicyKind::kUlp) {
    if (!core::is_floating(dtype) && !core::is_complex(dtype)) return element;
    element.atol = std::numeric_limits<double>::infinity();
    element.max_ulp = policy.ulp;
  } else if (policy.kind != PolicyKind::kBitwise) {
    const auto [rtol, atol] = default_tolerance(dtype);
    element.rtol = policy.rtol.value_or(rtol);
    element.atol = policy.atol.value_or(atol);
  }
  return element;
}

ElementPolicy element_policy(const PolicySpec& policy,
                             core::Dtype one,
                             core::Dtype other) noexcept {
  ElementPolicy element = element_policy(policy, one);
  const ElementPolicy second = element_policy(policy, other);
  element.rtol = std::max(element.rtol, second.rtol);
  element.atol = std::max(element.atol, second.atol);
  return element;
}

bool digests_decide(const PolicySpec& policy) noexcept {
  return policy.kind == PolicyKind::kBitwise && equal_nan_of(policy) != EqualNan::kAny &&
         signed_zero_distinct(policy) && !policy.flush_subnormals;
}

bool elements_decide(const PolicySpec& policy) noexcept {
  return !is_screening(policy) && policy.share == 0;
}

bool is_screening(const PolicySpec& policy) noexcept {
  return policy.kind == PolicyKind::kCosine || policy.kind == PolicyKind::kNoise ||
         policy.kind == PolicyKind::kFp64 || policy.kind == PolicyKind::kMsprobe;
}

TensorVerdict judge_metrics(const PolicySpec& policy, const TensorMetrics& metrics) {
  switch (policy.kind) {
    case PolicyKind::kUlp:
      return judge_ulps(policy, metrics);
    case PolicyKind::kCosine:
      return judge_cosine(policy, metrics);
    case PolicyKind::kNoise:
      return judge_noise(policy, metrics, {});
    case PolicyKind::kMsprobe:
      return judge_msprobe(policy, metrics);
    default:
      return {metrics.n_beyond == 0, {}};
  }
}

double noise_factor(const PolicySpec& policy) noexcept { return policy.factor.value_or(2); }

NoiseDistance noise_distance(const TensorMetrics& metrics, const configs::OutputFloor& floor) {
  return {floor.l2_rel,
          floor.max_abs,
          std::max(times_the_floor(metrics.l2_rel, floor.l2_rel),
                   times_the_floor(metrics.max_abs, floor.max_abs))};
}

TensorVerdict judge_noise(const PolicySpec& policy,
                          const TensorMetrics& m,
                          const configs::OutputFloor& floor) {
  // Of nothing finite, or of dtypes without a distance, elements are all there is to judge by.
  if (!m.max_abs) return {m.n_beyond == 0, {}};
  const double factor = noise_factor(policy);
  const bool within =
      m.l2_rel.value_or(0) <= factor * floor.l2_rel && *m.max_abs <= factor * floor.max_abs;
  const bool passes = within && refused(policy, m) == 0;
  const NoiseDistance distance = noise_distance(m, floor);
  if (std::isinf(distance.times)) return {passes, {Phrase("floor-is-zero")}};
  return {
      passes,
      {Phrase("times-the-floor",
              {{"times", distance.times}, {"l2_rel", floor.l2_rel}, {"max_abs", floor.max_abs}})}};
}

double fp64_factor(const PolicySpec& policy, core::Dtype dtype, std::uint64_t elements) {
  constexpr std::uint64_t kMany = 1000;
  constexpr std::size_t kHalf = 2;
  const std::size_t numbers = core::is_complex(dtype) ? 2 : 1;
  const bool scatters = elements < kMany || core::element_size(dtype) <= kHalf * numbers;
  return policy.factor.value_or(scatters ? 3 : 2);
}

TensorVerdict judge_fp64(const PolicySpec& policy,
                         const TensorMetrics& m,
                         const Fp64Distance& distance) {
  const bool passes = distance.candidate_rmse <= distance.allowed && !specials_fail(policy, m);
  return {passes,
          {Phrase("error-to-float64",
                  {{"candidate", distance.candidate_rmse},
                   {"baseline", distance.baseline_rmse},
                   {"allowed", distance.allowed}})}};
}

bool specials_fail(const PolicySpec& policy, const TensorMetrics& metrics) noexcept {
  return refused(policy, metrics) != 0;
}

std::string describe_policy(const PolicySpec& policy) {
  std::string text(configs::name_of(policy.kind));
  switch (policy.kind) {
    case PolicyKind::kBitwise:
      break;
    case PolicyKind::kIgnore:
      return text;
    case PolicyKind::kTolerance:
      text += policy.rtol && policy.atol
                  ? fmt::format(", rtol {}, atol {}", *policy.rtol, *policy.atol)
                  : std::string(", by dtype");
      break;
    case PolicyKind::kUlp:
      text += fmt::format(" {}", policy.ulp);
      if (policy.share > 0) text += fmt::format(", a share of {} beyond", policy.share);
      break;
    case PolicyKind::kCosine:
      text += fmt::format(" {}, norm drift {}", policy.cosine, policy.drift);
      break;
    case PolicyKind::kNoise:
      text += fmt::format(", {} times the floor", noise_factor(policy));
      break;
    case PolicyKind::kFp64:
      text += policy.factor ? fmt::format(", {} times the baseline's error", *policy.factor)
                            : std::string(", 2 or 3 times the baseline's error");
      if (policy.slack > 0) text += fmt::format(" and {}", policy.slack);
      break;
    case PolicyKind::kMsprobe:
      text += ", cosine above 0.99, abs max below 0.001";
      break;
  }
  constexpr std::array<std::string_view, 3> kNan{"", ", NaN equals NaN", ", NaN equals nothing"};
  text += kNan.at(static_cast<std::size_t>(equal_nan_of(policy)));
  const bool bitwise = policy.kind == PolicyKind::kBitwise;
  if (bitwise && !signed_zero_distinct(policy)) text += ", -0 equals +0";
  if (!bitwise && signed_zero_distinct(policy)) text += ", -0 is not +0";
  if (policy.flush_subnormals) text += ", subnormals are zero";
  return text;
}

std::string describe_policy(const configs::CompareSpec& spec) {
  std::string text;
  if (spec.rules.empty()) {
    text = describe_policy(spec.policy);
  } else {
    using enum configs::Unmatched;
    text = fmt::format("{}, else {}",
                       counted(spec.rules.size(), "rule"),
                       spec.unmatched == kError    ? "an error"
                       : spec.unmatched == kIgnore ? "ignored"
                                                   : describe_policy(spec.policy));
  }
  if (spec.promote) text += ", dtypes promoted";
  if (spec.strides == configs::AttributeRule::kStrict) text += ", strides strict";
  if (spec.device == configs::AttributeRule::kStrict) text += ", device strict";
  if (spec.alias == configs::AttributeRule::kStrict) text += ", alias strict";
  return text;
}

}  // namespace repro_check::comparators
