// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/policy_parser.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "configs/parser/config_parser.h"
#include "configs/parser/keys.h"

namespace repro_check::configs::detail {
namespace {

/// A parameter and the policies that it means something to: one, or two.
struct Parameter {
  std::string_view key;
  PolicyKind owner;
  PolicyKind second_owner;

  constexpr Parameter(std::string_view name, PolicyKind one) : Parameter(name, one, one) {}
  constexpr Parameter(std::string_view name, PolicyKind one, PolicyKind other)
      : key(name), owner(one), second_owner(other) {}

  [[nodiscard]] bool belongs_to(PolicyKind kind) const {
    return kind == owner || kind == second_owner;
  }
  [[nodiscard]] std::string owners() const {
    std::string names(name_of(owner));
    return owner == second_owner ? names : fmt::format("{} and {}", names, name_of(second_owner));
  }
};
constexpr std::array kParameters{Parameter{"rtol", PolicyKind::kTolerance},
                                 Parameter{"atol", PolicyKind::kTolerance},
                                 Parameter{"ulp", PolicyKind::kUlp},
                                 Parameter{"share", PolicyKind::kUlp},
                                 Parameter{"cosine", PolicyKind::kCosine},
                                 Parameter{"drift", PolicyKind::kCosine},
                                 Parameter{"factor", PolicyKind::kNoise, PolicyKind::kFp64},
                                 Parameter{"slack", PolicyKind::kFp64}};

struct Bounds {
  double least;
  double most;
  std::string_view expected;
};
constexpr Bounds kAllowance{0, std::numeric_limits<double>::max(), "a number of 0 or more"};
constexpr Bounds kShare{0, 1, "a number from 0 to 1"};
constexpr Bounds kSimilarity{-1, 1, "a number from -1 to 1"};

/// Negated, so that a NaN, should JSON ever carry one, is refused as well.
std::optional<double> read_bounded(const ObjectReader& object,
                                   std::string_view key,
                                   const Bounds& bounds,
                                   Problems& problems) {
  const auto node = object.find(key);
  if (!node) return std::nullopt;
  const auto value = read_number(*node, problems);
  if (value && !(*value >= bounds.least && *value <= bounds.most)) {
    report_unexpected(*node, bounds.expected, problems);
    return std::nullopt;
  }
  return value;
}

/// What would have no effect is refused: whoever wrote it expects one.
void check_parameters(const ObjectReader& object, PolicyKind kind, Problems& problems) {
  for (const Parameter& parameter : kParameters) {
    if (parameter.belongs_to(kind) || !object.has(parameter.key)) continue;
    problems.add(child_pointer(object.pointer(), parameter.key),
                 fmt::format("means nothing under the policy {}; it belongs to {}",
                             name_of(kind),
                             parameter.owners()));
    return;  // the others of its policy are the same mistake
  }
}

/// One tolerance without the other would silently mean 0 to some and a default to others.
void check_tolerances(const ObjectReader& object, Problems& problems) {
  const bool rtol = object.has("rtol");
  if (rtol == object.has("atol")) return;
  problems.add(child_pointer(object.pointer(), rtol ? "rtol" : "atol"),
               fmt::format("\"{}\" must be given with it; without both the dtype's defaults hold",
                           rtol ? "atol" : "rtol"));
}

/// @param kind  empty when it was given and is none: then there is nothing to hold members against
void read_parameters(const ObjectReader& object,
                     std::optional<PolicyKind> kind,
                     Problems& problems,
                     PolicySpec& policy) {
  policy.rtol = read_bounded(object, "rtol", kAllowance, problems);
  policy.atol = read_bounded(object, "atol", kAllowance, problems);
  if (const auto member = object.find("ulp")) {
    constexpr IntegerRange kDistance{0, std::numeric_limits<std::int64_t>::max(), ""};
    assign(read_integer(*member, kDistance, problems), policy.ulp);
  } else if (kind == PolicyKind::kUlp) {
    object.report_missing("ulp", ": so many ULP two elements may be apart, such as 4", problems);
  }
  assign(read_bounded(object, "share", kShare, problems), policy.share);
  assign(read_bounded(object, "cosine", kSimilarity, problems), policy.cosine);
  assign(read_bounded(object, "drift", kAllowance, problems), policy.drift);
  if (const auto factor = read_bounded(object, "factor", kAllowance, problems)) {
    policy.factor = factor;
  }
  assign(read_bounded(object, "slack", kAllowance, problems), policy.slack);
  if (kind) check_parameters(object, *kind, problems);
  if (!kind || kind == PolicyKind::kTolerance) check_tolerances(object, problems);
}

std::optional<PolicyKind> read_kind(const Node& node, Problems& problems, PolicySpec& policy) {
  const auto kind = read_choice(node, kPolicyKinds, problems);
  assign(kind, policy.kind);
  return kind;
}

void read_policy_object(const Node& node, Problems& problems, PolicySpec& policy) {
  const ObjectReader object(node, kPolicyKeys, problems);
  std::optional<PolicyKind> kind;
  if (const auto member = object.find("kind")) {
    kind = read_kind(*member, problems, policy);
  } else {
    object.report_missing("kind", ", such as \"tolerance\"", problems);
  }
  read_parameters(object, kind, problems, policy);
  read_specials(object, problems, policy);
}

}  // namespace

void read_specials(const ObjectReader& object, Problems& problems, PolicySpec& policy) {
  if (const auto member = object.find("equal_nan")) {
    policy.equal_nan = read_choice(*member, kEqualNans, problems);
  }
  if (const auto member = object.find("signed_zero")) {
    const auto index = read_name(*member, kSignedZeroNames, problems);
    if (index) policy.signed_zero_distinct = *index == 1;
  }
  if (const auto member = object.find("subnormals")) {
    const auto index = read_name(*member, kSubnormalNames, problems);
    if (index) policy.flush_subnormals = *index == 1;
  }
}

void read_policy(const Node& node, Problems& problems, PolicySpec& policy) {
  if (node.json->is_object()) return read_policy_object(node, problems, policy);
  if (read_kind(node, problems, policy) != PolicyKind::kUlp) return;
  problems.add(node.pointer, R"(expected {"kind": "ulp", "ulp": 4} or another number, got "ulp")");
}

void read_section_policy(const ObjectReader& object, Problems& problems, PolicySpec& policy) {
  const auto member = object.find("policy");
  if (member && member->json->is_object()) {
    read_policy_object(*member, problems, policy);
    for (const Parameter& parameter : kParameters) {
      if (!object.has(parameter.key)) continue;
      problems.add(child_pointer(object.pointer(), parameter.key),
                   fmt::format("belongs into {}, beside \"kind\"", member->pointer));
    }
    return;
  }
  const auto kind =
      member ? read_kind(*member, problems, policy) : std::optional(PolicyKind::kBitwise);
  read_parameters(object, kind, problems, policy);
}

}  // namespace repro_check::configs::detail
