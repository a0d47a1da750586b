// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/compare_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "configs/parser/config_parser.h"
#include "configs/parser/keys.h"
#include "configs/parser/policy_parser.h"
#include "core/tensor/dtype.h"

namespace repro_check::configs::detail {
namespace {

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

/// What a recording may be about to make: it is read by whoever compares.
void read_yardsticks(const ObjectReader& object,
                     const ParseContext& context,
                     CompareSpec& compare) {
  if (const auto member = object.find("noise")) {
    compare.noise = read_path(
        *member, PathKind::kFileToMake, "a file that `repro-check calibrate` writes", context);
  }
  if (const auto member = object.find("fp64")) {
    compare.fp64 =
        read_path(*member, PathKind::kDumpToMake, "a dump of the run in float64", context);
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
  read_yardsticks(object, context, compare);
  if (const auto member = object.find("rules")) read_rules(*member, problems, compare);
  if (const auto member = object.find("unmatched")) {
    assign(read_choice(*member, kUnmatchedRules, problems), compare.unmatched);
  }
  if (const auto member = object.find("strict_rules")) {
    assign(read_bool(*member, problems), compare.strict_rules);
  }
  check_strict_rules(object, compare, problems);
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

/// The policies noise and fp64 are about something that was recorded.
void check_yardsticks(const ObjectReader& object, const CompareSpec& compare, Problems& problems) {
  if (uses_noise(compare) && !object.has("noise")) {
    object.report_missing(
        "noise", ": the policy noise needs the file that `repro-check calibrate` writes", problems);
  }
  if (uses_fp64(compare) && !object.has("fp64")) {
    object.report_missing("fp64",
                          ": the policy fp64 needs a dump of the baseline in float64, such as "
                          "`repro-check record -c config.json --set /dtype=float64 --set "
                          "/dump/level=tensor -o fp64` makes",
                          problems);
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
  check_yardsticks(object, compare, problems);
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
