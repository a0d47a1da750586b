// SPDX-License-Identifier: Apache-2.0
#include "cmd/options/starting_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "cmd/recording/kit.h"
#include "cmd/recording/recorder_process.h"
#include "cmd/render/json_form.h"
#include "cmd/render/text.h"
#include "configs/spec/run_config.h"
#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

// Types nest as deep as their author liked; ours is a suggestion, not a proof.
constexpr int kDeepest = 8;

/// `List[Tensor]` for "List" gives `Tensor`; empty for another type.
std::optional<std::string_view> inside(std::string_view type, std::string_view outer) {
  if (!type.starts_with(outer) || !type.ends_with("]")) return std::nullopt;
  type.remove_prefix(outer.size());
  if (!type.starts_with("[")) return std::nullopt;
  return core::trimmed(type.substr(1, type.size() - 2));
}

std::vector<std::string_view> split_types(std::string_view list) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') ++depth;
    if (list[i] == ']') --depth;
    if (list[i] == ',' && depth == 0) {
      parts.push_back(core::trimmed(list.substr(start, i - start)));
      start = i + 1;
    }
  }
  parts.push_back(core::trimmed(list.substr(start)));
  return parts;
}

/// What is told of a method's arguments.
struct Argument {
  std::string name;
  std::string type;      ///< TorchScript's text: `Tensor`, `Optional[int]`, `List[Tensor]`
  std::string fallback;  ///< Python's text of its default; empty where it has none
  std::string dtype;     ///< of a tensor
  std::string layer;     ///< the weight of the first layer that takes it; empty = none is known
  std::vector<std::int64_t> shape;  ///< as that takes it, -1 where any size does
  std::int64_t rows = 0;            ///< of a table of which it holds numbers of rows
};

/// Of what nobody tells the size 1.
/// @param seed  of the next tensor: no two are given the same numbers
Json tensor_input(const Argument& argument, std::uint64_t& seed) {
  Json shape = Json::array();
  for (const std::int64_t size : argument.shape) shape.push_back(size < 0 ? 1 : size);
  if (shape.empty() && argument.layer.empty()) shape = {1, 1};
  const auto dtype = core::parse_dtype(argument.dtype);
  const bool is_real = !dtype || core::is_floating(*dtype) || core::is_complex(*dtype);
  if (!is_real && argument.rows == 0) {  // such as a mask
    return {{"generate", "ones"}, {"shape", std::move(shape)}, {"dtype", argument.dtype}};
  }
  Json input{{"generate", argument.rows > 0 ? "randint" : "normal"},
             {"shape", std::move(shape)},
             {"dtype", argument.dtype},
             {"seed", seed++}};
  if (argument.rows > 0) input["high"] = argument.rows;
  return input;
}

/// @return null where no input of that type can be written in a configuration
Json input_of_type(const Argument& argument, std::string_view type, std::uint64_t& seed, int depth);

Json input_list(const Argument& argument,
                const char* kind,
                const std::vector<std::string_view>& types,
                std::uint64_t& seed,
                int depth) {
  Json items = Json::array();
  for (const std::string_view type : types) {
    Json item = input_of_type(argument, type, seed, depth);
    if (item.is_null()) return nullptr;
    items.push_back(std::move(item));
  }
  return Json{{kind, std::move(items)}};
}

Json input_of_type(const Argument& argument,
                   std::string_view type,
                   std::uint64_t& seed,
                   int depth) {
  if (depth > kDeepest) return nullptr;
  if (type == "Tensor") return tensor_input(argument, seed);
  if (type == "int" || type == "number") return Json{{"value", 1}};
  if (type == "float") return Json{{"value", 1.0}};
  if (type == "bool") return Json{{"value", false}};
  if (type == "str") return Json{{"value", ""}};
  if (type == "NoneType" || inside(type, "Optional")) return Json{{"value", nullptr}};
  if (const auto item = inside(type, "List"))
    return input_list(argument, "list", {*item}, seed, depth + 1);
  if (const auto items = inside(type, "Tuple")) {
    return input_list(argument, "tuple", split_types(*items), seed, depth + 1);
  }
  if (const auto entry = inside(type, "Dict")) {
    const auto types = split_types(*entry);
    if (types.size() != 2 || types[0] != "str") return nullptr;
    Json value = input_of_type(argument, types[1], seed, depth + 1);
    if (value.is_null()) return nullptr;
    return Json{{"dict", {{"key", std::move(value)}}}};
  }
  return nullptr;
}

/// A default that JSON can say; empty for the others, whose argument is then left to the model.
std::optional<Json> default_input(const Argument& argument) {
  const std::string& text = argument.fallback;
  if (text == "None") return Json{{"value", nullptr}};
  if (text == "True" || text == "False") return Json{{"value", text == "True"}};
  if (argument.type == "str" && text.size() >= 2 && text.front() == text.back() &&
      (text.front() == '"' || text.front() == '\'')) {
    return Json{{"value", clean_utf8(text.substr(1, text.size() - 2))}};
  }
  const auto integer = core::parse_number<std::int64_t>(text);
  if (argument.type == "int" && integer) return Json{{"value", *integer}};
  const auto number = core::parse_number<double>(text);
  if (argument.type == "float" && number) return Json{{"value", *number}};
  return std::nullopt;
}

/// Puts an array of plain values on one line; shapes are read, and edited, by people. A string of
/// JSON holds no line break, so a bracket followed by one is never inside a string.
std::string with_short_arrays(const std::string& json) {
  std::string text;
  std::size_t at = 0;
  for (std::size_t open = json.find("[\n"); open != std::string::npos;
       open = json.find("[\n", at)) {
    const std::size_t inner = json.find_first_of("[]{", open + 1);
    text.append(json, at, open + 1 - at);
    at = open + 1;
    if (inner == std::string::npos || json[inner] != ']') continue;
    for (; at < inner; ++at) {
      if (json[at] == '\n' || json[at] == ' ') continue;
      text += json[at];
      if (json[at] == ',') text += ' ';
    }
  }
  return text + json.substr(at);
}

/// What has to be looked at, or what is known, of an input.
/// @param pointer  of the input
StartingEdit edit_for(const std::string& pointer, const Argument& argument) {
  const std::string what = "input \"" + argument.name + "\" (" + argument.type + "): ";
  if (argument.type != "Tensor") {
    const bool has_tensors = argument.type.find("Tensor") != std::string::npos;
    return {pointer, what + (has_tensors ? "set the shapes and dtypes in it" : "set its value")};
  }
  if (argument.layer.empty()) {
    return {pointer + "/shape", what + "set its shape and dtype, or name an .npy file"};
  }
  const std::string known =
      argument.rows > 0
          ? fmt::format(
                "{} from 0 to {}, rows of {}", argument.dtype, argument.rows - 1, argument.layer)
          : fmt::format("{} of {}, as {} takes it",
                        argument.dtype,
                        fmt::format("[{}]", fmt::join(argument.shape, ", ")),
                        argument.layer);
  const bool is_whole = std::ranges::find(argument.shape, -1) == argument.shape.end();
  if (is_whole) return {"", what + known};
  return {pointer + "/shape", what + "set its shape: " + known + "; -1 is any size"};
}

Argument argument_of(const Json& entry, const std::string& dtype) {
  Argument argument;
  argument.name = entry.at("name").get<std::string>();
  argument.type = entry.at("type").get<std::string>();
  if (entry.value("has_default", false)) argument.fallback = entry.value("default_value", "");
  argument.dtype = entry.value("dtype", dtype);
  argument.layer = clean_utf8(entry.value("layer", ""));
  argument.shape = entry.value("shape", std::vector<std::int64_t>{});
  argument.rows = entry.value("rows", std::int64_t{0});
  return argument;
}

StartingConfig inputs_of(const Json& description, Json& inputs) {
  StartingConfig result;
  const std::string dtype = description.value("dtype", "float32");
  std::uint64_t seed = 1;
  for (const Json& entry : description.at("arguments")) {
    const Argument argument = argument_of(entry, dtype);
    const std::string name = "input \"" + argument.name + "\" ";
    const bool has_default = entry.value("has_default", false);
    const std::optional<Json> value =
        has_default ? default_input(argument) : input_of_type(argument, argument.type, seed, 0);
    if (has_default && !value) {
      result.edits.push_back(
          {"", name + "(" + argument.type + ") is left out: the model has a default for it"});
      continue;
    }
    if (value->is_null()) {
      result.edits.push_back({kNoPlace,
                              name + "has type " + argument.type +
                                  ", which a configuration cannot express: wrap the model"});
      continue;
    }
    if (!has_default) {
      result.edits.push_back(edit_for("/inputs/" + std::to_string(inputs.size()), argument));
    }
    inputs.push_back({{"name", clean_utf8(argument.name)}});
    inputs.back().update(*value);
  }
  return result;
}

}  // namespace

StartingConfig starting_config(const std::string& model_path,
                               const std::string& method,
                               const Json& description) {
  Json inputs = Json::array();
  StartingConfig result;
  try {
    result = inputs_of(description, inputs);
  } catch (const nlohmann::json::exception& error) {
    throw core::internal_error(std::string("the recorder's description makes no sense: ") +
                               error.what());
  }
  Json document;
  document["model"] = {{"path", clean_utf8(model_path)}, {"method", clean_utf8(method)}};
  document["inputs"] = std::move(inputs);
  document["seed"] = 0;
  // Nothing that a preset decides: what stands in a configuration wins over the preset it names.
  document["dump"] = {{"directory", configs::kDefaultFolder}};
  document["report"] = {{"format", {"text", "json"}}};
  result.text = with_short_arrays(json_piece(document, true)) + "\n";
  return result;
}

StartingConfig ask_starting_config(const std::filesystem::path& model,
                                   const std::string& model_path,
                                   const std::string& method) {
  RecorderCall call{require_recorder_of_model(model, std::nullopt)};
  call.arguments.insert(call.arguments.end(), {"describe", model.string(), "--method", method});
  const std::string answer = ask_recorder(call);
  return starting_config(model_path, method, Json::parse(answer, nullptr, false));
}

}  // namespace repro_check::cmd
