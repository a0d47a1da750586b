// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/gate_parser.h"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "configs/parser/keys.h"
#include "configs/spec/gate_name.h"
#include "core/text/printable.h"

namespace repro_check::configs::detail {
namespace {

bool is_hexadecimal(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<std::string> read_key(const Node& node, Problems& problems) {
  constexpr std::size_t kFewestDigits = 4;
  constexpr std::size_t kMostDigits = 32;
  auto text = read_text(node, "the key of a platform", problems);
  if (!text) return std::nullopt;
  if (text->size() < kFewestDigits || text->size() > kMostDigits || !is_hexadecimal(*text)) {
    report_unexpected(node, "the key of a platform, 4 to 32 hexadecimal digits", problems);
    return std::nullopt;
  }
  return text;
}

void read_any_of(const Node& node, Problems& problems, std::vector<std::string>& into) {
  if (!node.json->is_array()) {
    report_unexpected(node, "a list of platform keys", problems);
    return;
  }
  for (std::size_t i = 0; i < node.json->size(); ++i) {
    if (auto key = read_key(node.item(i), problems)) into.push_back(std::move(*key));
  }
}

void read_baselines(const Node& node, const ParseContext& context, BaselinesSpec& baselines) {
  Problems& problems = context.problems;
  const ObjectReader object(node, kBaselinesKeys, problems);
  if (const auto member = object.find("directory")) {
    assign(read_path(*member, PathKind::kDirectoryToMake, "a directory for baselines", context),
           baselines.directory);
  }
  if (const auto member = object.find("name")) {
    const auto name = read_text(*member, "the name of a gate", problems);
    if (name && !is_gate_name(*name)) {
      report_unexpected(*member, "letters, digits, dots, dashes and underscores", problems);
    } else {
      assign(name, baselines.name);
    }
  }
  if (const auto member = object.find("any_of")) read_any_of(*member, problems, baselines.any_of);
  if (const auto member = object.find("store")) {
    const auto store = read_text(*member, "a path, such as dumps/{root}", problems);
    if (!store) return;
    if (store->find("://") != std::string::npos) {
      report_unexpected(*member, "a path: fetch what a URL names before the gate", problems);
    } else if (store->find("{root}") == std::string::npos) {
      report_unexpected(*member, "a path with {root} in it, the name of a dump", problems);
    } else {
      baselines.store = (context.base / *store).lexically_normal().string();
    }
  }
}

std::optional<NamePattern> read_gate_pattern(const ObjectReader& object,
                                             std::string_view key,
                                             Problems& problems) {
  const auto node = object.find(key);
  if (!node) return std::nullopt;
  if (!node->json->is_string()) {
    report_unexpected(*node, "a regular expression", problems);
    return std::nullopt;
  }
  const auto text = node->json->get<std::string>();
  const std::string problem = NamePattern::problem(text);
  if (problem.empty()) return NamePattern(text);
  problems.add(node->pointer, problem);
  return std::nullopt;
}

std::optional<std::chrono::sys_days> parse_date(std::string_view text) {
  constexpr std::size_t kLength = 10;
  if (text.size() != kLength || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto number = [&](std::size_t at, std::size_t count) {
    int value = -1;
    const char* end = text.data() + at + count;
    const auto read = std::from_chars(text.data() + at, end, value);
    return read.ec == std::errc{} && read.ptr == end ? value : -1;
  };
  const int month = number(5, 2);
  const int day = number(8, 2);
  if (month < 0 || day < 0) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{number(0, 4)},
                                         std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days{date};
}

void read_expires(const Node& node, Problems& problems, ExpectedSpec& expected) {
  const auto text = read_text(node, "a date", problems);
  if (!text) return;
  const auto date = parse_date(*text);
  if (!date) return report_unexpected(node, "a date, such as 2026-12-31", problems);
  const auto today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  if (*date - today > kLongestExpectation) {
    problems.add(node.pointer,
                 fmt::format("is {} days ahead; at most {} are allowed, so that somebody looks "
                             "again",
                             (*date - today).count(),
                             kLongestExpectation.count()));
  }
  expected.expires = *date;
}

void read_limit(const Node& node, Problems& problems, LimitSpec& limit) {
  const ObjectReader object(node, kLimitKeys, problems);
  if (!object.is_object()) return;
  if (node.json->size() != 1) {
    report_unexpected(node, "one of \"ulp\", \"atol\" and \"rtol\"", problems);
    return;
  }
  if (const auto member = object.find("ulp")) {
    limit.ulp = read_integer(*member, {0, std::numeric_limits<std::int64_t>::max(), ""}, problems);
  }
  for (const auto& [key, into] : {std::pair{"atol", &limit.atol}, std::pair{"rtol", &limit.rtol}}) {
    const auto member = object.find(key);
    if (!member) continue;
    *into = read_number(*member, problems);
    if (*into && !(**into >= 0)) report_unexpected(*member, "a number of 0 or more", problems);
  }
}

void read_texts(const ObjectReader& object, Problems& problems, ExpectedSpec& expected) {
  for (const auto& [key, into] : {std::pair{"reason", &expected.reason},
                                  std::pair{"owner", &expected.owner},
                                  std::pair{"issue", &expected.issue}}) {
    if (const auto member = object.find(key)) assign(read_text(*member, "a text", problems), *into);
  }
  if (!object.has("reason")) object.report_missing("reason", ": why it is expected", problems);
  if (!object.has("owner")) object.report_missing("owner", ": who answers for it", problems);
}

ExpectedSpec read_expected(const Node& node, Problems& problems) {
  ExpectedSpec expected;
  const ObjectReader object(node, kExpectedKeys, problems);
  if (!object.is_object()) return expected;
  expected.op = read_gate_pattern(object, "operator", problems);
  expected.module = read_gate_pattern(object, "module", problems);
  expected.phase = read_gate_pattern(object, "phase", problems);
  const bool says_where = object.has("operator") || object.has("module");
  if (!says_where && !object.misspelled("operator") && !object.misspelled("module")) {
    problems.add(node.pointer, "says neither \"operator\" nor \"module\": it would excuse all");
  }
  if (const auto member = object.find("platform")) {
    assign(read_key(*member, problems), expected.platform);
  }
  if (const auto member = object.find("limit")) read_limit(*member, problems, expected.limit);
  if (const auto member = object.find("happens")) {
    const auto index = read_name(*member, kHappensNames, problems);
    if (index) expected.happens = static_cast<Happens>(*index);
  }
  read_texts(object, problems, expected);
  if (const auto member = object.find("expires")) {
    read_expires(*member, problems, expected);
  } else {
    object.report_missing("expires", ": the last day of it, such as 2026-12-31", problems);
  }
  return expected;
}

}  // namespace

void read_gate_members(const ObjectReader& object, const ParseContext& context, GateSpec& gate) {
  Problems& problems = context.problems;
  gate.baselines.directory = (context.base / gate.baselines.directory).lexically_normal();
  if (const auto node = object.find("baselines")) read_baselines(*node, context, gate.baselines);
  if (const auto node = object.find("expected")) {
    if (!node->json->is_array()) {
      report_unexpected(*node, "a list of expected divergences", problems);
    } else {
      for (std::size_t i = 0; i < node->json->size(); ++i) {
        gate.expected.push_back(read_expected(node->item(i), problems));
      }
    }
  }
  if (const auto node = object.find("min_judged")) {
    gate.min_judged =
        read_integer(*node, {1, std::numeric_limits<std::int64_t>::max(), ""}, problems);
  } else if (!gate.expected.empty()) {
    object.report_missing("min_judged",
                          ": so many operators must be left to judge beside what is expected",
                          problems);
  }
}

}  // namespace repro_check::configs::detail
