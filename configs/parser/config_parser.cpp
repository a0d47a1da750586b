// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/config_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <span>
#include <system_error>

#include "configs/parser/builtin_files.h"
#include "configs/parser/reader.h"
#include "configs/spec/program_keys.h"
#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::configs {
namespace {

using detail::Json;
using detail::Node;
using detail::ParseContext;
using detail::Problems;

constexpr std::size_t kFewestRuns = 2;

/// The reference tokens of a JSON pointer; empty when it is none, or that of the whole document.
std::vector<std::string> tokens_of(const std::string& pointer) {
  std::vector<std::string> tokens;
  try {
    if (core::is_utf8(pointer)) {
      for (Json::json_pointer rest(pointer); !rest.empty(); rest.pop_back()) {
        tokens.push_back(rest.back());
      }
    }
  } catch (const Json::exception&) {
    return {};
  }
  std::ranges::reverse(tokens);
  return tokens;
}

/// RFC 6901: digits without a leading zero, or `-` for the place after the last.
std::optional<std::size_t> parse_index(const std::string& token, std::size_t size) {
  if (token == "-") return size;
  for (std::size_t index = 0; index <= size; ++index) {
    if (token == std::to_string(index)) return index;
  }
  return std::nullopt;
}

/// The key that a value stands for where it is short for an object: `"model": "model.pt"`, a policy
/// `"ulp"`, an input `2.5`; empty where it is short for none.
/// @param way  the tokens that lead to it
std::string short_key(std::span<const std::string> way) {
  if (way.empty()) return {};
  if (way.back() == "model") return "path";
  if (way.back() == "policy") return "kind";
  const bool is_input = way.size() > 1 && way[way.size() - 2] == "inputs";
  return is_input ? "value" : "";
}

/// The member or item `token` of `parent`, made when it is missing; null when it cannot be.
Json* step_into(Json& parent, const std::string& token) {
  if (parent.is_null()) parent = Json::object();
  if (parent.is_object()) return &parent[token];
  if (!parent.is_array()) return nullptr;
  const auto index = parse_index(token, parent.size());
  if (index == parent.size()) parent.push_back(nullptr);
  return index ? &parent[*index] : nullptr;
}

/// `7`, `true`, `{"a": 1}` are what they look like; `cuda:0`, `model.pt` are text.
std::optional<Json> value_of(const ConfigOverride& change, Problems& problems) {
  if (Json::accept(change.value)) {
    return detail::parse_json(change.value, change.pointer, problems);
  }
  if (core::is_utf8(change.value)) return Json(change.value);
  problems.add(change.pointer, "--set: the value is not UTF-8");
  return std::nullopt;
}

/// Objects missing on the way are made; a list takes an index it has, or the next one, or `-`. What
/// cannot be placed is a problem and changes nothing.
void apply(const ConfigOverride& change, Json& document, Problems& problems) {
  const std::vector<std::string> tokens = tokens_of(change.pointer);
  if (tokens.empty()) {
    problems.add(
        change.pointer,
        "--set: not a JSON pointer; write it like /runs/1/threads, a slash inside a key as "
        "~1, a tilde as ~0");
    return;
  }
  auto value = value_of(change, problems);
  if (!value) return;
  // On a copy, so that a path that ends nowhere leaves no half-made objects to complain about.
  Json changed = document;
  Json* place = &changed;
  std::string pointer;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string& token = tokens[i];
    const std::string key = short_key(std::span(tokens).first(i));
    if (place->is_primitive() && !place->is_null() && !key.empty()) *place = Json{{key, *place}};
    Json* next = step_into(*place, token);
    if (next == nullptr) {
      const std::string why =
          place->is_array()
              ? fmt::format(
                    "a list of {0}: it takes an index from 0 to {0}; {0}, or -, is one more",
                    place->size())
              : fmt::format("{}: nothing can be set inside it", detail::describe(*place));
      problems.add(change.pointer,
                   fmt::format("--set: {} is {}", pointer.empty() ? "the document" : pointer, why));
      return;
    }
    place = next;
    pointer = detail::child_pointer(pointer, token);
  }
  *place = std::move(*value);
  document = std::move(changed);
}

/// `preset` beneath `document`: objects merge key by key, everything else is the document's where
/// it has it.
void merge_beneath(const Json& preset, Json& document) {
  for (const auto& [key, value] : preset.items()) {
    if (!document.contains(key)) {
      document[key] = value;
    } else if (value.is_object() && document[key].is_object()) {
      merge_beneath(value, document[key]);
    }
  }
}

/// Lays the preset a document names beneath it.
void merge_preset(Json& document, const ParseContext& context) {
  if (!document.is_object() || !document.contains("preset")) return;
  const Json& schema = detail::config_schema().at("properties").at("preset");
  const auto index = detail::read_word({&document["preset"], "/preset", &schema, &context});
  if (!index) return;
  Json preset = Json::parse(detail::builtin_presets()[*index].json);
  if (document.contains("program")) {
    for (const std::string_view key : core::split(kOnlyOfModels, ' '))
      preset.erase(std::string(key));
  }
  // `"model": "model.pt"` is short for an object, and only objects merge.
  if (document.contains("model") && document["model"].is_string() && preset.contains("model")) {
    document["model"] = Json{{"path", document["model"]}};
  }
  merge_beneath(preset, document);
}

/// One run and what was said of it.
struct Entry {
  RunSpec run;
  detail::Given given;
  std::string pointer;
};

/// Reads a document, section by section.
class Builder {
 public:
  Builder(const Json& document, const ParseContext& context)
      : object_({&document, "", &detail::config_schema(), &context}), problems_(context.problems) {}

  Config build() {
    if (!object_.is_object()) return config_;
    std::string schema;
    object_("$schema", schema);
    read_base();
    if (const auto node = object_.find("compare")) detail::read_compare(*node, config_.compare);
    if (const auto node = object_.find("report")) read_report(*node);
    detail::read_gate_members(object_, config_.gate);
    if (const auto node = object_.find("audit")) detail::read_audit(*node, config_.audit);
    read_runs();
    check_given(
        "model",
        R"(give "model": {"path": "model.pt"}, or "program": {"command": ["python", "train.py"]})",
        &detail::Given::model);
    check_given("inputs",
                R"(give one input an argument, such as {"generate": "normal", "shape": [2, 16]}, )"
                "or [] for none",
                &detail::Given::inputs);
    config_.names_seed = base_.given.seed || std::ranges::all_of(entries_, [](const Entry& entry) {
                           return entry.given.seed;
                         });
    for (Entry& entry : entries_) config_.runs.push_back(std::move(entry.run));
    if (base_.given.model && base_.given.inputs) config_.base = std::move(base_.run);
    return std::move(config_);
  }

 private:
  /// The base is a run like any other, so that `record` needs no special case.
  void read_base() {
    base_.run.name = "run";
    base_.run.dump.directory =
        (object_.context().base / base_.run.dump.directory).lexically_normal();
    base_.given = detail::read_run_members(object_, base_.run);
    if (const auto node = object_.find("dump")) {
      detail::read_dump(*node, base_.run.dump, config_.recording);
    }
    // What contradicts itself in the base does so in every run: told once.
    base_consistent_ = detail::check_run(base_.run, "", problems_);
  }

  void read_report(const Node& node) {
    ReportSpec& report = config_.report;
    const detail::ObjectReader object(node);
    if (const auto format = object.find("format")) {
      const Json& words = format->schema->at("anyOf").front();
      if (format->json->is_string()) {
        // A single format is short for a list of one.
        if (detail::read_word(format->as(words))) report.formats = {*format->json};
      } else if (!format->json->is_array() || format->json->empty()) {
        format->say_expected(
            fmt::format("one or a list of {}",
                        fmt::join(words.at("enum").get<std::vector<std::string>>(), ", ")));
      } else {
        read_formats(*format, words);
      }
    }
    const auto files = object.find("files");
    if (!files) return;
    const detail::ObjectReader by_format(*files);
    for (const auto& [format, property] : files->schema->at("properties").items()) {
      std::filesystem::path file;
      if (by_format(format, file)) report.files.emplace(format, file);
    }
  }

  void read_formats(const Node& list, const Json& words) {
    std::vector<std::string>& formats = config_.report.formats;
    formats.clear();
    for (std::size_t i = 0; i < list.json->size(); ++i) {
      const Node item = list.item(i).as(words);
      if (!detail::read_word(item)) continue;
      // Twice the same would write one file twice.
      const std::string format = *item.json;
      if (std::ranges::find(formats, format) != formats.end()) {
        item.refuse(format + " is in the list already");
      } else {
        formats.push_back(format);
      }
    }
  }

  void read_repeat() {
    config_.repeat = kFewestRuns;
    object_("repeat", config_.repeat);
    if (object_.has("repeat") && object_.has("runs")) {
      object_.refuse(
          "repeat",
          "-n repeats one configuration, and \"runs\" lists several: leave out one of the two");
    }
  }

  void repeat_base() {
    for (std::uint64_t i = 1; i <= config_.repeat; ++i) {
      entries_.push_back(base_);
      entries_.back().run.name = config_.repeat != kFewestRuns ? fmt::format("run-{}", i)
                                 : i == 1                      ? "baseline"
                                                               : "candidate";
    }
  }

  /// One that goes on to its end, and one that resumes on the way.
  void resume_base() {
    config_.repeat = 0;
    config_.compare.resume = true;
    if (config_.compare.numbers) {
      problems_.add("/compare/numbers",
                    "a resumed run is compared by its operators: leave out this key, or \"resume\" "
                    "of the program");
    }
    ProgramSpec& program = *base_.run.program;
    const std::vector<std::string> resume = std::exchange(program.resume, {});
    base_.run.dump.checkpoints = true;
    for (const char* name : {"baseline", "resumed"}) {
      entries_.push_back(base_);
      entries_.back().run.name = name;
    }
    entries_.back().run.program->command = resume;
    for (const char* key : {"repeat", "runs"}) {
      if (!object_.has(key)) continue;
      object_.refuse(key, "\"resume\" of the program defines both runs: leave out one of the two");
    }
  }

  void read_runs() {
    read_repeat();
    if (base_.run.program && !base_.run.program->resume.empty()) return resume_base();
    const auto node = object_.find("runs");
    if (!node) return repeat_base();
    config_.repeat = 0;
    if (!node->json->is_array()) {
      return static_cast<void>(node->say_expected("a list of at least two runs"));
    }
    if (node->json->size() < kFewestRuns) {
      node->refuse(
          fmt::format("expected at least two runs, the baseline first, got {}; leave "
                      "\"runs\" out to run the same twice, or use `record` for one",
                      node->json->size()));
    }
    // Each starts from the base as it was read: a mistake there is told once and not again for
    // every run.
    for (std::size_t i = 0; i < node->json->size(); ++i) {
      Entry& entry = entries_.emplace_back(Entry{base_.run, {}, node->item(i).pointer});
      entry.given = detail::read_run_entry(node->item(i), entry.run);
      if (base_consistent_) detail::check_run(entry.run, entry.pointer, problems_);
      if (entry.run.program && !entry.run.program->resume.empty()) {
        problems_.add(entry.pointer + "/program/resume",
                      "stands at the top level, in place of \"runs\"");
      }
    }
    // Two runs of one name would overwrite each other's dump.
    std::set<std::string_view> seen;
    for (const Entry& entry : entries_) {
      if (!entry.run.name.empty() && !seen.insert(entry.run.name).second) {
        problems_.add(
            entry.pointer + "/name",
            fmt::format("an earlier run is called {} too", detail::describe(entry.run.name)));
      }
    }
  }

  /// Two models, or two sets of inputs, are two runs: then the top level need not name one.
  /// @param key  what is missing
  /// @param has  whether it is there
  void check_given(const char* key, std::string_view hint, bool detail::Given::*has) {
    if (base_.given.*has) return;
    const auto lacks = [&](const Entry& entry) { return !(entry.given.*has); };
    if (std::ranges::all_of(entries_, lacks)) {
      return object_.refuse(key, fmt::format("missing; {}", hint));
    }
    for (const Entry& entry : entries_) {
      if (!lacks(entry)) continue;
      problems_.add(entry.pointer,
                    fmt::format("\"{}\" is missing, here and at the top level", key));
    }
  }

  detail::ObjectReader object_;
  Problems& problems_;
  Config config_;
  Entry base_;
  bool base_consistent_ = true;
  std::vector<Entry> entries_;
};

}  // namespace

Config parse_config(const std::string& text,
                    const std::string& origin,
                    const std::filesystem::path& base,
                    const std::vector<ConfigOverride>& overrides,
                    ProgramSeed program_seed) {
  Problems problems;
  Config config;
  if (auto document = detail::parse_json(text, "", problems)) {
    for (const ConfigOverride& change : overrides) {
      if (document->is_object()) apply(change, *document, problems);  // else told by the Builder
    }
    ParseContext context{problems, std::filesystem::absolute(base)};
    merge_preset(*document, context);
    context.seeds_programs = program_seed == ProgramSeed::kZero || document->contains("runs");
    config = Builder(*document, context).build();
  }
  problems.refuse_any(origin);
  return config;
}

std::string read_config_text(const std::filesystem::path& file,
                             const std::string& hint,
                             std::uintmax_t largest) {
  const auto refuse = [&](const std::string& why, const std::string& mend) {
    throw core::usage_error(fmt::format("{}: {}", core::printable(file.string()), why), mend);
  };
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) refuse("no such file", hint);
  // A pipe or device has no size to be bounded by.
  if (!std::filesystem::is_regular_file(status)) refuse("not a regular file", hint);
  if (::access(file.c_str(), R_OK) != 0) {
    refuse("cannot be read: " + std::generic_category().message(errno), "check its permissions");
  }
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (!error && size > largest) {
    refuse(fmt::format("{} bytes; such a file has at most {}", size, largest), hint);
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream.is_open() || stream.bad()) refuse("cannot be read", hint);
  return text;
}

Config load_config(const std::filesystem::path& file,
                   const std::vector<ConfigOverride>& overrides,
                   ProgramSeed program_seed) {
  const std::filesystem::path absolute = std::filesystem::absolute(file);
  Config config = parse_config(
      read_config_text(file), file.string(), absolute.parent_path(), overrides, program_seed);
  config.file = absolute.lexically_normal();
  return config;
}

}  // namespace repro_check::configs
