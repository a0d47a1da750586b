// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "configs/parser/reader.h"
#include "core/error.h"
#include "core/trace/op_record.h"

namespace repro_check::configs {
namespace detail {
namespace {

/// A parameter and the policies that it means something to: one, or two.
struct Parameter {
  const char* key;
  PolicyKind owner;
  PolicyKind second_owner = owner;

  [[nodiscard]] bool belongs_to(PolicyKind kind) const {
    return kind == owner || kind == second_owner;
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

/// What would have no effect is refused: whoever wrote it expects one.
void check_parameters(const ObjectReader& object, PolicyKind kind) {
  for (const Parameter& parameter : kParameters) {
    if (parameter.belongs_to(kind) || !object.has(parameter.key)) continue;
    std::string owners(name_of(parameter.owner));
    if (parameter.second_owner != parameter.owner) {
      owners += fmt::format(" and {}", name_of(parameter.second_owner));
    }
    object.refuse(
        parameter.key,
        fmt::format("means nothing under the policy {}; it belongs to {}", name_of(kind), owners));
    return;  // the others of its policy are the same mistake
  }
}

/// One tolerance without the other would silently mean 0 to some and a default to others.
void check_tolerances(const ObjectReader& object) {
  const bool rtol = object.has("rtol");
  if (rtol == object.has("atol")) return;
  object.refuse(rtol ? "rtol" : "atol",
                fmt::format("{} must be given with it; without both the dtype's defaults hold",
                            object.context().key_name(rtol ? "atol" : "rtol")));
}

/// @param kind  empty when it was given and is none: then there is nothing to hold members against
void read_parameters(const ObjectReader& object,
                     std::optional<PolicyKind> kind,
                     PolicySpec& policy) {
  object("rtol", policy.rtol);
  object("atol", policy.atol);
  object("ulp", policy.ulp);
  if (kind == PolicyKind::kUlp) {
    object.require("ulp", ": the greatest accepted distance in ULP, such as 4");
  }
  object("share", policy.share);
  object("cosine", policy.cosine);
  object("drift", policy.drift);
  object("factor", policy.factor);
  object("slack", policy.slack);
  if (kind) check_parameters(object, *kind);
  if (!kind || kind == PolicyKind::kTolerance) check_tolerances(object);
}

/// What `object` says of NaN, zeros and subnormals.
void read_specials(const ObjectReader& object, PolicySpec& policy) {
  object("equal_nan", policy.equal_nan);
  object("signed_zero", policy.signed_zero_distinct);
  object("subnormals", policy.flush_subnormals);
}

/// A policy by its name, or as an object that holds its numbers as well.
/// @return the kind; empty when there was none, and for an object, which has been read whole
std::optional<PolicyKind> read_policy(const Node& node, PolicySpec& policy) {
  std::optional<PolicyKind> kind;
  if (!node.json->is_object()) {
    const Node name = node.as(followed(node.schema->at("anyOf").front()));
    if (read(name, policy.kind)) kind = policy.kind;
    return kind;
  }
  const ObjectReader object(node);
  object("kind", kind);
  if (kind) policy.kind = *kind;
  object.require("kind", ", such as \"tolerance\"");
  read_parameters(object, kind, policy);
  read_specials(object, policy);
  return std::nullopt;
}

bool read(const Node& node, MatchSpec& match) {
  const ObjectReader object(node);
  object("operator", match.op);
  object("module", match.module);
  object("phase", match.phase);
  object("tensor", match.tensor);
  object("dtype", match.dtype);
  object("device", match.device);
  return true;
}

void read_rules(const Node& node, CompareSpec& compare) {
  compare.rules.clear();
  if (!node.json->is_array()) {
    node.say_expected(
        R"(a list of rules, such as {"match": {"operator": "aten::.*"}, "policy": "bitwise"})");
    return;
  }
  for (std::size_t i = 0; i < node.json->size(); ++i) {
    Rule& rule = compare.rules.emplace_back();
    rule.policy.equal_nan = compare.policy.equal_nan;
    rule.policy.signed_zero_distinct = compare.policy.signed_zero_distinct;
    rule.policy.flush_subnormals = compare.policy.flush_subnormals;
    const ObjectReader object(node.item(i));
    if (const auto match = object.find("match")) read(*match, rule.match);
    object.require("policy", ": the policy for the matched tensors");
    const auto policy = object.find("policy");
    if (!policy || read_policy(*policy, rule.policy) != PolicyKind::kUlp) continue;
    policy->refuse(R"(expected {"kind": "ulp", "ulp": 4} or another number, got "ulp")");
  }
}

/// All that a tensor's dtype can be called.
std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  names.reserve(core::kDtypes.size());
  for (const core::DtypeRow& row : core::kDtypes) names.emplace_back(row.name);
  return names;
}

/// Under `strict_rules` what no recording can mend is told before there is one.
void check_strict_rules(const ObjectReader& object, const CompareSpec& compare) {
  Problems& problems = object.context().problems;
  const auto list = object.find("rules");
  // A pattern that could not be read would look like one that takes everything.
  if (!compare.strict_rules || !list || !problems.empty()) return;
  const auto words = core::split(core::words_of(core::Phase{}), ' ');
  const std::vector<std::string> phases(words.begin(), words.end());
  const std::vector<std::string> dtypes = dtype_names();
  for (std::size_t i = 0; i < compare.rules.size(); ++i) {
    const MatchSpec& match = compare.rules[i].match;
    const std::string pointer = child_pointer(list->pointer, i);
    for (const auto& [key, pattern, names] :
         {std::tuple("phase", &match.phase, &phases), std::tuple("dtype", &match.dtype, &dtypes)}) {
      const auto is_taken = [&at = *pattern](const std::string& name) { return at->matches(name); };
      if (!*pattern || std::ranges::any_of(*names, is_taken)) continue;
      problems.add(pointer + "/match/" + key,
                   fmt::format("matches no {}: {}", key, fmt::join(*names, ", ")));
    }
    const auto earlier = std::span(compare.rules).first(i);
    const auto hides = [&](const Rule& rule) {
      return rule.match == MatchSpec{} || rule.match == match;
    };
    if (const auto found = std::ranges::find_if(earlier, hides); found != earlier.end()) {
      problems.add(
          pointer,
          fmt::format("rule {} matches everything that this rule matches; the first one applies",
                      found - earlier.begin()));
    }
  }
}

void read_numbers(const Node& node, CompareSpec& compare) {
  compare.numbers.reset();
  if (node.json->is_boolean()) {
    if (node.json->get<bool>()) compare.numbers.emplace();
    return;
  }
  const Json& list = node.schema->at("anyOf").back();
  if (!node.json->is_array() || node.json->empty()) {
    node.say_expected();
    return;
  }
  read(node.as(list), compare.numbers.emplace());
}

/// What a rules file holds of the section as well.
void read_rule_members(const ObjectReader& object, CompareSpec& compare) {
  // What a recording may be about to make: it is read by whoever compares.
  object("noise", compare.noise);
  object("fp64", compare.fp64);
  if (const auto rules = object.find("rules")) read_rules(*rules, compare);
  object("unmatched", compare.unmatched);
  object("strict_rules", compare.strict_rules);
  check_strict_rules(object, compare);
}

/// The policy of the section: a name beside its parameters, or an object that holds them.
void read_section_policy(const ObjectReader& object, PolicySpec& policy) {
  const auto member = object.find("policy");
  const auto kind = member ? read_policy(*member, policy) : std::optional(PolicyKind::kBitwise);
  if (!member || !member->json->is_object()) {
    return read_parameters(object, kind, policy);
  }
  for (const Parameter& parameter : kParameters) {
    if (!object.has(parameter.key)) continue;
    object.refuse(parameter.key, fmt::format("belongs into {}, beside \"kind\"", member->pointer));
  }
}

}  // namespace

void read_compare(const Node& node, CompareSpec& compare) {
  const ObjectReader object(node);
  read_specials(object, compare.policy);
  // Before the policy: rules take over what the section says of NaN and zeros, not what the policy
  // does.
  read_rule_members(object, compare);
  read_section_policy(object, compare.policy);
  // The policies noise and fp64 are about something that was recorded.
  if (uses_noise(compare)) {
    object.require("noise",
                   ": the policy noise needs the file that `repro-check calibrate` writes");
  }
  if (uses_fp64(compare)) {
    object.require("fp64",
                   ": the policy fp64 needs a dump of the baseline in float64, such as "
                   "`repro-check record -c config.json --set /dtype=float64 --set "
                   "/dump/level=tensor -o fp64` makes");
  }
  // What stands beside `lenient` overrules it.
  bool lenient = false;
  object("lenient", lenient);
  if (lenient) relax(compare);
  object("dtype", compare.promote);
  object("strides", compare.strides);
  object("device", compare.device);
  object("alias", compare.alias);
  if (const auto numbers = object.find("numbers")) read_numbers(*numbers, compare);
  object("align", compare.align);
  object("order", compare.order);
  std::filesystem::path map;
  if (object("map", map)) {
    // Mistakes in the file are some of the configuration, told with the others.
    std::vector<std::string> wrong;
    const std::string name =
        object.context().of_flags ? object.find("map")->json->get<std::string>() : map.string();
    compare.map = parse_name_map(read_config_text(map), name, wrong);
    for (std::string& sentence : wrong) object.refuse("map", std::move(sentence));
  }
  object("max_growth", compare.max_growth);
  object("threads", compare.threads);
}

}  // namespace detail

namespace {

/// A list of rules, or an object of some members of the section.
detail::Json read_rules_file(const std::filesystem::path& file) {
  constexpr const char* kHint = "docs/CONFIGURATION.md, Rules, has the syntax";
  static const detail::Json schema = detail::Json::parse(R"({"properties": {
      "rules": {"$ref": "#/properties/compare/properties/rules"},
      "unmatched": {"$ref": "#/properties/compare/properties/unmatched"},
      "strict_rules": {"$ref": "#/properties/compare/properties/strict_rules"},
      "noise": {"$ref": "#/properties/compare/properties/noise"},
      "fp64": {"$ref": "#/properties/compare/properties/fp64"}}})");
  detail::Problems problems;
  auto document = detail::parse_json(read_config_text(file, kHint), "", problems);
  const detail::ParseContext context{problems, std::filesystem::absolute(file).parent_path()};
  CompareSpec checked;
  if (document && document->is_array()) {
    const detail::Json& rules = detail::followed(schema.at("properties").at("rules"));
    detail::read_rules({&*document, "", &rules, &context}, checked);
    document = detail::Json::object({{"rules", *document}});
  } else if (document) {
    const detail::ObjectReader object({&*document, "", &schema, &context});
    object.require("rules", ": the list of them");
    detail::read_rule_members(object, checked);
  }
  problems.refuse_any(file.string(), kHint);
  if (checked.noise) (*document)["noise"] = checked.noise->string();
  if (checked.fp64) (*document)["fp64"] = checked.fp64->string();
  return *document;
}

}  // namespace

std::vector<CompareFlag> compare_flags() {
  using Takes = CompareFlag::Takes;
  static const std::map<std::string, Takes> kinds{{"nothing", Takes::kNothing},
                                                  {"number", Takes::kNumber},
                                                  {"word", Takes::kWord},
                                                  {"words", Takes::kWords},
                                                  {"file", Takes::kFile},
                                                  {"dump", Takes::kDump}};
  std::vector<CompareFlag> flags;
  const detail::Json& section = detail::config_schema().at("properties").at("compare");
  for (const auto& [key, property] : section.at("properties").items()) {
    const auto said = property.find("x-flag");
    if (said == property.end()) continue;
    const auto place = said->at(0).get<std::size_t>();
    flags.resize(std::max(flags.size(), place + 1));
    const detail::Json& value = said->at(2);
    flags[place] = {key,
                    detail::flag_of(key),
                    kinds.at(said->at(1).get<std::string>()),
                    value.is_null() ? std::string() : value.get<std::string>(),
                    said->at(3).get<std::string>(),
                    said->size() > 4 ? said->at(4).get<std::string>() : std::string()};
  }
  return flags;
}

CompareSpec compare_of_flags(const std::map<std::string, std::string>& flags,
                             const std::optional<std::filesystem::path>& rules) {
  detail::Json section = detail::Json::object();
  for (const auto& [key, value] : flags) section[key] = detail::Json::parse(value);
  const detail::Json file = rules ? read_rules_file(*rules) : detail::Json::object();
  for (const auto& [key, value] : file.items()) {
    if (!section.contains(key)) section[key] = value;
  }
  // A number says which policy it is about.
  for (const detail::Parameter& parameter : detail::kParameters) {
    if (section.contains("policy") || !section.contains(parameter.key)) continue;
    const bool is_second = section.contains("fp64") && !section.contains("noise");
    section["policy"] = std::string(name_of(is_second ? parameter.second_owner : parameter.owner));
  }
  detail::Problems problems;
  const detail::ParseContext context{
      problems, std::filesystem::current_path(), /*resolved=*/false, /*of_flags=*/true};
  CompareSpec spec;
  const detail::Json& schema = detail::config_schema().at("properties").at("compare");
  detail::read_compare({&section, "", &schema, &context}, spec);
  std::vector<std::string> lines;
  for (const auto& [pointer, message] : problems.all()) {
    // Of what stands in a file that a flag names the place behind the flag.
    const std::size_t end = std::min(pointer.find('/', 1), pointer.size());
    lines.push_back(pointer.empty() ? message
                                    : fmt::format("{}{}{}: {}",
                                                  context.key_name(pointer.substr(1, end - 1)),
                                                  end < pointer.size() ? " " : "",
                                                  pointer.substr(end),
                                                  message));
  }
  if (lines.empty()) return spec;
  throw core::usage_error(
      fmt::format("{}", fmt::join(lines, "\n")),
      "docs/CONFIGURATION.md explains these options: they are the keys of the section \"compare\"");
}

}  // namespace repro_check::configs
