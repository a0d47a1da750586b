// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/input_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "configs/parser/keys.h"

namespace repro_check::configs::detail {
namespace {

/// Parses the inputs of one call, which share a count of generated tensors.
class InputParser {
 public:
  explicit InputParser(const ParseContext& context)
      : context_(context), problems_(context.problems) {}

  /// @param named  whether `name` is a key of it
  InputSpec parse(const Node& node, bool named);

 private:
  using Source = decltype(InputSpec::source);

  Source parse_source(const ObjectReader& object, std::string_view kind);
  ValueInput parse_value(const Node& node);
  std::vector<InputSpec> parse_items(const Node& node);
  DictInput parse_dict(const Node& node);

  const ParseContext& context_;
  Problems& problems_;
  std::uint64_t generated_ = 0;
};

/// The one of kSourceKeys that `json` holds; empty, with the problem reported, unless it is one.
std::string_view find_kind(const Node& node, Problems& problems) {
  std::vector<std::string_view> found;
  for (const std::string_view key : kSourceKeys) {
    if (node.json->contains(key)) found.push_back(key);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    problems.add(node.pointer,
                 fmt::format("expected one of {} in it, to say what the input is",
                             fmt::join(kSourceKeys, ", ")));
  } else {
    problems.add(node.pointer, fmt::format("give only one of {}", fmt::join(found, ", ")));
  }
  return {};
}

/// What may stand in an input of this kind, so that `high` in `zeros` is told and not ignored.
std::vector<std::string_view> known_keys(const Json& json, std::string_view kind) {
  std::vector<std::string_view> keys{kind};
  if (kind == "generate") {
    const auto beside = generate_keys(*json.find(kind));
    keys.insert(keys.end(), beside.begin(), beside.end());
  } else if (kind == "hdf5") {
    keys.emplace_back("dataset");
  }
  return keys;
}

// A problem leaves the input as it was: the whole configuration is refused in the end, and the rest
// of it is still worth reading.
InputSpec InputParser::parse(const Node& node, bool named) {
  InputSpec input;
  input.pointer = node.pointer;
  if (node.json->is_primitive()) {
    input.source = parse_value(node);
    return input;
  }
  if (node.json->is_array()) {
    problems_.add(node.pointer,
                  "expected an object or a single value; a list is written {\"list\": [...]}");
    return input;
  }
  const std::string_view kind = find_kind(node, problems_);
  if (kind.empty()) return input;
  std::vector<std::string_view> known = known_keys(*node.json, kind);
  if (named) known.emplace_back("name");
  if (context_.resolved) known.emplace_back("pointer");
  const ObjectReader object(node, known, problems_);
  if (const auto name = object.find("name"); named && name) {
    assign(read_text(*name, "the name of an argument", problems_), input.name);
  }
  if (const auto pointer = object.find("pointer"); context_.resolved && pointer) {
    if (pointer->json->is_string()) input.pointer = pointer->json->get<std::string>();
  }
  input.source = parse_source(object, kind);
  return input;
}

// `kind` is one of kSourceKeys and is there: find_kind has seen to it.
InputParser::Source InputParser::parse_source(const ObjectReader& object, std::string_view kind) {
  const auto member = object.find(kind);
  const auto path = [&](std::string_view what) {
    return read_path(*member, PathKind::kFile, what, context_).value_or(std::filesystem::path{});
  };
  if (kind == "generate") {
    return read_generated(object, generated_++, problems_).value_or(GeneratedInput{});
  }
  if (kind == "npy") return NpyInput{path("the path of a .npy file")};
  if (kind == "torch") return TorchInput{path("the path of a tensor saved by torch.save")};
  if (kind == "hdf5") {
    Hdf5Input input{path("the path of an HDF5 file"), {}};
    if (const auto dataset = object.find("dataset")) {
      assign(read_text(*dataset, "the path of a dataset, such as \"/group/x\"", problems_),
             input.dataset);
    } else {
      object.report_missing("dataset", ": which dataset of the HDF5 file", problems_);
    }
    return input;
  }
  if (kind == "value") return parse_value(*member);
  if (kind == "list") return ListInput{parse_items(*member)};
  if (kind == "tuple") return TupleInput{parse_items(*member)};
  return parse_dict(*member);
}

// An integer stays one: TorchScript tells `int` from `float` arguments.
ValueInput InputParser::parse_value(const Node& node) {
  const Json& json = *node.json;
  if (json.is_null()) return {nullptr};
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_string()) return {json.get<std::string>()};
  if (json.is_number_float()) return {json.get<double>()};
  if (json.is_number_integer()) {
    return {read_integer(node, {}, problems_).value_or(0)};
  }
  // Our own spelling of what JSON cannot say; in a configuration it is not taken.
  if (context_.resolved && json.is_object() && json.contains("float")) {
    const auto names = std::to_array<std::string_view>({"nan", "inf", "-inf"});
    const auto index = read_name({&json["float"], node.pointer + "/float"}, names, problems_);
    if (index == 0U) return {std::numeric_limits<double>::quiet_NaN()};
    const double infinity = std::numeric_limits<double>::infinity();
    return {index == 1U ? infinity : -infinity};
  }
  report_unexpected(node, "a number, a string, true, false or null", problems_);
  return {};
}

// Parts of a list have no names: only arguments do.
std::vector<InputSpec> InputParser::parse_items(const Node& node) {
  std::vector<InputSpec> items;
  if (!node.json->is_array()) {
    report_unexpected(node, "a list of inputs", problems_);
    return items;
  }
  for (std::size_t i = 0; i < node.json->size(); ++i) items.push_back(parse(node.item(i), false));
  return items;
}

// In the order of the file, which is the order of the model's dictionary.
DictInput InputParser::parse_dict(const Node& node) {
  DictInput dict;
  if (!node.json->is_object()) {
    report_unexpected(node, "an object of key and input", problems_);
    return dict;
  }
  for (const auto& [key, value] : node.json->items()) {
    dict.entries.push_back({key, parse({&value, child_pointer(node.pointer, key)}, false)});
  }
  return dict;
}

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

}  // namespace

CallSpec read_inputs(const Node& node, const ParseContext& context) {
  CallSpec call;
  InputParser parser(context);
  const std::size_t problems_before = context.problems.all().size();
  if (node.json->is_array()) {
    for (std::size_t i = 0; i < node.json->size(); ++i) {
      call.push_back(parser.parse(node.item(i), true));
    }
  } else if (node.json->is_object()) {
    for (const auto& [name, value] : node.json->items()) {
      call.push_back(parser.parse({&value, child_pointer(node.pointer, name)}, false));
      call.back().name = name;
      if (name.empty())
        context.problems.add(call.back().pointer, "expected the name of an argument");
    }
  } else {
    report_unexpected(node, "a list of inputs, or an object of name and input", context.problems);
  }
  check_names(call, context.problems.all().size() == problems_before, context.problems);
  return call;
}

std::vector<CallSpec> read_calls(const Node& node, const ParseContext& context) {
  std::vector<CallSpec> calls;
  if (!node.json->is_array() || node.json->empty()) {
    report_unexpected(
        node, "a list of at least one call, such as [{\"inputs\": [...]}]", context.problems);
    return calls;
  }
  for (std::size_t i = 0; i < node.json->size(); ++i) {
    const ObjectReader object(node.item(i), kCallKeys, context.problems);
    const auto inputs = object.find("inputs");
    if (inputs) {
      calls.push_back(read_inputs(*inputs, context));
    } else {
      object.report_missing("inputs", "; [] for a call without any", context.problems);
    }
  }
  return calls;
}

}  // namespace repro_check::configs::detail
