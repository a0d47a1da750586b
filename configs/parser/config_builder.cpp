// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/config_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "configs/parser/compare_parser.h"
#include "configs/parser/gate_parser.h"
#include "configs/parser/json_document.h"
#include "configs/parser/json_reader.h"
#include "configs/parser/keys.h"
#include "configs/parser/overrides.h"
#include "configs/parser/presets.h"
#include "configs/parser/run_parser.h"

namespace repro_check::configs::detail {
namespace {

constexpr std::size_t kFewestRuns = 2;
constexpr std::int64_t kMostRepeats = 10'000;

/// Lays the preset a document names beneath it.
void merge_preset(Json& document, Problems& problems) {
  if (!document.is_object() || !document.contains("preset")) return;
  const auto index = read_name({&document["preset"], "/preset"}, preset_names(), problems);
  if (!index) return;
  const Json preset = Json::parse(builtin_presets()[*index].json);
  // `"model": "model.pt"` is short for an object, and only objects merge.
  if (document.contains("model") && document["model"].is_string() && preset.contains("model")) {
    document["model"] = Json{{"path", document["model"]}};
  }
  merge_beneath(preset, document);
}

/// One run and what was said of it.
struct Entry {
  RunSpec run;
  Given given;
  std::string pointer;
};

/// Reads a document, section by section.
class Builder {
 public:
  Builder(const Json& document, const ParseContext& context)
      : object_({&document, ""}, kConfigKeys, context.problems),
        context_(context),
        problems_(context.problems) {}

  Config build();

 private:
  void read_base();
  void read_repeat();
  void repeat_base();
  void read_runs();
  [[nodiscard]] Entry read_entry(const Node& node) const;
  void check_names();
  /// @param key      what is missing
  /// @param has      whether a Given has it
  void check_given(std::string_view key, std::string_view hint, bool Given::*has);

  ObjectReader object_;
  const ParseContext& context_;
  Problems& problems_;
  Entry base_;
  bool base_consistent_ = true;
  std::vector<Entry> entries_;
  RecordingPlan recording_;
  std::uint64_t repeat_ = kFewestRuns;
};

// The base is a run like any other, so that `record` needs no special case.
void Builder::read_base() {
  base_.run.name = "run";
  base_.run.dump.directory = (context_.base / base_.run.dump.directory).lexically_normal();
  base_.given = read_run_members(object_, context_, base_.run);
  if (const auto node = object_.find("dump")) {
    read_dump(*node, context_, base_.run.dump, recording_);
  }
  // What contradicts itself in the base does so in every run: told once.
  base_consistent_ = check_resolved(base_.run, "", problems_);
}

// Starts from the base as it was read: a mistake there is told once and not again for every run.
Entry Builder::read_entry(const Node& node) const {
  Entry entry{base_.run, {}, node.pointer};
  entry.run.name.clear();
  const ObjectReader object(node, kRunKeys, problems_);
  if (const auto name = object.find("name")) {
    read_run_name(*name, problems_, entry.run);
  } else {
    object.report_missing("name", ": it is the name of the dump's directory", problems_);
  }
  entry.given = read_run_members(object, context_, entry.run);
  if (base_consistent_) check_resolved(entry.run, node.pointer, problems_);
  return entry;
}

void Builder::read_repeat() {
  const auto node = object_.find("repeat");
  if (!node) return;
  assign(read_integer(*node, {kFewestRuns, kMostRepeats, ""}, problems_), repeat_);
  if (object_.has("runs")) {
    problems_.add(
        node->pointer,
        "-n repeats one configuration, and \"runs\" lists several: leave out one of the two; "
        "without \"runs\" the configuration itself is run as often");
  }
}

void Builder::repeat_base() {
  for (std::uint64_t i = 1; i <= repeat_; ++i) {
    entries_.push_back(base_);
    entries_.back().run.name = repeat_ != kFewestRuns ? fmt::format("run-{}", i)
                               : i == 1               ? "baseline"
                                                      : "candidate";
  }
}

void Builder::read_runs() {
  read_repeat();
  const auto node = object_.find("runs");
  if (!node) return repeat_base();
  repeat_ = 0;
  if (!node->json->is_array()) {
    report_unexpected(*node, "a list of at least two runs", problems_);
    return;
  }
  if (node->json->size() < kFewestRuns) {
    problems_.add(node->pointer,
                  fmt::format("expected at least two runs, the baseline first, got {}; leave "
                              "\"runs\" out to run the same twice, or use `record` for one",
                              node->json->size()));
  }
  for (std::size_t i = 0; i < node->json->size(); ++i) {
    entries_.push_back(read_entry(node->item(i)));
  }
  check_names();
}

// Two runs of one name would overwrite each other's dump.
void Builder::check_names() {
  std::set<std::string_view> seen;
  for (const Entry& entry : entries_) {
    if (!entry.run.name.empty() && !seen.insert(entry.run.name).second) {
      problems_.add(entry.pointer + "/name",
                    fmt::format("an earlier run is called {} too", describe(entry.run.name)));
    }
  }
}

// Two models, or two sets of inputs, are two runs: then the top level need not name one.
void Builder::check_given(std::string_view key, std::string_view hint, bool Given::*has) {
  if (base_.given.*has) return;
  const auto lacks = [&](const Entry& entry) { return !(entry.given.*has); };
  if (std::all_of(entries_.begin(), entries_.end(), lacks)) {
    problems_.add(child_pointer("", key), fmt::format("missing; {}", hint));
    return;
  }
  for (const Entry& entry : entries_) {
    if (lacks(entry)) {
      problems_.add(entry.pointer,
                    fmt::format("\"{}\" is missing, here and at the top level", key));
    }
  }
}

Config Builder::build() {
  Config config;
  if (!object_.is_object()) return config;
  if (const auto schema = object_.find("$schema"); schema && !schema->json->is_string()) {
    report_unexpected(*schema, "the address of a JSON Schema, for editors", problems_);
  }
  read_base();
  if (const auto node = object_.find("compare")) read_compare(*node, context_, config.compare);
  if (const auto node = object_.find("report")) read_report(*node, context_, config.report);
  read_gate_members(object_, context_, config.gate);
  read_runs();
  check_given("model", R"(give "model": {"path": "model.pt"})", &Given::model_path);
  check_given("inputs",
              R"(give one input an argument, such as {"generate": "normal", "shape": [2, 16]}, )"
              "or [] for none",
              &Given::calls);
  config.recording = recording_;
  config.repeat = repeat_;
  for (Entry& entry : entries_) config.runs.push_back(std::move(entry.run));
  if (base_.given.model_path && base_.given.calls) config.base = std::move(base_.run);
  return config;
}

}  // namespace

Config build_config(const std::string& text,
                    const std::filesystem::path& base,
                    const std::vector<ConfigOverride>& overrides,
                    Problems& problems) {
  auto document = parse_json(text, "", problems);
  if (!document) return {};
  apply_overrides(overrides, *document, problems);
  merge_preset(*document, problems);
  const ParseContext context{problems, base};
  return Builder(*document, context).build();
}

}  // namespace repro_check::configs::detail
