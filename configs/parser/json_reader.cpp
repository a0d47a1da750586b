// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/json_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/text/near_miss.h"
#include "core/text/printable.h"

namespace repro_check::configs::detail {
// Containers are named, not printed: the pointer leads to them, and they may be long.
std::string describe(const Json& json) {
  switch (json.type()) {
    case Json::value_t::object:
      return json.empty() ? "an empty object" : "an object";
    case Json::value_t::array:
      return json.empty() ? "an empty list" : "a list";
    case Json::value_t::string:
      return fmt::format("\"{}\"",
                         core::printable(json.get_ref<const std::string&>(), kShownLength));
    default:
      return json.dump();
  }
}

void report_unexpected(const Node& node, std::string_view expected, Problems& problems) {
  problems.add(node.pointer, fmt::format("expected {}, got {}", expected, describe(*node.json)));
}

ObjectReader::ObjectReader(Node node, std::span<const std::string_view> known, Problems& problems)
    : node_(std::move(node)) {
  if (!is_object()) {
    report_unexpected(node_, "an object", problems);
    return;
  }
  for (const auto& [key, value] : node_.json->items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      const auto near = core::near_miss(key, known);
      if (near) misspelled_.push_back(*near);
      problems.add(child_pointer(node_.pointer, key),
                   near ? fmt::format("unknown key; did you mean \"{}\"?", *near)
                        : fmt::format("unknown key; accepted: {}", fmt::join(known, ", ")));
    }
  }
}

bool ObjectReader::misspelled(std::string_view key) const {
  return std::find(misspelled_.begin(), misspelled_.end(), key) != misspelled_.end();
}

void ObjectReader::report_missing(std::string_view key,
                                  std::string_view why,
                                  Problems& problems) const {
  if (!is_object() || misspelled(key)) return;
  problems.add(node_.pointer, fmt::format("\"{}\" is missing{}", key, why));
}

std::optional<Node> ObjectReader::find(std::string_view key) const {
  if (!is_object()) return std::nullopt;
  // By hand: the library's own find would compare std::string and allocate for every key.
  const auto& members = node_.json->get_ref<const Json::object_t&>();
  for (const auto& [name, value] : members) {
    if (name == key) return Node{&value, child_pointer(node_.pointer, key)};
  }
  return std::nullopt;
}

std::optional<std::int64_t> read_integer(const Node& node,
                                         const IntegerRange& range,
                                         Problems& problems) {
  // 2.0 is an integer to JSON Schema, but whoever writes it means something else: it is refused.
  const Json& json = *node.json;
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const std::string expected = range.max != kMax
                                   ? fmt::format("an integer from {} to {}", range.min, range.max)
                               : range.min == 0 ? std::string("an integer of 0 or more")
                                                : std::string("a 64-bit integer");
  if (!json.is_number_integer()) {
    report_unexpected(node, expected, problems);
    return std::nullopt;
  }
  // The library keeps what is above the signed range as unsigned; a conversion would wrap round.
  const bool above = json.is_number_unsigned()
                         ? json.get<std::uint64_t>() > static_cast<std::uint64_t>(range.max)
                         : json.get<std::int64_t>() > range.max;
  if (above || json.get<std::int64_t>() < range.min) {
    const bool explained = above && !range.why.empty();
    problems.add(node.pointer,
                 fmt::format("expected {}, got {}{}{}",
                             expected,
                             json.dump(),
                             explained ? ": " : "",
                             explained ? range.why : ""));
    return std::nullopt;
  }
  return json.get<std::int64_t>();
}

std::optional<bool> read_bool(const Node& node, Problems& problems) {
  if (node.json->is_boolean()) return node.json->get<bool>();
  report_unexpected(node, "true or false", problems);
  return std::nullopt;
}

std::optional<double> read_number(const Node& node, Problems& problems) {
  if (node.json->is_number()) return node.json->get<double>();
  report_unexpected(node, "a number", problems);
  return std::nullopt;
}

std::optional<std::string> read_text(const Node& node, std::string_view what, Problems& problems) {
  if (!node.json->is_string()) {
    report_unexpected(node, what, problems);
    return std::nullopt;
  }
  const auto& text = node.json->get_ref<const std::string&>();
  if (text.empty()) {
    problems.add(node.pointer, fmt::format("expected {}, got an empty string", what));
    return std::nullopt;
  }
  // Paths, names and patterns end up in C interfaces, which would stop there.
  if (text.find('\0') != std::string::npos) {
    problems.add(node.pointer, fmt::format("expected {}, got a string with a NUL in it", what));
    return std::nullopt;
  }
  return text;
}

std::optional<std::size_t> read_name(const Node& node,
                                     std::span<const std::string_view> names,
                                     Problems& problems) {
  if (!node.json->is_string()) {
    report_unexpected(node, fmt::format("one of {}", fmt::join(names, ", ")), problems);
    return std::nullopt;
  }
  const auto& given = node.json->get_ref<const std::string&>();
  const auto found = std::find(names.begin(), names.end(), given);
  if (found == names.end()) {
    const auto near = core::near_miss(given, names);
    problems.add(node.pointer,
                 fmt::format("expected one of {}, got {}{}",
                             fmt::join(names, ", "),
                             describe(*node.json),
                             near ? fmt::format("; did you mean \"{}\"?", *near) : ""));
    return std::nullopt;
  }
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace repro_check::configs::detail
