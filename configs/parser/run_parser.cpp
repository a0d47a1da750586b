// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/run_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "configs/parser/input_parser.h"
#include "configs/parser/keys.h"
#include "core/text/printable.h"

namespace repro_check::configs::detail {
namespace {

constexpr std::size_t kLongestRunName = 100;
constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kDigits = "0123456789";

/// Whether `text` begins with one of `first` and goes on with letters, digits and `others`.
bool is_of(std::string_view text, std::string_view first, std::string_view others) {
  return !text.empty() && first.find(text.front()) != std::string_view::npos &&
         text.find_first_not_of(std::string(kLetters) + std::string(kDigits) +
                                std::string(others)) == std::string_view::npos;
}

/// What C, the shell and Python all take for a name; LD_PRELOAD included: it is the user's machine.
bool is_identifier(std::string_view text) { return is_of(text, std::string(kLetters) + "_", "_"); }

/// `cpu`, `cuda`, `cuda:1`; which of them exist only the recorder knows.
bool is_device(std::string_view text) {
  constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz";
  const std::size_t colon = text.find(':');
  const std::string_view type = text.substr(0, colon);
  if (type.empty() || type.find_first_not_of(kLower) != std::string_view::npos) return false;
  if (colon == std::string_view::npos) return true;
  const std::string_view index = text.substr(colon + 1);
  constexpr std::size_t kMostDigits = 2;
  return !index.empty() && index.size() <= kMostDigits &&
         index.find_first_not_of(kDigits) == std::string_view::npos &&
         (index.size() == 1 || index.front() != '0');
}

/// Null takes back what the base configuration gave, the list with it.
void read_weights(const ObjectReader& object, const ParseContext& context, ModelSpec& model) {
  if (const auto node = object.find("weights_from"); node && node->json->is_null()) {
    model.weights_from.reset();
    model.weights.clear();
  } else if (node) {
    const auto path =
        read_path(*node, PathKind::kFile, "the path of another version of the model", context);
    if (path) model.weights_from = *path;
  }
  const auto list = object.find("weights");
  if (!list) return;
  model.weights.clear();
  if (list->json->is_null()) return;
  if (!list->json->is_array() || list->json->empty()) {
    report_unexpected(
        *list, "a list of names of parameters and buffers, or null for all", context.problems);
    return;
  }
  for (std::size_t i = 0; i < list->json->size(); ++i) {
    const Node item = list->item(i);
    const auto name = read_text(item, "the name of a parameter or buffer", context.problems);
    if (!name) continue;
    if (std::ranges::find(model.weights, *name) != model.weights.end()) {
      context.problems.add(item.pointer, "the name is in the list already");
    }
    model.weights.push_back(*name);
  }
}

/// @return whether a path was given, right or wrong
bool read_model(const Node& node, const ParseContext& context, ModelSpec& model) {
  constexpr std::string_view kWhat = "the path of a TorchScript model";
  if (node.json->is_string()) {
    assign(read_path(node, PathKind::kFile, kWhat, context), model.path);
    return true;
  }
  if (!node.json->is_object()) {
    report_unexpected(node, "the path of a model, or an object with \"path\"", context.problems);
    return true;
  }
  const ObjectReader object(node, kModelKeys, context.problems);
  const auto path = object.find("path");
  if (path) assign(read_path(*path, PathKind::kFile, kWhat, context), model.path);
  if (const auto method = object.find("method")) {
    const auto name = read_text(*method, "the name of a method", context.problems);
    if (name && !is_identifier(*name)) {
      report_unexpected(*method, "the name of a method, such as forward", context.problems);
    }
    assign(name, model.method);
  }
  if (const auto mode = object.find("mode")) {
    assign(read_choice(*mode, kModelModes, context.problems), model.mode);
  }
  read_weights(object, context, model);
  return path || object.misspelled("path");
}

/// From 1 to `most`. Null takes back what the base configuration gave.
void read_count(const std::optional<Node>& node,
                std::int64_t most,
                Problems& problems,
                std::optional<int>& into) {
  if (!node) return;
  if (node->json->is_null()) {
    into.reset();
  } else if (const auto count = read_integer(*node, {1, most, ""}, problems)) {
    into = static_cast<int>(*count);
  }
}

/// Only what a whole model can be cast to: integers and complex numbers are not.
void read_dtype(const ObjectReader& object, Problems& problems, std::optional<core::Dtype>& into) {
  using core::Dtype;
  const auto node = object.find("dtype");
  if (!node) return;
  if (node->json->is_null()) {
    into.reset();
    return;
  }
  const auto dtype = node->json->is_string()
                         ? core::parse_dtype(node->json->get_ref<const std::string&>())
                         : std::nullopt;
  const bool castable = dtype == Dtype::kFloat16 || dtype == Dtype::kBFloat16 ||
                        dtype == Dtype::kFloat32 || dtype == Dtype::kFloat64;
  if (castable) {
    into = dtype;
  } else {
    report_unexpected(*node, "float16, bfloat16, float32, float64 or null", problems);
  }
}

/// Only the form is checked: which settings there are depends on the LibTorch of the run's
/// recorder.
void read_settings(const Node& node, Problems& problems, RunSpec& run) {
  if (!node.json->is_object()) {
    report_unexpected(node, "an object of setting and value", problems);
    return;
  }
  for (const auto& [name, value] : node.json->items()) {
    const Node member{&value, child_pointer(node.pointer, name)};
    if (!is_of(name, kLetters, "_.")) {
      problems.add(member.pointer,
                   "not the name of a setting; `repro-check env` lists those of your LibTorch");
    } else if (value.is_null()) {
      run.settings.erase(name);
    } else if (value.is_boolean()) {
      run.settings[name] = value.get<bool>() ? "on" : "off";
    } else if (value.is_number_integer()) {
      if (const auto number = read_integer(member, {}, problems)) {
        run.settings[name] = std::to_string(*number);
      }
    } else if (value.is_string()) {
      assign(read_text(member, "the value of a setting", problems), run.settings[name]);
    } else {
      report_unexpected(member, "true, false, an integer, a name or null", problems);
    }
  }
}

/// A list in an entry of `runs` replaces the whole list of the base configuration.
void read_extensions(const Node& node,
                     const ParseContext& context,
                     std::vector<std::filesystem::path>& into) {
  into.clear();
  if (node.json->is_null()) return;
  if (!node.json->is_array()) {
    report_unexpected(node, "a list of libraries of operators, or null", context.problems);
    return;
  }
  for (std::size_t i = 0; i < node.json->size(); ++i) {
    const auto path = read_path(
        node.item(i), PathKind::kFile, "the path of a library of operators (.so)", context);
    if (path) into.push_back(*path);
  }
}

/// An entry of `runs` that gives either replaces both of the base configuration.
bool read_inputs_or_calls(const ObjectReader& object, const ParseContext& context, RunSpec& run) {
  const auto inputs = object.find("inputs");
  const auto calls = object.find("calls");
  if (inputs && calls) {
    context.problems.add(calls->pointer,
                         R"(give either "calls" or "inputs": inputs are those of the only call)");
  } else if (inputs) {
    run.calls = {read_inputs(*inputs, context)};
  } else if (calls) {
    run.calls = read_calls(*calls, context);
  }
  return inputs || calls;
}

/// The members that are one word, a number or a switch.
void read_modes(const ObjectReader& object, Problems& problems, RunSpec& run) {
  if (const auto node = object.find("seed")) assign(read_seed(*node, problems), run.seed);
  if (const auto node = object.find("determinism")) {
    assign(read_choice(*node, kDeterminismModes, problems), run.determinism);
  }
  if (const auto node = object.find("disable_dropout")) {
    assign(read_bool(*node, problems), run.disable_dropout);
  }
  if (const auto node = object.find("rng")) {
    assign(read_choice(*node, kRngModes, problems), run.rng);
  }
  if (const auto node = object.find("grad")) {
    assign(read_choice(*node, kGradModes, problems), run.grad);
  }
  if (const auto node = object.find("optimize_executor")) {
    assign(read_bool(*node, problems), run.optimize_executor);
  }
}

}  // namespace

void read_variables(const Node& node,
                    Problems& problems,
                    std::map<std::string, std::optional<std::string>>& variables) {
  if (!node.json->is_object()) {
    report_unexpected(node, "an object of variable and value", problems);
    return;
  }
  for (const auto& [name, value] : node.json->items()) {
    const std::string pointer = child_pointer(node.pointer, name);
    if (!is_identifier(name)) {
      problems.add(pointer, "not the name of a variable: letters, digits and _ are accepted");
    } else if (value.is_null()) {
      variables[name] = std::nullopt;
    } else if (!value.is_string()) {
      report_unexpected({&value, pointer},
                        value.is_primitive()
                            ? fmt::format("a string such as \"{}\"", describe(value))
                            : std::string("a string, or null to take the variable away"),
                        problems);
    } else if (value.get_ref<const std::string&>().find('\0') != std::string::npos) {
      problems.add(pointer, "the value of a variable cannot hold a NUL");
    } else {
      variables[name] = value.get<std::string>();
    }
  }
}

Given read_run_members(const ObjectReader& object, const ParseContext& context, RunSpec& run) {
  Problems& problems = context.problems;
  Given given;
  if (const auto node = object.find("model")) {
    given.model_path = read_model(*node, context, run.model);
  }
  given.model_path = given.model_path || object.misspelled("model");
  given.calls = read_inputs_or_calls(object, context, run) || object.misspelled("inputs") ||
                object.misspelled("calls");
  read_modes(object, problems, run);
  if (const auto node = object.find("device")) {
    const auto device = read_text(*node, "a device such as cpu or cuda:0", problems);
    if (device && !is_device(*device)) {
      report_unexpected(*node, "a device such as cpu or cuda:0", problems);
    }
    assign(device, run.device);
  }
  read_dtype(object, problems, run.dtype);
  read_count(object.find("threads"), kMostThreads, problems, run.threads);
  read_count(object.find("interop_threads"), kMostThreads, problems, run.interop_threads);
  read_count(object.find("timeout"), kMostSeconds, problems, run.timeout);
  if (const auto node = object.find("env")) read_variables(*node, problems, run.env);
  if (const auto node = object.find("settings")) read_settings(*node, problems, run);
  if (const auto node = object.find("recorder"); node && node->json->is_null()) {
    run.recorder.reset();
  } else if (node) {
    const auto path = read_path(
        *node, PathKind::kExecutable, "the path of a repro-check-recorder program", context);
    if (path) run.recorder = *path;
  }
  if (const auto node = object.find("extensions")) {
    read_extensions(*node, context, run.extensions);
  }
  return given;
}

void read_run_name(const Node& node, Problems& problems, RunSpec& run) {
  const auto name = read_text(node, "the name of a run", problems);
  if (!name) return;
  // A leading dot hides the directory or leaves it, a leading dash is an option to every tool.
  if (!is_of(*name, std::string(kLetters) + std::string(kDigits) + "_", "_.-") ||
      name->size() > kLongestRunName) {
    report_unexpected(node,
                      "a name for a directory: letters, digits, `_`, and after the first `.` and "
                      "`-`, at most 100",
                      problems);
  } else if (name->ends_with(".recording") || name->ends_with(".digest") ||
             name->ends_with(".observer") || name->ends_with(".log")) {
    problems.add(node.pointer,
                 "names ending in .recording, .digest, .observer or .log are taken: they stand "
                 "beside the dumps");
  }
  run.name = *name;
}

bool check_resolved(const RunSpec& run, const std::string& pointer, Problems& problems) {
  constexpr std::size_t kShown = 20;
  bool consistent = true;
  if (!run.model.weights.empty() && !run.model.weights_from) {
    problems.add(
        child_pointer(pointer, "model"),
        R"("weights" names what is taken from another file, and "weights_from" is missing)");
    consistent = false;
  }
  // The recorder sets `threads` and then checks that the variables agree: better told beforehand.
  if (!run.threads) return consistent;
  for (const char* variable : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) {
    const auto found = run.env.find(variable);
    if (found != run.env.end() && found->second && *found->second != std::to_string(*run.threads)) {
      problems.add(pointer.empty() ? "/threads" : pointer,
                   fmt::format(R"("threads" is {} and "env" sets {} to "{}"; give one of them)",
                               *run.threads,
                               variable,
                               core::printable(*found->second, kShown)));
      consistent = false;
    }
  }
  return consistent;
}

}  // namespace repro_check::configs::detail
