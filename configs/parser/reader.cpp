// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "configs/parser/builtin_files.h"
#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::configs::detail {
namespace {

/// Of a value that an error quotes.
constexpr std::size_t kShownLength = 60;

/// What is wrong with the path, or nothing.
/// A look now saves a recorder that starts, loads LibTorch and then fails. The file may still go
/// away before it is opened, so whoever opens it checks again.
/// @param kind  as the schema has it
std::string flaw_of(const std::filesystem::path& path, std::string_view kind) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  const bool exists = std::filesystem::exists(status);
  const bool is_directory = std::filesystem::is_directory(status);
  if (kind == "directory" && !exists) return "no such directory";
  if (kind.ends_with("-to-make") && !exists) return "";
  if (kind.starts_with("directory")) return is_directory ? "" : "is not a directory";
  if (kind == "dump-to-make" && is_directory) return "";
  if (status.type() == std::filesystem::file_type::none) return error.message();
  if (!exists) return "no such file";
  if (is_directory) return "is a directory";
  if (!std::filesystem::is_regular_file(status)) return "is not a regular file";
  if (access(path.c_str(), R_OK) != 0) return "cannot be read";
  if (kind == "program" && access(path.c_str(), X_OK) != 0) return "is not executable";
  return "";
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  constexpr std::array<std::string_view, 5> kUnits{"", "KiB", "MiB", "GiB", "TiB"};
  std::uint64_t count = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (code != std::errc()) return std::nullopt;
  const std::string_view given = text.substr(static_cast<std::size_t>(end - text.data()));
  const auto* const unit = std::ranges::find(kUnits, given);
  const auto shift = 10 * static_cast<unsigned>(unit - kUnits.begin());
  // So that it stays a number that every reader of JSON has.
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (unit == kUnits.end() || count > kMost >> shift) return std::nullopt;
  return static_cast<std::int64_t>(count << shift);
}

/// Lines and columns count from 1; the library only counts bytes when it is out of numbers.
std::string place_in(std::string_view text, std::size_t position) {
  const std::string_view before = text.substr(0, std::min(position, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t start = before.rfind('\n');
  const std::size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1);
  return fmt::format("line {}, column {}", line, std::max<std::size_t>(column, 1));
}

/// Whether the names of an object's members may be so; `pattern` of the schema's propertyNames.
bool is_name(const Node& object, const std::string& name) {
  return NamePattern(object.schema->at("propertyNames").at("pattern")).matches(name);
}

}  // namespace

void Problems::refuse_any(const std::string& origin, const std::string& hint) const {
  // A file that is something else altogether would otherwise give a line a key.
  constexpr std::size_t kMostLines = 100;
  // Keys are the author's: they may hold anything, and be of any length.
  constexpr std::size_t kLongestPointer = 300;
  if (all_.empty()) return;
  const std::string name = core::printable(origin);
  std::vector<std::string> lines;
  for (const auto& [at, message] : std::span(all_).first(std::min(all_.size(), kMostLines))) {
    const std::string pointer = core::printable(at, kLongestPointer);
    lines.push_back(fmt::format(
        "{}: {}{}{}", name, pointer, pointer.empty() ? "" : ": ", core::printable(message)));
  }
  if (all_.size() > kMostLines) {
    lines.push_back(fmt::format("{}: and {} more", name, all_.size() - kMostLines));
  }
  throw core::usage_error(fmt::format("{}", fmt::join(lines, "\n")), hint);
}

std::string child_pointer(std::string_view parent, std::size_t index) {
  return child_pointer(parent, std::to_string(index));
}

std::string flag_of(std::string_view key) {
  std::string flag = fmt::format("--{}", key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string ParseContext::key_name(std::string_view key) const {
  return of_flags ? flag_of(key) : fmt::format("\"{}\"", key);
}

const Json& config_schema() {
  static const Json schema = Json::parse(builtin_schema());
  return schema;
}

const Json& followed(const Json& schema) {
  if (const auto place = schema.find("$ref"); place != schema.end()) {
    const auto pointer = place->get_ref<const std::string&>().substr(1);
    return followed(config_schema().at(Json::json_pointer(pointer)));
  }
  const auto parts = schema.find("allOf");
  return parts == schema.end() || schema.contains("type") ? schema : followed(parts->front());
}

const Json& object_schema(const Json& schema) {
  if (schema.contains("properties") || !schema.contains("anyOf")) return schema;
  for (const Json& one : schema.at("anyOf")) {
    if (one.contains("properties")) return one;
  }
  return schema;
}

// Containers are named, not printed: the pointer leads to them, and they may be long.
std::string describe(const Json& json) {
  if (json.is_object()) return json.empty() ? "an empty object" : "an object";
  if (json.is_array()) return json.empty() ? "an empty list" : "a list";
  if (!json.is_string()) return json.dump();
  return fmt::format("\"{}\"", core::printable(json.get_ref<const std::string&>(), kShownLength));
}

bool Node::refuse(std::string message) const {
  context->problems.add(pointer, std::move(message));
  return false;
}

bool Node::say_expected(std::string_view expected) const {
  return refuse(fmt::format("expected {}, got {}", expected, describe(*json)));
}

bool Node::say_expected() const { return say_expected(schema->value("x-expected", "")); }

// `1.0` is an integer to JSON Schema, but whoever writes it means something else: it is refused.
std::optional<std::int64_t> read_integer(const Node& node,
                                         std::string_view why,
                                         std::int64_t least,
                                         std::int64_t most) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  least = std::max(least, node.schema->value("minimum", least));
  most = std::min(most, node.schema->value("maximum", most));
  const std::string expected = most != kMax ? fmt::format("an integer from {} to {}", least, most)
                               : least == 0 ? std::string("an integer of 0 or more")
                                            : std::string("a 64-bit integer");
  const Json& json = *node.json;
  if (!json.is_number_integer()) {
    node.say_expected(expected);
    return std::nullopt;
  }
  // The library keeps what is above the signed range as unsigned; a conversion would wrap round.
  const bool above = json.is_number_unsigned()
                         ? json.get<std::uint64_t>() > static_cast<std::uint64_t>(most)
                         : json.get<std::int64_t>() > most;
  if (!above && json.get<std::int64_t>() >= least) return json.get<std::int64_t>();
  const std::string explanation = above ? node.schema->value("x-why", std::string(why)) : "";
  node.refuse(fmt::format("expected {}, got {}{}{}",
                          expected,
                          json.dump(),
                          explanation.empty() ? "" : ": ",
                          explanation));
  return std::nullopt;
}

std::optional<std::int64_t> read_bytes(const Node& node) {
  const auto least = node.schema->at("anyOf").front().at("minimum").get<std::int64_t>();
  const auto size = node.json->is_string() ? parse_bytes(node.json->get_ref<const std::string&>())
                                           : parse_bytes(node.json->dump());
  if (size && *size >= least) return size;
  node.say_expected(
      fmt::format("a number of bytes, {} or more, or a text such as \"256MiB\"", least));
  return std::nullopt;
}

std::optional<std::size_t> read_word(const Node& node) {
  const Json& words = node.schema->at("enum");
  if (const auto found = std::ranges::find(words, *node.json); found != words.end()) {
    return static_cast<std::size_t>(found - words.begin());
  }
  std::vector<std::string_view> names;
  for (const Json& word : words) names.push_back(word.get_ref<const std::string&>());
  const auto near = node.json->is_string()
                        ? core::near_miss(node.json->get_ref<const std::string&>(), names)
                        : std::nullopt;
  node.refuse(fmt::format("expected one of {}, got {}{}",
                          fmt::join(names, ", "),
                          describe(*node.json),
                          near ? fmt::format("; did you mean \"{}\"?", *near) : ""));
  return std::nullopt;
}

std::optional<std::string> read_text(const Node& node) {
  const std::string what = node.schema->at("x-expected");
  const auto wrong = [&](std::string_view got) {
    node.refuse(fmt::format("expected {}, got {}", what, got));
    return std::nullopt;
  };
  if (!node.json->is_string()) return wrong(describe(*node.json));
  const auto& text = node.json->get_ref<const std::string&>();
  if (text.empty()) return wrong("an empty string");
  // Paths, names and patterns end up in C interfaces, which would stop there.
  if (text.find('\0') != std::string::npos) return wrong("a string with a NUL in it");
  const std::string pattern = node.schema->value("pattern", "");
  const bool is_anchored =
      pattern.starts_with("^[") && pattern.find("\\u0000") == std::string::npos;
  if ((is_anchored && !NamePattern(pattern).matches(text)) ||
      text.size() > node.schema->value("maxLength", text.size())) {
    node.say_expected(node.schema->value("x-form", what));
    return std::nullopt;
  }
  return text;
}

bool read(const Node& node, bool& into) {
  if (node.schema->contains("enum")) {
    const auto index = read_word(node);
    if (index) into = *index == 1;
    return index.has_value();
  }
  if (!node.json->is_boolean()) return node.say_expected("true or false");
  into = node.json->get<bool>();
  return true;
}

bool read(const Node& node, double& into) {
  const auto bound = [&](const char* key, double none) { return node.schema->value(key, none); };
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const double least = bound("minimum", -kNone);
  const double most = bound("maximum", kNone);
  const double above = bound("exclusiveMinimum", -kNone);
  const double value = node.json->is_number() ? node.json->get<double>() : std::nan("");
  // Negated, so that a NaN is refused.
  if (value >= least && value <= most && value > above) {
    into = value;
    return true;
  }
  return node.say_expected(above != -kNone   ? fmt::format("a number above {}", above)
                           : most != kNone   ? fmt::format("a number from {} to {}", least, most)
                           : least != -kNone ? fmt::format("a number of {} or more", least)
                                             : std::string("a number"));
}

bool read(const Node& node, core::OpRanges& into) {
  const auto text = read_text(node);
  if (!text) return false;
  core::OpRanges steps;
  const auto number = core::parse_number<std::uint64_t>;
  for (std::size_t start = 0; start <= text->size();) {
    const std::size_t end = std::min(text->find(',', start), text->size());
    const std::string_view part = std::string_view(*text).substr(start, end - start);
    const std::size_t colon = part.find(':');
    const auto first = number(part.substr(0, colon));
    const auto past = colon == std::string_view::npos ? first : number(part.substr(colon + 1));
    const std::uint64_t one = colon == std::string_view::npos ? 0 : 1;
    if (!first || !past || *past < *first + one) return node.say_expected();
    steps.push_back({*first, *past - one});
    start = end + 1;
  }
  into = core::united(std::move(steps));
  return true;
}

bool read(const Node& node, std::optional<NamePattern>& into) {
  // The root module's path is empty, so an empty pattern means something.
  const auto text = *node.json == "" ? std::optional<std::string>("") : read_text(node);
  if (!text) return false;
  const std::string wrong = NamePattern::problem(*text);
  if (!wrong.empty()) return node.refuse(fmt::format("not a regular expression: {}", wrong));
  into.emplace(*text);
  return true;
}

bool read(const Node& node, core::Dtype& into) {
  const Json& words = node.schema->at("enum");
  if (std::ranges::find(words, *node.json) == words.end()) {
    return node.say_expected("float16, bfloat16, float32, float64 or null");
  }
  into = core::parse_dtype(node.json->get_ref<const std::string&>()).value();
  return true;
}

bool read(const Node& node, core::DumpLevel& into) {
  const auto index = read_word(node);
  if (index && *node.json != "auto") into = static_cast<core::DumpLevel>(*index);
  return index.has_value();
}

bool read(const Node& node, std::string& into) {
  auto text = read_text(node);
  if (text) into = std::move(*text);
  return text.has_value();
}

bool read(const Node& node, std::filesystem::path& into) {
  const auto text = read_text(node);
  if (!text) return false;
  if (node.context->resolved) {
    into = *text;
    return true;
  }
  const std::filesystem::path path = (node.context->base / *text).lexically_normal();
  const std::string flaw = flaw_of(path, node.schema->at("x-path").get_ref<const std::string&>());
  if (!flaw.empty()) {
    return node.refuse(fmt::format("expected {}; {}: {}",
                                   node.schema->at("x-expected").get_ref<const std::string&>(),
                                   core::printable(path.string()),
                                   flaw));
  }
  into = path;
  return true;
}

// A number is refused although its text is plain: `1.0` and `1e3` would reach the library as JSON
// spells them, not as they were written.
bool read(const Node& node, std::map<std::string, std::optional<std::string>>& into) {
  if (!node.json->is_object()) {
    return node.say_expected("an object of variable and value");
  }
  for (const auto& [name, value] : node.json->items()) {
    const Node member = node.member(name, value, nullptr);
    if (!is_name(node, name)) {
      member.refuse("not the name of a variable: letters, digits and _ are accepted");
    } else if (value.is_null()) {
      into[name] = std::nullopt;
    } else if (!value.is_string()) {
      member.say_expected(value.is_primitive()
                              ? fmt::format("a string such as \"{}\"", describe(value))
                              : std::string("a string, or null to take the variable away"));
    } else if (value.get_ref<const std::string&>().find('\0') != std::string::npos) {
      member.refuse("the value of a variable cannot hold a NUL");
    } else {
      into[name] = value.get<std::string>();
    }
  }
  return true;
}

// Only the form is checked: which settings there are depends on the LibTorch of the run's recorder.
bool read(const Node& node, std::map<std::string, std::string>& into) {
  if (!node.json->is_object()) {
    return node.say_expected("an object of setting and value");
  }
  for (const auto& [name, value] : node.json->items()) {
    const Node member = node.member(name, value, &node.schema->at("additionalProperties"));
    if (!is_name(node, name)) {
      member.refuse("not the name of a setting; `repro-check env` lists those of your LibTorch");
    } else if (value.is_null()) {
      into.erase(name);
    } else if (value.is_boolean()) {
      into[name] = value.get<bool>() ? "on" : "off";
    } else if (value.is_number_integer()) {
      if (const auto number = read_integer(member)) into[name] = std::to_string(*number);
    } else if (value.is_string()) {
      read(member, into[name]);
    } else {
      member.say_expected("true, false, an integer, a name or null");
    }
  }
  return true;
}

bool takes_null(const Node& node) {
  for (const char* key : {"type", "enum"}) {
    const auto found = node.schema->find(key);
    if (found == node.schema->end() || !found->is_array()) continue;
    const Json null = key == std::string_view("type") ? Json("null") : Json(nullptr);
    if (std::ranges::find(*found, null) != found->end()) return true;
  }
  return false;
}

ObjectReader::ObjectReader(Node node,
                           std::initializer_list<std::string_view> more,
                           std::string_view without)
    : node_(std::move(node)), properties_(&object_schema(*node_.schema).at("properties")) {
  if (!is_object()) {
    node_.say_expected("an object");
    return;
  }
  std::vector<std::string_view> known;
  for (const auto& [key, property] : properties_->get_ref<const Json::object_t&>()) {
    if (key != without) known.push_back(key);
  }
  known.insert(known.end(), more);
  for (const auto& [key, value] : node_.json->items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const auto near = core::near_miss(key, known);
    if (near) misspelled_.push_back(*near);
    refuse(key,
           near ? fmt::format("unknown key; did you mean \"{}\"?", *near)
                : fmt::format("unknown key; accepted: {}", fmt::join(known, ", ")));
  }
}

bool ObjectReader::is_meant(std::string_view key) const {
  return has(key) || std::ranges::find(misspelled_, key) != misspelled_.end();
}

void ObjectReader::require(std::string_view key, std::string_view why) const {
  if (!is_object() || is_meant(key)) return;
  node_.refuse(fmt::format("{} is missing{}", context().key_name(key), why));
}

void ObjectReader::refuse(std::string_view key, std::string message) const {
  context().problems.add(child_pointer(node_.pointer, key), std::move(message));
}

std::optional<Node> ObjectReader::find(std::string_view key) const {
  if (!is_object()) return std::nullopt;
  // By hand: the library's own find would compare std::string and allocate for every key.
  for (const auto& [name, value] : node_.json->get_ref<const Json::object_t&>()) {
    if (name != key) continue;
    const auto property = properties_->find(std::string(key));
    return node_.member(
        key, value, property == properties_->end() ? nullptr : &followed(*property));
  }
  return std::nullopt;
}

std::optional<Json> parse_json(std::string_view text,
                               const std::string& pointer,
                               Problems& problems) {
  using Kind = core::JsonFlaw::Kind;
  constexpr std::size_t kLongestReason = 200;
  return core::read_strict_json(text, [&](const core::JsonFlaw& flaw) {
    const std::string place = pointer + flaw.pointer;
    if (flaw.kind == Kind::kInteger) {
      problems.add_final(place,
                         fmt::format("the integer {} does not fit into 64 bits",
                                     core::printable(flaw.what, kShownLength)));
    } else if (flaw.kind == Kind::kDuplicate) {
      problems.add(place, "duplicate key; give it once");
    } else if (flaw.kind == Kind::kDepth) {
      problems.add(place, fmt::format("nested deeper than {}", core::kDeepestJson));
    } else {
      std::string_view reason = flaw.what;
      if (reason.starts_with("parse error")) reason.remove_prefix(reason.find(": ") + 2);
      problems.add(place,
                   fmt::format("{}: not JSON: {}",
                               place_in(text, flaw.position),
                               core::printable(reason, kLongestReason)));
    }
  });
}

}  // namespace repro_check::configs::detail
