// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "configs/parser/config_parser.h"
#include "configs/spec/run_config.h"
#include "core/tensor/dtype.h"
#include "core/text/strict_json.h"

namespace repro_check::configs::detail {

/// Keeps the order of keys: inputs and dictionaries have one.
using Json = nlohmann::ordered_json;

/// One mistake in a configuration.
struct ConfigProblem {
  std::string pointer;  ///< JSON pointer, "" for the whole document
  std::string message;  ///< what is wrong, and what would be accepted
};

/// Collects mistakes, so that a person reads all of them at once.
class Problems {
 public:
  void add(std::string pointer, std::string message) {
    if (final_.contains(pointer)) return;
    all_.push_back({std::move(pointer), std::move(message)});
  }
  /// As add, for a mistake that would cause others at the same place: those are not added.
  void add_final(const std::string& pointer, std::string message) {
    add(pointer, std::move(message));
    final_.insert(pointer);
  }
  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
  [[nodiscard]] const std::vector<ConfigProblem>& all() const noexcept { return all_; }
  /// @throws core::Error{kUsage} with a line a problem, unless there are none
  void refuse_any(const std::string& origin, const std::string& hint = kConfigHint) const;

 private:
  std::vector<ConfigProblem> all_;
  std::set<std::string, std::less<>> final_;
};

using core::child_pointer;
std::string child_pointer(std::string_view parent, std::size_t index);

/// `--max-growth` of the key `max_growth`.
std::string flag_of(std::string_view key);

/// What every part of the parser needs to know.
struct ParseContext {
  Problems& problems;
  std::filesystem::path base;  ///< absolute; relative paths start here
  /// A request for a recorder, made by us: paths are final and unchecked, inputs carry the pointer
  /// they were given at.
  bool resolved = false;
  bool of_flags = false;        ///< keys are flags, and files are called as they were typed
  bool seeds_programs = false;  ///< those that are given no seed, with that of a model

  /// How messages call a key: `"max_growth"`, `--max-growth`.
  [[nodiscard]] std::string key_name(std::string_view key) const;
};

/// configs/repro-check-config.schema.json: which keys there are, and what each of them takes.
/// Beside the words of JSON Schema it has some for us: `x-expected`, what a value has to be, for
/// messages; `x-form`, the same of one that does not match the pattern; `x-why`, said of one that
/// is too large; `x-path`, what a path must lead to, or what may be made there; `x-flag`, of
/// the flag that stands for a key of `compare`: place in the help, what it takes, how that is
/// called, what it is, and the heading that begins there.
const Json& config_schema();
/// What a schema that refers to another one stands for.
const Json& followed(const Json& schema);
/// The part of a schema that lists the keys of an object.
const Json& object_schema(const Json& schema);

/// A value, where it stands, and what the schema says of it. Borrows from the document.
struct Node {
  const Json* json = nullptr;
  std::string pointer;
  const Json* schema = nullptr;
  const ParseContext* context = nullptr;

  [[nodiscard]] Node item(std::size_t index) const {
    const auto items = schema->find("items");
    return {&(*json)[index],
            child_pointer(pointer, index),
            items == schema->end() ? schema : &followed(*items),
            context};
  }
  /// @param as  schema of the member
  [[nodiscard]] Node member(std::string_view key, const Json& value, const Json* as) const {
    return {&value, child_pointer(pointer, key), as, context};
  }
  /// The same value under another schema.
  [[nodiscard]] Node as(const Json& another) const { return {json, pointer, &another, context}; }

  // Each of these adds a mistake, and gives false, which many a caller returns.
  // NOLINTBEGIN(modernize-use-nodiscard)
  bool refuse(std::string message) const;
  /// `expected <expected>, got <value>`.
  bool say_expected(std::string_view expected) const;
  /// The same, as the schema calls what is expected.
  bool say_expected() const;
  // NOLINTEND(modernize-use-nodiscard)
};

/// What a person sees of a value: `"two"`, `3.5`, `a list`.
std::string describe(const Json& json);

// Each of these reads a value as its schema has it: range, words, pattern. It gives the value, or
// reports the problem and gives nothing.

/// @param why  said of a value that is too large; empty = what the schema says
std::optional<std::int64_t> read_integer(
    const Node& node,
    std::string_view why = {},
    std::int64_t least = std::numeric_limits<std::int64_t>::min(),
    std::int64_t most = std::numeric_limits<std::int64_t>::max());
/// Of a number of bytes, or a text such as 256MiB.
std::optional<std::int64_t> read_bytes(const Node& node);
/// Index of a word among those of the schema, with the near miss.
std::optional<std::size_t> read_word(const Node& node);
/// Not empty, and no NUL in it.
std::optional<std::string> read_text(const Node& node);

// Read into a member, which keeps what it has when there is a problem.
// @return whether there was none

/// Or two words that stand for false and true.
bool read(const Node& node, bool& into);
bool read(const Node& node, double& into);
/// Steps of a program, `0:3,100`.
bool read(const Node& node, core::OpRanges& into);
bool read(const Node& node, std::optional<NamePattern>& into);
bool read(const Node& node, core::Dtype& into);
/// Not `auto`, which is for RecordingPlan.
bool read(const Node& node, core::DumpLevel& into);
bool read(const Node& node, std::string& into);
/// A path, made absolute, that must lead to what the schema says.
bool read(const Node& node, std::filesystem::path& into);
/// Variables of the environment, null for one to be taken away; merges into what is there.
bool read(const Node& node, std::map<std::string, std::optional<std::string>>& into);
/// Settings, null for one that is not set; merges into what is there.
bool read(const Node& node, std::map<std::string, std::string>& into);
bool read(const Node& node, core::SliceRule& slice);

template <typename Integer>
requires std::is_integral_v<Integer>
bool read(const Node& node, Integer& into) {
  const bool may_be_text = node.schema->contains("anyOf");
  const auto value = may_be_text ? read_bytes(node) : read_integer(node);
  if (value) into = static_cast<Integer>(*value);
  return value.has_value();
}

/// The schema has the words in the order of the values.
template <typename Enum>
requires std::is_enum_v<Enum>
bool read(const Node& node, Enum& into) {
  const auto index = read_word(node);
  if (index) into = static_cast<Enum>(*index);
  return index.has_value();
}

/// Null takes back what was there, where the schema has it.
bool takes_null(const Node& node);

template <typename Value>
bool read(const Node& node, std::optional<Value>& into) {
  if (node.json->is_null() && takes_null(node)) {
    into.reset();
    return true;
  }
  Value value{};
  if (!read(node, value)) return false;
  into = std::move(value);
  return true;
}

/// A list takes the place of what was there; items that are wrong are left out.
template <typename Item>
bool read(const Node& node, std::vector<Item>& into) {
  const bool is_null = node.json->is_null() && takes_null(node);
  if (!is_null && (!node.json->is_array() ||
                   node.json->size() < node.schema->value("minItems", std::size_t{0}))) {
    return node.say_expected();
  }
  into.clear();
  for (std::size_t i = 0; !is_null && i < node.json->size(); ++i) {
    Item item{};
    if (read(node.item(i), item)) into.push_back(std::move(item));
  }
  return true;
}

/// An object of which the schema must know every key. Constructing it reports those it does not.
class ObjectReader {
 public:
  /// @param more  keys beyond those of the schema
  explicit ObjectReader(Node node,
                        std::initializer_list<std::string_view> more = {},
                        std::string_view without = {});

  [[nodiscard]] bool is_object() const noexcept { return node_.json->is_object(); }
  [[nodiscard]] const Node& node() const noexcept { return node_; }
  [[nodiscard]] const ParseContext& context() const noexcept { return *node_.context; }
  [[nodiscard]] const Json& schema(const char* key) const { return followed(properties_->at(key)); }
  [[nodiscard]] bool has(std::string_view key) const { return find(key).has_value(); }

  /// The member, if it is there; never when this is no object.
  [[nodiscard]] std::optional<Node> find(std::string_view key) const;

  /// Reads a member, where it is there, with the function read() of its type.
  template <typename Member>
  bool operator()(std::string_view key, Member& member) const {
    const auto node = find(key);
    return node && read(*node, member);
  }
  template <typename Member>
  void unless_empty(std::string_view key, Member& member) const {
    (*this)(key, member);
  }

  /// Adds a mistake of a member.
  void refuse(std::string_view key, std::string message) const;

  /// Whether it is there, or an unknown key was taken for it: then its absence is no second
  /// mistake.
  [[nodiscard]] bool is_meant(std::string_view key) const;

  /// Adds `"<key>" is missing<why>`, unless it is meant or this is no object.
  void require(std::string_view key, std::string_view why) const;

 private:
  Node node_;
  const Json* properties_;
  std::vector<std::string_view> misspelled_;
};

/// Parses JSON more strictly than the library does by itself. Duplicate keys (the first is kept),
/// deep nesting, integers beyond 64 bits and syntax errors, the last with line and column, are
/// problems.
/// @param pointer  where in the configuration the text stands; "" for the whole
/// @return empty when there is no document to go on with
std::optional<Json> parse_json(std::string_view text,
                               const std::string& pointer,
                               Problems& problems);

/// What an object said, whether or not it was right: what is missing is not reported twice.
struct Given {
  bool model = false;  ///< or a program
  bool inputs = false;
  bool seed = false;
};

/// The members that the top level, an entry of `runs` and a resolved run have in common, over what
/// `run` already holds: env, settings and model merge key by key, all else is replaced.
Given read_run_members(const ObjectReader& object, RunSpec& run);

/// An entry of `runs`, over the base configuration that `run` holds.
Given read_run_entry(const Node& node, RunSpec& run);

/// What is wrong with a run only once all its members are known.
/// @param pointer  of the run; "" for the top level
/// @return whether nothing is
bool check_run(const RunSpec& run, const std::string& pointer, Problems& problems);

void read_dump(const Node& node, DumpSpec& dump, RecordingPlan& plan);

/// One call's inputs: a list, or an object of name and input.
CallSpec read_inputs(const Node& node);
/// @param with_pointers  with where each input stood in the configuration
Json inputs_json(const CallSpec& call, bool with_pointers);

/// In the order of the documentation.
Json to_json(const RunSpec& run, bool with_pointers);
/// What to_json() has made.
void read_resolved_run(const Node& node, RunSpec& run);

void read_compare(const Node& node, CompareSpec& compare);

/// What a configuration says of a gate.
/// @param object  the whole configuration
void read_gate_members(const ObjectReader& object, GateSpec& gate);
void read_audit(const Node& node, AuditSpec& audit);

}  // namespace repro_check::configs::detail
