// SPDX-License-Identifier: Apache-2.0
#include "configs/detail/compare_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "configs/config_parser.h"
#include "configs/detail/keys.h"
#include "core/dtype.h"

namespace repro_check::configs::detail {
namespace {

/// A parameter and the only policy that it means something to.
struct Parameter {
  std::string_view key;
  PolicyKind owner;
};
constexpr std::array kParameters{Parameter{"rtol", PolicyKind::kTolerance},
                                 Parameter{"atol", PolicyKind::kTolerance},
                                 Parameter{"ulp", PolicyKind::kUlp},
                                 Parameter{"share", PolicyKind::kUlp},
                                 Parameter{"cosine", PolicyKind::kCosine},
                                 Parameter{"drift", PolicyKind::kCosine},
                                 Parameter{"factor", PolicyKind::kNoise}};

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
    if (parameter.owner == kind || !object.has(parameter.key)) continue;
    problems.add(child_pointer(object.pointer(), parameter.key),
                 fmt::format("means nothing under the policy {}; it belongs to {}",
                             name_of(kind),
                             name_of(parameter.owner)));
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
  assign(read_bounded(object, "factor", kAllowance, problems), policy.factor);
  if (kind) check_parameters(object, *kind, problems);
  if (!kind || kind == PolicyKind::kTolerance) check_tolerances(object, problems);
}

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

/// A name is short for an object with nothing but `kind`.
void read_policy(const Node& node, Problems& problems, PolicySpec& policy) {
  if (node.json->is_object()) return read_policy_object(node, problems, policy);
  if (read_kind(node, problems, policy) != PolicyKind::kUlp) return;
  problems.add(node.pointer, R"(expected {"kind": "ulp", "ulp": 4} or another number, got "ulp")");
}

std::optional<NamePattern> read_pattern(const ObjectReader& object,
                                        std::string_view key,
                                        Problems& problems) {
  const auto node = object.find(key);
  if (!node) return std::nullopt;
  // The root module's path is empty, so an empty pattern means something.
  const bool is_empty =
      node->json->is_string() && node->json->get_ref<const std::string&>().empty();
  const auto text = is_empty
                        ? std::optional<std::string>("")
                        : read_text(*node, "a regular expression, such as \"aten::.*\"", problems);
  if (!text) return std::nullopt;
  const std::string wrong = NamePattern::problem(*text);
  if (wrong.empty()) return NamePattern(*text);
  problems.add(node->pointer, fmt::format("not a regular expression: {}", wrong));
  return std::nullopt;
}

void read_match(const Node& node, Problems& problems, MatchSpec& match) {
  const ObjectReader object(node, kMatchKeys, problems);
  match.op = read_pattern(object, "operator", problems);
  match.module = read_pattern(object, "module", problems);
  match.phase = read_pattern(object, "phase", problems);
  match.tensor = read_pattern(object, "tensor", problems);
  match.dtype = read_pattern(object, "dtype", problems);
  match.device = read_pattern(object, "device", problems);
}

void read_rule(const Node& node, Problems& problems, Rule& rule) {
  const ObjectReader object(node, kRuleKeys, problems);
  if (const auto member = object.find("match")) read_match(*member, problems, rule.match);
  if (const auto member = object.find("policy")) {
    read_policy(*member, problems, rule.policy);
  } else {
    object.report_missing("policy", ": what the matched tensors have to keep to", problems);
  }
}

void read_rules(const Node& node, Problems& problems, CompareSpec& compare) {
  compare.rules.clear();
  if (!node.json->is_array()) {
    report_unexpected(
        node,
        R"(a list of rules, such as {"match": {"operator": "aten::.*"}, "policy": "bitwise"})",
        problems);
    return;
  }
  PolicySpec base;
  base.equal_nan = compare.policy.equal_nan;
  base.signed_zero_distinct = compare.policy.signed_zero_distinct;
  base.flush_subnormals = compare.policy.flush_subnormals;
  for (std::size_t i = 0; i < node.json->size(); ++i) {
    Rule& rule = compare.rules.emplace_back(Rule{{}, base});
    read_rule(node.item(i), problems, rule);
  }
}

/// A file that `calibrate` may be about to make: it is read by whoever compares.
void read_noise(const ObjectReader& object, const ParseContext& context, CompareSpec& compare) {
  if (const auto member = object.find("noise")) {
    compare.noise = read_path(
        *member, PathKind::kFileToMake, "a file that `repro-check calibrate` writes", context);
  }
}

/// All that a tensor's dtype can be called.
std::vector<std::string> dtype_names() {
  constexpr int kValues = 256;
  std::vector<std::string> names{std::string(core::dtype_name(core::Dtype::kUnknown))};
  for (int value = 1; value < kValues; ++value) {
    std::string name(core::dtype_name(static_cast<core::Dtype>(value)));
    if (name != names.front()) names.push_back(std::move(name));
  }
  return names;
}

/// Whether a pattern takes any of the names there can be.
bool takes_any(const std::optional<NamePattern>& pattern, std::span<const std::string> names) {
  return !pattern || std::ranges::any_of(
                         names, [&](const std::string& name) { return pattern->matches(name); });
}

/// Under `strict_rules` what no recording can mend is told before there is one.
void check_strict_rules(const ObjectReader& object,
                        const CompareSpec& compare,
                        Problems& problems) {
  const auto list = object.find("rules");
  // A pattern that could not be read would look like one that takes everything.
  if (!compare.strict_rules || !list || !problems.empty()) return;
  const std::vector<std::string> phases{"forward", "backward", "optimizer"};
  const std::vector<std::string> dtypes = dtype_names();
  for (std::size_t i = 0; i < compare.rules.size(); ++i) {
    const MatchSpec& match = compare.rules[i].match;
    const std::string pointer = child_pointer(list->pointer, i);
    for (const auto& [key, pattern, names] :
         {std::tuple("phase", &match.phase, &phases), std::tuple("dtype", &match.dtype, &dtypes)}) {
      if (takes_any(*pattern, *names)) continue;
      problems.add(pointer + "/match/" + key,
                   fmt::format("matches no {}: {}", key, fmt::join(*names, ", ")));
    }
    const auto earlier = std::span(compare.rules).first(i);
    const auto hides = [&](const Rule& rule) {
      return rule.match == MatchSpec{} || rule.match == match;
    };
    if (const auto found = std::ranges::find_if(earlier, hides); found != earlier.end()) {
      problems.add(pointer,
                   fmt::format("rule {} takes all that it could match; the first that matches is "
                               "taken",
                               found - earlier.begin()));
    }
  }
}

void read_rule_members(const ObjectReader& object,
                       const ParseContext& context,
                       CompareSpec& compare) {
  Problems& problems = context.problems;
  read_noise(object, context, compare);
  if (const auto member = object.find("rules")) read_rules(*member, problems, compare);
  if (const auto member = object.find("unmatched")) {
    assign(read_choice(*member, kUnmatchedRules, problems), compare.unmatched);
  }
  if (const auto member = object.find("strict_rules")) {
    assign(read_bool(*member, problems), compare.strict_rules);
  }
  check_strict_rules(object, compare, problems);
}

/// The policy of the section: a name beside its parameters, or an object that holds them.
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

/// Mistakes in the file are some of the configuration, told with the others.
void read_map(const Node& node, const ParseContext& context, CompareSpec& compare) {
  const auto file = read_path(node, PathKind::kFile, "a file of names that differ", context);
  if (!file) return;
  std::vector<std::string> wrong;
  compare.map = parse_name_map(read_config_text(*file), file->string(), wrong);
  for (std::string& sentence : wrong) context.problems.add(node.pointer, std::move(sentence));
}

void read_alignment(const ObjectReader& object, const ParseContext& context, CompareSpec& compare) {
  if (const auto member = object.find("align")) {
    assign(read_choice(*member, kAlignModes, context.problems), compare.align);
  }
  if (const auto member = object.find("order")) {
    assign(read_choice(*member, kOperatorOrders, context.problems), compare.order);
  }
  if (const auto member = object.find("map")) read_map(*member, context, compare);
}

/// What is said of the things around the values. What stands beside `lenient` overrules it.
void read_attributes(const ObjectReader& object, Problems& problems, CompareSpec& compare) {
  if (const auto member = object.find("lenient")) {
    if (read_bool(*member, problems).value_or(false)) relax(compare);
  }
  if (const auto member = object.find("dtype")) {
    const auto index = read_name(*member, kDtypeRuleNames, problems);
    if (index) compare.promote = *index == 1;
  }
  if (const auto member = object.find("strides")) {
    assign(read_choice(*member, kAttributeRules, problems), compare.strides);
  }
  if (const auto member = object.find("device")) {
    compare.device = read_choice(*member, kAttributeRules, problems);
  }
  if (const auto member = object.find("alias")) {
    assign(read_choice(*member, kAttributeRules, problems), compare.alias);
  }
}

/// The policy noise is about a file.
void check_noise(const ObjectReader& object, const CompareSpec& compare, Problems& problems) {
  const bool given = object.has("noise");
  if (uses_noise(compare) && !given) {
    object.report_missing(
        "noise", ": the policy noise needs the file that `repro-check calibrate` writes", problems);
  }
}

}  // namespace

void read_compare(const Node& node, const ParseContext& context, CompareSpec& compare) {
  Problems& problems = context.problems;
  const ObjectReader object(node, kCompareKeys, problems);
  read_specials(object, problems, compare.policy);
  // Before the policy: rules take over what the section says of NaN and zeros, not what the policy
  // does.
  read_rule_members(object, context, compare);
  read_section_policy(object, problems, compare.policy);
  check_noise(object, compare, problems);
  read_attributes(object, problems, compare);
  read_alignment(object, context, compare);
  if (const auto member = object.find("max_growth")) {
    const auto growth = read_number(*member, problems);
    if (growth && !(*growth > 0)) {
      report_unexpected(*member, "a number above 0", problems);
    } else {
      compare.max_growth = growth;
    }
  }
  if (const auto member = object.find("threads")) {
    const auto count = read_integer(*member, {1, kMostThreads, ""}, problems);
    if (count) compare.threads = static_cast<unsigned>(*count);
  }
}

void read_rules_document(const Node& node, const ParseContext& context, CompareSpec& compare) {
  Problems& problems = context.problems;
  if (node.json->is_array()) return read_rules(node, problems, compare);
  const ObjectReader object(node, kRulesFileKeys, problems);
  if (object.is_object() && !object.has("rules")) {
    object.report_missing("rules", ": the list of them", problems);
  }
  read_rule_members(object, context, compare);
}

}  // namespace repro_check::configs::detail
