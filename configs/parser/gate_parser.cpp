// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "configs/parser/reader.h"
#include "core/text/text.h"

namespace repro_check::configs {
namespace detail {
namespace {

void read_baselines(const Node& node, BaselinesSpec& baselines) {
  const ObjectReader object(node);
  object("directory", baselines.directory);
  object("name", baselines.name);
  object("any_of", baselines.any_of);
  std::string store;
  if (!object("store", store)) return;
  if (store.find("://") != std::string::npos) {
    object.find("store")->say_expected("a path, not a URL: download the file before the gate");
  } else if (store.find("{root}") == std::string::npos) {
    object.find("store")->say_expected("a path with {root} in it, the name of a dump");
  } else {
    baselines.store = (node.context->base / store).lexically_normal().string();
  }
}

/// Of a text that has the form of a date.
std::optional<std::chrono::sys_days> parse_date(const std::string& text) {
  const auto number = [&](std::size_t at, std::size_t count) {
    return core::parse_number<int>(text.substr(at, count)).value_or(0);
  };
  const std::chrono::year_month_day date{std::chrono::year{number(0, 4)},
                                         std::chrono::month{static_cast<unsigned>(number(5, 2))},
                                         std::chrono::day{static_cast<unsigned>(number(8, 2))}};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days{date};
}

void read_expires(const ObjectReader& object, ExpectedSpec& expected) {
  object.require("expires", ": the last day of it, such as 2026-12-31");
  std::string text;
  if (!object("expires", text)) return;
  const Node node = *object.find("expires");
  const auto date = parse_date(text);
  if (!date) return static_cast<void>(node.say_expected());
  const auto today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  if (*date - today > kLongestExpectation) {
    node.refuse(
        fmt::format("is {} days ahead; at most {} are allowed, so that the entry is reviewed",
                    (*date - today).count(),
                    kLongestExpectation.count()));
  }
  expected.expires = *date;
}

bool read(const Node& node, LimitSpec& limit) {
  const ObjectReader object(node);
  if (object.is_object() && node.json->size() != 1) {
    return node.say_expected("one of \"ulp\", \"atol\" and \"rtol\"");
  }
  object("ulp", limit.ulp);
  object("atol", limit.atol);
  object("rtol", limit.rtol);
  return true;
}

/// What an expected divergence and an expected finding have in common.
ExpectedSpec read_answer(const ObjectReader& object) {
  ExpectedSpec expected;
  object("module", expected.module);
  object("id", expected.id);
  object("reason", expected.reason);
  object("owner", expected.owner);
  object("issue", expected.issue);
  object.require("reason", ": why it is expected");
  return expected;
}

ExpectedSpec read_expected(const Node& node) {
  const ObjectReader object(node);
  if (!object.is_object()) return {};
  if (!object.is_meant("operator") && !object.is_meant("module") && !object.is_meant("id")) {
    node.refuse(
        "has neither \"operator\" nor \"module\" nor \"id\": it would accept every divergence");
  }
  ExpectedSpec expected = read_answer(object);
  object("operator", expected.op);
  object("phase", expected.phase);
  object("platform", expected.platform);
  if (const auto limit = object.find("limit")) read(*limit, expected.limit);
  object("happens", expected.happens);
  object.require("owner", ": who is responsible for it");
  read_expires(object, expected);
  return expected;
}

ExpectedSpec read_expected_finding(const Node& node) {
  const ObjectReader object(node);
  if (!object.is_object()) return {};
  object.require("id", ": which finding is expected");
  ExpectedSpec expected = read_answer(object);
  read_expires(object, expected);
  return expected;
}

std::vector<ExpectedSpec> read_list(const ObjectReader& object,
                                    std::string_view what,
                                    ExpectedSpec (*read_entry)(const Node&)) {
  std::vector<ExpectedSpec> entries;
  const auto list = object.find("expected");
  if (list && !list->json->is_array()) {
    list->say_expected(what);
  } else if (list) {
    for (std::size_t i = 0; i < list->json->size(); ++i) {
      entries.push_back(read_entry(list->item(i)));
    }
  }
  return entries;
}

}  // namespace

void read_gate_members(const ObjectReader& object, GateSpec& gate) {
  gate.baselines.directory = (object.context().base / gate.baselines.directory).lexically_normal();
  if (const auto node = object.find("baselines")) read_baselines(*node, gate.baselines);
  gate.expected = read_list(object, "a list of expected divergences", &read_expected);
  object("min_judged", gate.min_judged);
  if (!gate.expected.empty()) {
    object.require("min_judged",
                   ": the least number of operators to compare beside the expected divergences");
  }
}

void read_audit(const Node& node, AuditSpec& audit) {
  const ObjectReader object(node);
  object("fail_on", audit.fail_on);
  audit.expected = read_list(object, "a list of expected findings", &read_expected_finding);
}

}  // namespace detail

bool is_gate_name(std::string_view text) {
  const auto pattern = detail::config_schema().at(
      detail::Json::json_pointer("/properties/baselines/properties/name/pattern"));
  return NamePattern(pattern.get<std::string>()).matches(text);
}

}  // namespace repro_check::configs
