// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "configs/parser/reader.h"
#include "configs/spec/program_keys.h"
#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::configs::detail {
namespace {

// Each struct has one list of its members, which an ObjectReader takes and an ObjectWriter gives.

template <typename Visitor, typename Model>
void visit_model(const Visitor& member, Model& model) {
  member("path", model.path);
  member("method", model.method);
  member("mode", model.mode);
  member.unless_empty("weights_from", model.weights_from);
  member.unless_empty("weights", model.weights);
}

template <typename Visitor, typename Program>
void visit_program(const Visitor& member, Program& program) {
  member("command", program.command);
  member("cwd", program.cwd);
  member.unless_empty("resume", program.resume);
}

/// Of a program and of a model alike.
template <typename Visitor, typename Run>
void visit_run(const Visitor& member, Run& run) {
  member("seed", run.seed);
  member("determinism", run.determinism);
  member("disable_dropout", run.disable_dropout);
  if (run.program) {
    member.unless_empty("rng", run.rng);
    member.unless_empty("compile", run.compile);
    member.unless_empty("compile_fallback", run.compile_fallback);
  } else {
    member("rng", run.rng);
    member("grad", run.grad);
    member("device", run.device);
    member("dtype", run.dtype);
  }
  member("threads", run.threads);
  if (!run.program) {
    member("interop_threads", run.interop_threads);
    member("optimize_executor", run.optimize_executor);
  }
  member("env", run.env);
  if (run.program) return;
  member("settings", run.settings);
  member("recorder", run.recorder);
  member.unless_empty("extensions", run.extensions);
}

template <typename Visitor, typename Slice>
void visit_slice(const Visitor& member, Slice& slice) {
  member("elements", slice.elements);
  member("stride", slice.stride);
  member.unless_empty("above", slice.above);
}

/// @return whether a path was given, right or wrong
bool read_model(const Node& node, ModelSpec& model) {
  if (node.json->is_string()) {
    read(node.as(node.schema->at("anyOf").front()), model.path);
    return true;
  }
  if (!node.json->is_object()) {
    node.say_expected("the path of a model, or an object with \"path\"");
    return true;
  }
  const ObjectReader object(node);
  visit_model(object, model);
  // Without another file there is nothing to take them from.
  const auto from = object.find("weights_from");
  if (from && from->json->is_null() && !object.has("weights")) model.weights.clear();
  for (auto name = model.weights.begin(); name != model.weights.end(); ++name) {
    if (std::find(model.weights.begin(), name, *name) == name) continue;
    node.context->problems.add(
        fmt::format("{}/weights/{}", node.pointer, name - model.weights.begin()),
        "the name is in the list already");
  }
  return object.is_meant("path");
}

/// Over what `run` holds of a program already.
void read_program(const Node& node, RunSpec& run) {
  if (!run.program) run.program.emplace().cwd = node.context->base;
  const ObjectReader object(node);
  visit_program(object, *run.program);
  object("env", run.env);
  if (run.program->command.empty()) {
    object.require("command", R"(; such as ["python", "train.py"])");
  }
}

/// What a program decides by itself is refused, not passed over.
void refuse_of_models(const ObjectReader& object) {
  for (const std::string_view key : core::split(kOnlyOfModels, ' ')) {
    if (!object.has(key)) continue;
    object.refuse(key, "is for TorchScript models; a program does this itself");
  }
}

std::vector<CallSpec> read_calls(const Node& node) {
  std::vector<CallSpec> calls;
  if (!node.json->is_array() || node.json->empty()) {
    node.say_expected("a list of at least one call, such as [{\"inputs\": [...]}]");
    return calls;
  }
  for (std::size_t i = 0; i < node.json->size(); ++i) {
    const ObjectReader object(node.item(i));
    if (const auto inputs = object.find("inputs")) calls.push_back(read_inputs(*inputs));
    object.require("inputs", "; [] for a call without any");
  }
  return calls;
}

/// Writes what an ObjectReader reads.
class ObjectWriter {
 public:
  explicit ObjectWriter(Json& json) : json_(json) {}

  template <typename Member>
  void operator()(const char* key, const Member& member) const {
    json_[key] = value_of(member);
  }
  template <typename Member>
  void unless_empty(const char* key, const Member& member) const {
    if (member != Member{}) json_[key] = value_of(member);
  }

 private:
  template <typename Plain>
  static Json value_of(const Plain& value) {
    if constexpr (std::is_same_v<Plain, core::Dtype>) {
      return std::string(core::dtype_name(value));
    } else if constexpr (std::is_enum_v<Plain>) {
      return std::string(name_of(value));
    } else {
      return value;
    }
  }
  static Json value_of(const std::filesystem::path& path) { return path.string(); }
  static Json value_of(const core::OpRanges& steps) { return core::steps_text(steps); }
  static Json value_of(const core::SliceRule& slice) {
    Json json;
    visit_slice(ObjectWriter(json), slice);
    return json;
  }
  /// Null, not absent: a reader of the manifest sees that nothing was asked.
  template <typename Value>
  static Json value_of(const std::optional<Value>& value) {
    return value ? value_of(*value) : Json(nullptr);
  }
  template <typename Item>
  static Json value_of(const std::vector<Item>& items) {
    Json json = Json::array();
    for (const Item& item : items) json.push_back(value_of(item));
    return json;
  }
  template <typename Value>
  static Json value_of(const std::map<std::string, Value>& entries) {
    Json json = Json::object();
    for (const auto& [name, value] : entries) json[name] = value_of(value);
    return json;
  }

  Json& json_;
};

/// What a second round of `run` is told beside the configuration.
constexpr std::array<std::pair<const char*, core::OpRanges DumpSpec::*>, 3> kRangesOfRound{
    {{"keep_ops", &DumpSpec::keep_ops},
     {"open_steps", &DumpSpec::open_steps},
     {"keep_steps", &DumpSpec::keep_steps}}};

/// [[3, 11], [40, 40]]; written by us, so that one message does for all that can be wrong.
void read_ranges(const Node& node, core::OpRanges& into) {
  const auto is_range = [](const Json& item) {
    return item.is_array() && item.size() == 2 && item[0].is_number_unsigned() &&
           item[1].is_number_unsigned() && item[0] <= item[1];
  };
  const bool whole = node.json->is_array() && std::ranges::all_of(*node.json, is_range);
  if (whole) {
    into.clear();
    for (const Json& item : *node.json) {
      into.push_back({item[0].get<std::uint64_t>(), item[1].get<std::uint64_t>()});
    }
  }
  if (!whole || into != core::united(into)) {
    node.say_expected("ascending [first, last] pairs of op indices");
  }
}

void read_run_name(const ObjectReader& object, RunSpec& run) {
  // A leading dot hides the directory or leaves it, a leading dash is an option to every tool.
  if (object("name", run.name) &&
      (run.name.ends_with(".recording") || run.name.ends_with(".digest") ||
       run.name.ends_with(".observer") || run.name.ends_with(".log"))) {
    object.refuse("name",
                  "names that end in .recording, .digest, .observer or .log are reserved for files "
                  "beside the dumps");
  }
}

}  // namespace

bool read(const Node& node, core::SliceRule& slice) {
  const ObjectReader object(node);
  visit_slice(object, slice);
  object.require("elements", ": how many elements are stored of a tensor that is too large");
  return object.is_object();
}

Given read_run_members(const ObjectReader& object, RunSpec& run) {
  if (const auto program = object.find("program")) {
    if (!run.program && !object.context().resolved) {
      // Whoever trains with dropout means to; of a model that is called once it is in the way.
      run.disable_dropout = false;
      if (!object.context().seeds_programs) run.seed.reset();
    }
    read_program(*program, run);
  }
  if (run.program) {
    refuse_of_models(object);
    visit_run(object, run);
    object("timeout", run.timeout);
    return {true, true, object.has("seed")};
  }
  const auto model = object.find("model");
  const auto inputs = object.find("inputs");
  const auto calls = object.find("calls");
  Given given;
  given.model = model ? read_model(*model, run.model) : object.is_meant("model");
  given.inputs = object.is_meant("inputs") || object.is_meant("calls");
  given.seed = object.has("seed");
  // An entry of `runs` that gives either replaces both of the base configuration.
  if (inputs && calls) {
    calls->refuse(R"(give either "calls" or "inputs": inputs are those of the only call)");
  } else if (inputs) {
    run.calls = {read_inputs(*inputs)};
  } else if (calls) {
    run.calls = read_calls(*calls);
  }
  visit_run(object, run);
  object("timeout", run.timeout);
  return given;
}

Given read_run_entry(const Node& node, RunSpec& run) {
  run.name.clear();
  const ObjectReader object(node);
  object.require("name", ": it is the name of the dump's directory");
  read_run_name(object, run);
  return read_run_members(object, run);
}

namespace {

/// At depth blocks no operator is seen, so that what picks or changes operators has nothing to do.
/// @param refuse  is told a key, and why it cannot be
template <typename Refuse>
void check_without_operators(const RunSpec& run, const Refuse& refuse) {
  const DumpSpec& dump = run.dump;
  if (!run.program) {
    return refuse("/dump/depth",
                  "blocks are those of a program; of a model operators are recorded: top, leaf or "
                  "all");
  }
  const DumpSpec plain;
  const std::array given{
      std::pair("include", !dump.include.empty()),
      std::pair("exclude", !dump.exclude.empty()),
      std::pair("phases", !dump.phases.empty()),
      std::pair("first_ops", dump.first_ops != plain.first_ops),
      std::pair("optimizer", dump.optimizer == core::OptimizerReading::kOperators),
      std::pair("workers", dump.workers)};
  for (const auto& [key, is_given] : given) {
    if (is_given) {
      refuse("/dump", fmt::format("\"{}\" picks operators, and depth blocks records none", key));
    }
  }
  if (!run.program->resume.empty()) {
    refuse("/program/resume", "needs a recording of operators, and depth blocks records none");
  }
  for (const auto& [key, is_given] : {std::pair("/disable_dropout", run.disable_dropout),
                                      std::pair("/rng", run.rng == core::RngMode::kHost)}) {
    if (is_given) refuse(key, "needs a recording of operators, and depth blocks records none");
  }
}

void check_blocks(const RunSpec& run, const std::string& pointer, Problems& problems) {
  const auto refuse = [&](const char* key, const std::string& why) {
    problems.add(pointer.empty() ? key : pointer, why);
  };
  const DumpSpec& dump = run.dump;
  if (dump.depth == DumpDepth::kBlocks) return check_without_operators(run, refuse);
  for (const auto& [key, given] :
       {std::pair("blocks", !dump.blocks.empty()), std::pair("every", dump.every > 0)}) {
    if (given) refuse("/dump", fmt::format("\"{}\" is of depth blocks alone", key));
  }
}

}  // namespace

bool check_run(const RunSpec& run, const std::string& pointer, Problems& problems) {
  constexpr std::size_t kShown = 20;
  const std::size_t before = problems.all().size();
  if (!run.seed && !run.program) {
    problems.add(child_pointer(pointer, "seed"),
                 "null seeds nothing in a program; a model is always seeded");
  }
  if (!run.model.weights.empty() && !run.model.weights_from) {
    problems.add(child_pointer(pointer, "model"),
                 R"("weights" names tensors of another file, and "weights_from" is missing)");
  }
  // The recorder sets `threads` and then checks that the variables agree: better told beforehand.
  for (const char* variable : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) {
    const auto found = run.env.find(variable);
    if (!run.threads || found == run.env.end() || !found->second) continue;
    if (*found->second == std::to_string(*run.threads)) continue;
    problems.add(pointer.empty() ? "/threads" : pointer,
                 fmt::format(R"("threads" is {} and "env" sets {} to "{}"; give one of them)",
                             *run.threads,
                             variable,
                             core::printable(*found->second, kShown)));
  }
  check_blocks(run, pointer, problems);
  return problems.all().size() == before;
}

void read_dump(const Node& node, DumpSpec& dump, RecordingPlan& plan) {
  const ObjectReader object(node);
  if (const auto level = object.find("level")) {
    plan.level = *level->json == "auto" ? LevelChoice::kAuto : LevelChoice::kFixed;
  }
  plan.names_depth = object.find("depth").has_value();
  object("window", plan.window);
  visit_dump(object, dump);
}

Json to_json(const RunSpec& run, bool with_pointers) {
  Json json = Json::object();
  json["name"] = run.name;
  if (run.program) {
    visit_program(ObjectWriter(json["program"]), *run.program);
  } else {
    visit_model(ObjectWriter(json["model"]), run.model);
    json["calls"] = Json::array();
    for (const CallSpec& call : run.calls) {
      json["calls"].push_back(Json::object({{"inputs", inputs_json(call, with_pointers)}}));
    }
  }
  visit_run(ObjectWriter(json), run);
  Json& dump = json["dump"];
  visit_dump(ObjectWriter(dump), run.dump);
  for (const auto& [key, ranges] : kRangesOfRound) {
    for (const core::OpRange& range : run.dump.*ranges) {
      dump[key].push_back(Json::array({range.first, range.last}));
    }
  }
  return json;
}

void read_resolved_run(const Node& node, RunSpec& run) {
  const ObjectReader object(node, {"dump"});
  object.require("name", "");
  read_run_name(object, run);
  const Given given = read_run_members(object, run);
  if (!given.model) node.refuse("\"model\" is missing");
  if (!given.inputs) node.refuse("\"calls\" is missing");
  auto dump = object.find("dump");
  if (!dump) return;
  dump->schema = &config_schema().at("properties").at("dump");
  const ObjectReader dump_object(*dump, {kRangesOfRound[0].first, kRangesOfRound[1].first});
  visit_dump(dump_object, run.dump);
  for (const auto& [key, ranges] : kRangesOfRound) {
    if (const auto opened = dump_object.find(key)) read_ranges(*opened, run.dump.*ranges);
  }
}

}  // namespace repro_check::configs::detail

namespace repro_check::configs {
namespace {

using detail::Json;

/// Tool and recorder may be of two builds; one that does not understand the other must say so.
constexpr std::string_view kFormat = "repro-check-request-1";

/// What a request holds, as the schema of a configuration says it.
const Json& request_schema() {
  static const Json schema = Json::parse(R"({"properties": {
      "format": {}, "run": {"$ref": "#/$defs/run"}, "replace_existing": {},
      "dump_directory": {"x-expected": "a directory", "x-path": "directory-to-make"},
      "report_outputs": {}, "bare": {}, "found_environment": {"$ref": "#/$defs/env"}}})");
  return schema;
}

/// JSON is UTF-8; a path on Linux need not be.
std::string to_text(const Json& json) {
  constexpr int kIndent = 2;
  try {
    return json.dump(kIndent) + "\n";
  } catch (const Json::exception& error) {
    throw core::usage_error("a path or a text of this run is not UTF-8",
                            "rename the file or directory so that its whole path is UTF-8");
  }
}

}  // namespace

std::string to_json_text(const RunSpec& run) { return to_text(detail::to_json(run, false)); }

std::string to_json_text(const RecordRequest& request) {
  Json json = Json::object();
  json["format"] = std::string(kFormat);
  json["run"] = detail::to_json(request.run, true);
  json["dump_directory"] = request.dump.string();
  json["replace_existing"] = request.replace_existing;
  if (request.report_outputs) json["report_outputs"] = true;
  if (request.bare) json["bare"] = true;
  for (const auto& [name, value] : request.found_environment) {
    json["found_environment"][name] = value ? Json(*value) : Json(nullptr);
  }
  return to_text(json);
}

// The same reader as a configuration has: what was checked once is checked again on the other side.
RecordRequest record_request_from_json_text(const std::string& text, const std::string& origin) {
  detail::Problems problems;
  RecordRequest request;
  if (const auto document = detail::parse_json(text, "", problems)) {
    const detail::ParseContext context{problems, {}, /*resolved=*/true};
    const detail::ObjectReader object({&*document, "", &request_schema(), &context});
    const auto format = object.find("format");
    if (object.is_object() && (!format || *format->json != kFormat)) {
      problems.add("/format", fmt::format("expected \"{}\"", kFormat));
    }
    const auto run = object.find("run");
    if (object.is_object() &&
        !(run && object.has("dump_directory") && object.has("replace_existing"))) {
      problems.add("", "run, dump_directory and replace_existing must all be there");
    }
    if (run) detail::read_resolved_run(*run, request.run);
    object("dump_directory", request.dump);
    object("report_outputs", request.report_outputs);
    object("found_environment", request.found_environment);
    object("bare", request.bare);
    object("replace_existing", request.replace_existing);
  }
  problems.refuse_any(
      origin, "the request is written by repro-check for its recorder; are both of one version?");
  return request;
}

bool needs_operators(const RunSpec& run) {
  bool is_refused = false;
  detail::check_without_operators(run, [&](const char*, const std::string&) { is_refused = true; });
  return is_refused;
}

}  // namespace repro_check::configs
