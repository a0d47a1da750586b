// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/say.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "cmd/render/page.h"
#include "cmd/render/text.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

const Json& member(const Json& model, std::string_view path) {
  static const Json nothing;
  if (path.empty()) return model;
  const Json::json_pointer place(fmt::format("/{}", path));
  return model.contains(place) ? model.at(place) : nothing;
}

bool is_absent(const Json& value) {
  return value.is_null() || value == false || value == "" || (value.is_array() && value.empty());
}

enum class Names { kEscaped, kAsTheyAre };

std::string value_text(const Json& value, std::string_view unit, Names names);

/// `a, b, c and 2 more`.
std::string few_text(const Json& list, Names names) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(list.size(), kShown); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", value_text(list[i], "", names));
  }
  if (list.size() > kShown) text += fmt::format(" and {} more", list.size() - kShown);
  return text;
}

std::string list_text(const Json& list, std::string_view between, Names names) {
  return joined(list, between, [&](const Json& item) { return value_text(item, "", names); });
}

/// @param unit  as say() has them, not empty
std::string number_text(const Json& value, std::string_view unit) {
  if (unit == "exact") return fmt::format("{:.9g}", value.get<double>());
  if (unit == "short") return fmt::format("{:.3g}", value.get<double>());
  if (unit == "number" && !value.is_number_integer()) return format_error(value.get<double>());
  if (unit == "number") return value.dump();
  if (unit == "seconds") return format_seconds(value.get<double>());
  if (unit == "bytes") return format_bytes(value.get<std::uint64_t>());
  const std::uint64_t count = value.is_array() ? value.size() : value.get<std::uint64_t>();
  return unit == "count" ? format_count(count) : format_count(count, unit);
}

/// @param unit  as say() has them
std::string value_text(const Json& value, std::string_view unit, Names names) {
  if (value.is_null()) return {};
  if (value.is_object()) return value_text(value.at("text"), unit, names);  // a phrase
  if (unit == "ulp") {
    std::uint64_t ulp = 0;
    describe(JsonReader(value), ulp);
    return format_ulp(ulp);
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return names == Names::kEscaped ? escape_name(text) : text;
  }
  if (unit == "few") return few_text(value, names);
  if (unit == "each") return list_text(value, "; ", names);
  if (unit == "and") return list_text(value, " and ", names);
  if (unit.starts_with('*')) {
    return comparators::numbered(unit.substr(1), value.get<std::vector<std::uint32_t>>());
  }
  if (!unit.empty()) return number_text(value, unit);
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (!value.is_array()) return value.dump();
  const std::string text = list_text(value, ", ", names);
  return value.empty() || value.front().is_number() ? "[" + text + "]" : text;
}

/// What stands between braces: a path and its unit, or a condition, which says nothing.
/// @param whole  turns false where something is asked for that is not there
std::string field_text(std::string_view inside, const Json& model, Names names, bool& whole) {
  if (inside.starts_with('?') || inside.starts_with('!')) {
    whole = whole && is_absent(member(model, inside.substr(1))) == (inside.front() == '!');
    return {};
  }
  const std::size_t colon = std::min(inside.find(':'), inside.size());
  const Json& value = member(model, inside.substr(0, colon));
  std::string_view unit = inside.substr(std::min(colon + 1, inside.size()));
  const bool is_of_none = unit.ends_with('+') && value == 0;
  if (unit.ends_with('+')) unit.remove_suffix(1);
  whole = whole && !is_absent(value) && !is_of_none;
  return value_text(value, unit, names);
}

/// Where the brace or bracket at `begin` ends; optional parts may stand inside of each other.
std::size_t end_of(std::string_view text, std::size_t begin) {
  if (text[begin] == '{') return std::min(text.find('}', begin), text.size() - 1);
  std::size_t depth = 0;
  for (std::size_t at = begin; at < text.size(); ++at) {
    if (text[at] == '[') ++depth;
    if (text[at] == ']' && --depth == 0) return at;
  }
  throw core::internal_error(fmt::format("a text of the catalogue lacks a ]: {}", text));
}

/// @param whole  turns false where something is asked for that is not there
std::string said(std::string_view text, const Json& model, Names names, bool& whole) {
  std::string out;
  for (std::size_t begin = text.find_first_of("{["); begin != std::string_view::npos;
       begin = text.find_first_of("{[")) {
    out += text.substr(0, begin);
    const bool optional = text[begin] == '[';
    if (!optional && text.substr(begin).starts_with("{\"")) {  // JSON, as it stands
      out += '{';
      text.remove_prefix(begin + 1);
      continue;
    }
    const std::size_t end = end_of(text, begin);
    const std::string_view inside = text.substr(begin + 1, end - begin - 1);
    text.remove_prefix(end + 1);
    if (optional) {
      bool all = true;
      const std::string part = said(inside, model, names, all);
      if (all) out += part;
      continue;
    }
    out += field_text(inside, model, names, whole);
  }
  return out.append(text);
}

/// What follows stands under the text behind a label and its spaces, or two behind the indent of a
/// line without.
void append_wrapped(std::string& out, std::string_view line, std::size_t width) {
  constexpr std::size_t kFarthest = 16;
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t text =
      line.find_first_not_of(' ', std::min(line.find("  ", indent), line.size()));
  const bool has_label = text <= kFarthest;
  const std::size_t hang = has_label ? text : indent + 2;
  std::string front(line.substr(0, has_label ? text : indent));
  const Line body(line.substr(front.size()));
  for (const Line& each : body.wrapped(width - columns(front), width - hang)) {
    out += front + each.str(false) + "\n";
    front.assign(hang, ' ');
  }
}

}  // namespace

Json cleaned(Json json) {
  if (json.is_string()) return json_text(json.get_ref<const std::string&>());
  if (json.is_structured()) {
    for (Json& item : json) item = cleaned(std::move(item));
  }
  return json;
}

std::string say(std::string_view text, const Json& model) {
  bool whole = true;
  return said(text, model, Names::kEscaped, whole);
}

std::string say_unescaped(std::string_view text, const Json& model) {
  bool whole = true;
  return said(text, model, Names::kAsTheyAre, whole);
}

std::vector<SaidLine> said_lines(std::span<const ViewLine> lines, const Json& model) {
  std::vector<SaidLine> out;
  for (const ViewLine& line : lines) {
    const Json& each = member(model, line.each);
    if (is_absent(each) || each == 0) continue;
    for (const Json& one : each.is_array() ? each : Json::array({each})) {
      out.push_back({say(line.label, one), say(line.text, one)});
    }
  }
  return out;
}

std::string text_of(std::span<const SaidLine> lines, std::size_t indent) {
  std::string out;
  for (const SaidLine& line : lines) {
    out += fmt::format("{:{}}{:<11}{}\n", "", indent, line.label, line.body);
  }
  return out;
}

std::string say_lines(std::span<const ViewLine> lines, const Json& model, std::size_t indent) {
  return text_of(said_lines(lines, model), indent);
}

std::string wrapped(std::string_view text, std::size_t columns) {
  constexpr std::size_t kLeast = 40;  // narrower terminals have no room behind a label
  const std::size_t width = std::max(columns, kLeast);
  std::string out;
  while (columns != 0 && !text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + 1);
    if (cmd::columns(line) <= width || line.find('\t') != std::string_view::npos) {
      out.append(line).append("\n");
      continue;
    }
    append_wrapped(out, line, width);
  }
  return out.append(text);
}

}  // namespace repro_check::cmd
