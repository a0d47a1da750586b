// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "configs/parser/reader.h"

namespace repro_check::configs::detail {
namespace {

using core::Dtype;

/// Up to here every integer is a double, which is what GeneratedInput keeps the bounds in.
constexpr std::int64_t kLargestExact = std::int64_t{1} << 53U;

/// The key that makes an input what it is: the first of its form in the schema.
const std::string& kind_of(const Json& form) {
  return form.at("properties").get_ref<const Json::object_t&>().front().first;
}

/// The forms of the schema that an input may have, and what they generate.
struct InputForms {
  InputForms() {
    for (const Json& form : config_schema().at("$defs").at("input").at("anyOf")) {
      if (!form.contains("properties")) continue;
      forms.push_back(&form);
      if (kinds.empty() || kinds.back() != kind_of(form)) kinds.emplace_back(kind_of(form));
      if (kind_of(form) != "generate") continue;
      const Json& words = form.at("properties").at("generate").at("enum");
      distributions["enum"].insert(distributions["enum"].end(), words.begin(), words.end());
    }
  }

  std::vector<const Json*> forms;
  std::vector<std::string_view> kinds;
  Json distributions{{"enum", Json::array()}};  ///< in the order of Distribution
};

const InputForms& input_forms() {
  static const InputForms forms;
  return forms;
}

std::optional<std::size_t> read_distribution(const Node& node) {
  return read_word(node.as(input_forms().distributions));
}

/// What the schema says of an input's form; null, with the problem reported, unless it has one.
const Json* find_form(const Node& node) {
  std::vector<std::string_view> found;
  for (const std::string_view kind : input_forms().kinds) {
    if (node.json->contains(kind)) found.push_back(kind);
  }
  if (found.size() != 1) {
    node.refuse(found.empty()
                    ? fmt::format("expected one of {} in it", fmt::join(input_forms().kinds, ", "))
                    : fmt::format("give only one of {}", fmt::join(found, ", ")));
    return nullptr;
  }
  const Json& value = node.json->at(std::string(found.front()));
  const Node member = node.member(found.front(), value, nullptr);
  // Which other keys there may be depends on what is generated: a mistake there is told alone.
  if (found.front() == "generate" && !read_distribution(member)) return nullptr;
  for (const Json* form : input_forms().forms) {
    const Json& property = form->at("properties").front();
    const auto words = property.find("enum");
    if (kind_of(*form) == found.front() &&
        (words == property.end() || std::ranges::find(*words, value) != words->end())) {
      return form;
    }
  }
  return nullptr;
}

/// The keys of files, in the order of FileInput::Kind.
constexpr std::array kFiles{"npy", "torch", "hdf5"};
/// In the order of ContainerInput::Kind.
constexpr std::array kContainers{"list", "tuple", "dict"};

bool has_bounds(Distribution distribution) {
  return distribution == Distribution::kUniform || distribution == Distribution::kRandint;
}

/// Whether bounds are integers.
bool is_whole(const GeneratedInput& input) {
  return input.distribution == Distribution::kRandint ||
         (input.distribution == Distribution::kArange && core::is_integral(input.dtype));
}

/// Why a dtype that the schema does not list does not suit.
const char* unsuited(Distribution distribution, Dtype dtype) {
  if (core::is_quantised(dtype) || dtype == Dtype::kFloat4E2M1FNX2 ||
      dtype == Dtype::kFloat8E8M0FNU) {
    return "cannot be generated; give the tensor as a file";
  }
  switch (distribution) {
    case Distribution::kArange:
      return "arange takes an integer or floating dtype";
    case Distribution::kNormal:
    case Distribution::kUniform:
      return "normal and uniform take a floating or complex dtype";
    default:
      return "randint takes an integer, bool or floating dtype";
  }
}

/// @return whether there is a dtype to go on with
bool read_input_dtype(const ObjectReader& object, GeneratedInput& input) {
  const Json& schema = object.schema("dtype");
  input.dtype = core::parse_dtype(schema.at("default").get_ref<const std::string&>()).value();
  const auto node = object.find("dtype");
  if (!node) return true;
  const auto dtype = node->json->is_string()
                         ? core::parse_dtype(node->json->get_ref<const std::string&>())
                         : std::nullopt;
  if (!dtype) return node->say_expected("a dtype such as float32, bfloat16, int64 or bool");
  const Json& words = schema.at("enum");
  if (std::ranges::find(words, *node->json) == words.end()) {
    return node->refuse(
        fmt::format("{}: {}", core::dtype_name(*dtype), unsuited(input.distribution, *dtype)));
  }
  input.dtype = *dtype;
  return true;
}

/// @return whether every size was read
bool read_shape(const Node& node, std::vector<std::int64_t>& shape) {
  const auto most = node.schema->at("maxItems").get<std::size_t>();
  if (node.json->is_array() && node.json->size() > most) {
    return node.refuse(fmt::format("expected at most {} sizes", most));
  }
  return read(node, shape) && shape.size() == node.json->size();
}

/// Whether the tensor, however it is looked at, takes no more bytes than anybody means.
bool is_bounded(const GeneratedInput& input) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40U;
  auto bytes = static_cast<std::int64_t>(core::element_size(input.dtype));
  // The other sizes count even beside a 0: LibTorch multiplies them for the strides.
  return std::ranges::all_of(input.shape, [&](std::int64_t size) {
    return size == 0 || (!__builtin_mul_overflow(bytes, size, &bytes) && bytes <= kMostBytes);
  });
}

/// Whether an integer dtype holds `value`; true for dtypes that are none.
bool holds(Dtype dtype, double value) {
  if (dtype == Dtype::kBool) return value >= 0 && value <= 1;
  if (!core::is_integral(dtype)) return true;
  const bool is_signed = dtype >= Dtype::kInt8;
  const int bits = static_cast<int>(core::element_size(dtype)) * 8 - (is_signed ? 1 : 0);
  return value < std::ldexp(1.0, bits) && value >= (is_signed ? -std::ldexp(1.0, bits) : 0.0);
}

/// `low` and `high` as far as they are given and the distribution has them.
bool read_bounds(const ObjectReader& object, GeneratedInput& input) {
  const bool whole = is_whole(input);
  const auto read_bound = [&](const char* key, double& into) {
    const auto node = object.find(key);
    if (!node) return true;
    if (!whole) return read(*node, into);
    const auto value = read_integer(
        *node, "beyond 2^53 not every integer can be kept", -kLargestExact, kLargestExact);
    if (value) into = static_cast<double>(*value);
    return value.has_value();
  };
  const bool ranged = has_bounds(input.distribution);
  const bool has_low = ranged || input.distribution == Distribution::kArange;
  const bool low = !has_low || read_bound("low", input.low);
  return (!ranged || read_bound("high", input.high)) && low;
}

/// Whether the range is one, and fits: a number that wraps round in its dtype would be another
/// input than the one described.
void check_bounds(const ObjectReader& object, const GeneratedInput& input) {
  if (has_bounds(input.distribution) && !(input.low < input.high)) {
    object.find("high")
        .value_or(object.node())
        .refuse(fmt::format("expected low < high, got low {} and high {}", input.low, input.high));
    return;
  }
  double last = input.high - 1;
  if (input.distribution == Distribution::kArange) {
    double count = 1;
    for (const std::int64_t size : input.shape) count *= static_cast<double>(size);
    last = count > 0 ? input.low + count - 1 : input.low;
  } else if (input.distribution != Distribution::kRandint) {
    return;
  }
  if (!holds(input.dtype, input.low) || !holds(input.dtype, last)) {
    object.node().refuse(
        fmt::format("{} does not hold the numbers from {} to {}; take a wider dtype",
                    core::dtype_name(input.dtype),
                    input.low,
                    last));
  }
}

/// @param default_seed  for a random one that names none
GeneratedInput read_generated(const ObjectReader& object, std::uint64_t default_seed) {
  GeneratedInput input;
  const auto distribution =
      static_cast<Distribution>(read_distribution(*object.find("generate")).value());
  input.distribution = distribution;
  if (has_bounds(distribution) || distribution == Distribution::kNormal) {
    input.seed = default_seed;
    object("seed", input.seed);
  }
  const bool typed = read_input_dtype(object, input);
  object.require("shape", ", such as \"shape\": [2, 16]");
  const auto shape = object.find("shape");
  const bool shaped = shape && read_shape(*shape, input.shape);
  if (typed && shaped && !is_bounded(input)) {
    shape->refuse("expected a tensor of at most 2^40 bytes");
    return input;
  }
  if (distribution == Distribution::kNormal) {
    object("mean", input.mean);
    object("std", input.std);
  }
  // What the bounds mean depends on dtype and shape, so a mistake there is told first and alone.
  const bool bounded = typed && read_bounds(object, input);
  if (distribution == Distribution::kRandint && !object.has("high")) {
    object.require("high", ": randint draws from low to high - 1");
  } else if (bounded && shaped) {
    check_bounds(object, input);
  }
  return input;
}

/// Parses the inputs of one call, which share a count of generated tensors.
class InputParser {
 public:
  /// A problem leaves the input as it was: the whole configuration is refused in the end, and the
  /// rest of it is still worth reading.
  /// @param named  whether `name` is a key of it
  InputSpec parse(const Node& node, bool named) {
    InputSpec input;
    input.pointer = node.pointer;
    if (node.json->is_primitive()) {
      input.source = parse_value(node);
      return input;
    }
    if (node.json->is_array()) {
      node.refuse("expected an object or a single value; a list is written {\"list\": [...]}");
      return input;
    }
    Node typed = node;
    typed.schema = find_form(node);
    if (typed.schema == nullptr) return input;
    const ObjectReader object = node.context->resolved
                                    ? ObjectReader(typed, {"pointer"})
                                    : ObjectReader(typed, {}, named ? "" : "name");
    if (named) object("name", input.name);
    if (const auto pointer = object.find("pointer"); pointer && pointer->json->is_string()) {
      input.pointer = pointer->json->get<std::string>();
    }
    input.source = parse_source(object, kind_of(*typed.schema));
    return input;
  }

 private:
  using Source = decltype(InputSpec::source);

  Source parse_source(const ObjectReader& object, std::string_view kind) {
    const auto member = object.find(kind);
    if (kind == "generate") return read_generated(object, generated_++);
    if (kind == "value") return parse_value(*member);
    for (std::size_t i = 0; i < kContainers.size(); ++i) {
      if (kind != kContainers[i]) continue;
      const auto which = static_cast<ContainerInput::Kind>(i);
      return which == ContainerInput::Kind::kDict ? parse_dict(*member)
                                                  : parse_items(which, *member);
    }
    FileInput input;
    const auto* const file = std::ranges::find(kFiles, kind);
    input.kind = static_cast<FileInput::Kind>(file - kFiles.begin());
    read(*member, input.path);
    if (input.kind == FileInput::Kind::kHdf5) {
      object("dataset", input.dataset);
      object.require("dataset", ": which dataset of the HDF5 file");
    }
    return input;
  }

  /// An integer stays one: TorchScript tells `int` from `float` arguments.
  ValueInput parse_value(const Node& node) {
    const Json& json = *node.json;
    if (json.is_null()) return {nullptr};
    if (json.is_boolean()) return {json.get<bool>()};
    if (json.is_string()) return {json.get<std::string>()};
    if (json.is_number_float()) return {json.get<double>()};
    if (json.is_number_integer()) return {read_integer(node).value_or(0)};
    // Our own spelling of what JSON cannot say; in a configuration it is not taken.
    if (node.context->resolved && json.is_object() && json.contains("float")) {
      const double infinity = std::numeric_limits<double>::infinity();
      if (json["float"] == "nan") return {std::numeric_limits<double>::quiet_NaN()};
      if (json["float"] == "inf" || json["float"] == "-inf") {
        return {json["float"] == "inf" ? infinity : -infinity};
      }
    }
    node.say_expected("a number, a string, true, false or null");
    return {};
  }

  /// Parts of a list have no names: only arguments do.
  ContainerInput parse_items(ContainerInput::Kind kind, const Node& node) {
    ContainerInput list{kind, {}};
    if (!node.json->is_array()) node.say_expected("a list of inputs");
    for (std::size_t i = 0; node.json->is_array() && i < node.json->size(); ++i) {
      list.items.push_back(parse(node.item(i), false));
    }
    return list;
  }

  /// In the order of the file, which is the order of the model's dictionary.
  ContainerInput parse_dict(const Node& node) {
    ContainerInput dict{ContainerInput::Kind::kDict, {}};
    if (!node.json->is_object()) {
      node.say_expected("an object of key and input");
      return dict;
    }
    for (const auto& [key, value] : node.json->items()) {
      dict.items.push_back(parse(node.member(key, value, node.schema), false));
      dict.items.back().name = key;
    }
    return dict;
  }

  std::uint64_t generated_ = 0;
};

/// Names once each, and nothing by position after a name: the order would be a guess.
/// @param all_read  no input had a problem of its own, so an empty name was meant to be empty
void check_names(const CallSpec& call, bool all_read, Problems& problems) {
  std::set<std::string_view> seen;
  for (const InputSpec& input : call) {
    if (all_read && input.name.empty() && !seen.empty()) {
      problems.add(input.pointer, "an input without a name follows one with a name; name it too");
    } else if (!input.name.empty() && !seen.insert(input.name).second) {
      problems.add(input.pointer, "an earlier input has the same name");
    }
  }
}

/// Each kind of input as a configuration spells it.
struct InputWriter {
  bool with_pointers;

  [[nodiscard]] Json input_json(const InputSpec& input) const {
    Json json = Json::object();
    std::visit([&](const auto& source) { write(json, source); }, input.source);
    if (!input.name.empty()) json["name"] = input.name;
    if (with_pointers) json["pointer"] = input.pointer;
    return json;
  }

  /// Only the members that the distribution has: the parser refuses the others.
  void write(Json& json, const GeneratedInput& input) const {
    // Bounds of integers are read back as integers.
    const auto bound = [&](double value) {
      return is_whole(input) ? Json(static_cast<std::int64_t>(value)) : Json(value);
    };
    json["generate"] = std::string(name_of(input.distribution));
    json["shape"] = input.shape;
    json["dtype"] = std::string(core::dtype_name(input.dtype));
    const bool is_normal = input.distribution == Distribution::kNormal;
    if (is_normal || has_bounds(input.distribution)) json["seed"] = input.seed;
    if (is_normal) {
      json["mean"] = input.mean;
      json["std"] = input.std;
    }
    if (input.distribution == Distribution::kArange || has_bounds(input.distribution)) {
      json["low"] = bound(input.low);
    }
    if (has_bounds(input.distribution)) json["high"] = bound(input.high);
  }
  void write(Json& json, const FileInput& input) const {
    json[kFiles.at(static_cast<std::size_t>(input.kind))] = input.path.string();
    if (input.kind == FileInput::Kind::kHdf5) json["dataset"] = input.dataset;
  }
  /// JSON has no NaN and no infinities.
  void write(Json& json, const ValueInput& input) const {
    const auto* number = std::get_if<double>(&input.value);
    if (number != nullptr && !std::isfinite(*number)) {
      json["value"]["float"] = std::isnan(*number) ? "nan" : *number > 0 ? "inf" : "-inf";
    } else {
      std::visit([&](const auto& value) { json["value"] = value; }, input.value);
    }
  }
  void write(Json& json, const ContainerInput& input) const {
    Json& items = json[kContainers.at(static_cast<std::size_t>(input.kind))];
    const bool is_dict = input.kind == ContainerInput::Kind::kDict;
    items = is_dict ? Json::object() : inputs_json(input.items, with_pointers);
    for (InputSpec item : input.items) {
      if (!is_dict) break;
      const std::string key = std::exchange(item.name, "");
      items[key] = input_json(item);
    }
  }
};

}  // namespace

CallSpec read_inputs(const Node& node) {
  CallSpec call;
  InputParser parser;
  Problems& problems = node.context->problems;
  const std::size_t problems_before = problems.all().size();
  if (node.json->is_array()) {
    for (std::size_t i = 0; i < node.json->size(); ++i) {
      call.push_back(parser.parse(node.item(i), true));
    }
  } else if (node.json->is_object()) {
    for (const auto& [name, value] : node.json->items()) {
      const Node entry = node.member(name, value, node.schema);
      call.push_back(parser.parse(entry, false));
      call.back().name = name;
      if (name.empty()) entry.refuse("expected the name of an argument");
    }
  } else {
    node.say_expected("a list of inputs, or an object of name and input");
  }
  check_names(call, problems.all().size() == problems_before, problems);
  return call;
}

Json inputs_json(const CallSpec& call, bool with_pointers) {
  Json json = Json::array();
  for (const InputSpec& input : call) json.push_back(InputWriter{with_pointers}.input_json(input));
  return json;
}

}  // namespace repro_check::configs::detail
