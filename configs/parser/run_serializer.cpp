// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/run_serializer.h"

#include <cmath>
#include <string>
#include <type_traits>
#include <utility>

#include "configs/parser/config_parser.h"

namespace repro_check::configs::detail {
namespace {

Json input_json(const InputSpec& input, bool with_pointers);

/// As a copy: what name_of returns is not null-terminated for the library.
Json text_of(std::string_view text) { return std::string(text); }

/// Only the members that the distribution has: the parser refuses the others.
Json generated_json(const GeneratedInput& input) {
  Json json{{"generate", text_of(name_of(input.distribution))},
            {"shape", input.shape},
            {"dtype", text_of(core::dtype_name(input.dtype))}};
  const auto number = [](double value) { return Json(value); };
  // Bounds of integers are read back as integers.
  const auto whole = [](double value) { return Json(static_cast<std::int64_t>(value)); };
  switch (input.distribution) {
    case Distribution::kZeros:
    case Distribution::kOnes:
      break;
    case Distribution::kArange:
      json["low"] = core::is_integral(input.dtype) ? whole(input.low) : number(input.low);
      break;
    case Distribution::kNormal:
      json["seed"] = input.seed;
      json["mean"] = input.mean;
      json["std"] = input.std;
      break;
    case Distribution::kUniform:
      json["seed"] = input.seed;
      json["low"] = number(input.low);
      json["high"] = number(input.high);
      break;
    case Distribution::kRandint:
      json["seed"] = input.seed;
      json["low"] = whole(input.low);
      json["high"] = whole(input.high);
      break;
  }
  return json;
}

/// JSON has no NaN and no infinities.
Json value_json(const ValueInput& input) {
  if (const auto* number = std::get_if<double>(&input.value); number && !std::isfinite(*number)) {
    return Json{{"float", std::isnan(*number) ? "nan" : *number > 0 ? "inf" : "-inf"}};
  }
  return std::visit([](const auto& value) { return Json(value); }, input.value);
}

Json items_json(const std::vector<InputSpec>& items, bool with_pointers) {
  Json json = Json::array();
  for (const InputSpec& item : items) json.push_back(input_json(item, with_pointers));
  return json;
}

/// One spelling a kind of input, the same as in a configuration.
struct SourceWriter {
  bool with_pointers;

  Json operator()(const GeneratedInput& input) const { return generated_json(input); }
  Json operator()(const NpyInput& input) const { return Json{{"npy", input.path.string()}}; }
  Json operator()(const TorchInput& input) const { return Json{{"torch", input.path.string()}}; }
  Json operator()(const Hdf5Input& input) const {
    return Json{{"hdf5", input.path.string()}, {"dataset", input.dataset}};
  }
  Json operator()(const ValueInput& input) const {
    Json json = Json::object();
    json["value"] = value_json(input);
    return json;
  }
  Json operator()(const ListInput& input) const { return wrap("list", input.items); }
  Json operator()(const TupleInput& input) const { return wrap("tuple", input.items); }
  Json operator()(const DictInput& input) const {
    Json entries = Json::object();
    for (const auto& [key, value] : input.entries) entries[key] = input_json(value, with_pointers);
    Json json = Json::object();
    json["dict"] = std::move(entries);
    return json;
  }

  Json wrap(const char* kind, const std::vector<InputSpec>& items) const {
    Json json = Json::object();
    json[kind] = items_json(items, with_pointers);
    return json;
  }
};

Json input_json(const InputSpec& input, bool with_pointers) {
  Json json = std::visit(SourceWriter{with_pointers}, input.source);
  if (!input.name.empty()) json["name"] = input.name;
  if (with_pointers) json["pointer"] = input.pointer;
  return json;
}

Json dump_json(const DumpSpec& dump) {
  Json ranges = Json::array();
  for (const core::OpRange& range : dump.keep_ops) {
    ranges.push_back(Json::array({range.first, range.last}));
  }
  Json json{{"directory", dump.directory.string()},
            {"level", text_of(name_of(dump.level))},
            {"depth", text_of(name_of(dump.depth))},
            {"browse", text_of(name_of(dump.browse))},
            {"verify_inputs", dump.verify_inputs},
            {"include", dump.include},
            {"exclude", dump.exclude},
            {"memory", dump.memory}};
  if (dump.max_bytes) json["max_bytes"] = *dump.max_bytes;
  if (dump.slice) {
    json["slice"] = Json{{"elements", dump.slice->elements}, {"stride", dump.slice->stride}};
    if (dump.slice->above) json["slice"]["above"] = *dump.slice->above;
  }
  if (dump.reference) json["reference"] = dump.reference->string();
  if (!dump.keep_ops.empty()) json["keep_ops"] = std::move(ranges);
  return json;
}

}  // namespace

Json to_json(const RunSpec& run, bool with_pointers) {
  Json json = Json::object();
  json["name"] = run.name;
  json["model"] = Json{{"path", run.model.path.string()},
                       {"method", run.model.method},
                       {"mode", text_of(name_of(run.model.mode))}};
  if (run.model.weights_from) json["model"]["weights_from"] = run.model.weights_from->string();
  if (!run.model.weights.empty()) json["model"]["weights"] = run.model.weights;
  json["calls"] = Json::array();
  for (const CallSpec& call : run.calls) {
    Json entry = Json::object();
    entry["inputs"] = items_json(call, with_pointers);
    json["calls"].push_back(std::move(entry));
  }
  json["seed"] = run.seed;
  json["determinism"] = text_of(name_of(run.determinism));
  json["disable_dropout"] = run.disable_dropout;
  json["rng"] = text_of(name_of(run.rng));
  json["grad"] = text_of(name_of(run.grad));
  json["device"] = run.device;
  // Null, not absent: a reader of the manifest sees that nothing was asked.
  json["dtype"] = run.dtype ? text_of(core::dtype_name(*run.dtype)) : Json(nullptr);
  json["threads"] = run.threads ? Json(*run.threads) : Json(nullptr);
  json["interop_threads"] = run.interop_threads ? Json(*run.interop_threads) : Json(nullptr);
  json["optimize_executor"] = run.optimize_executor;
  json["env"] = Json::object();
  for (const auto& [name, value] : run.env) {
    json["env"][name] = value ? Json(*value) : Json(nullptr);
  }
  json["settings"] = Json::object();
  for (const auto& [name, value] : run.settings) json["settings"][name] = value;
  json["recorder"] = run.recorder ? Json(run.recorder->string()) : Json(nullptr);
  if (!run.extensions.empty()) {
    json["extensions"] = Json::array();
    for (const auto& path : run.extensions) json["extensions"].push_back(path.string());
  }
  json["dump"] = dump_json(run.dump);
  return json;
}

}  // namespace repro_check::configs::detail
