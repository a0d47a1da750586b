// SPDX-License-Identifier: Apache-2.0
#include "dumpers/probe/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::probe {
namespace {

using Json = nlohmann::json;

template <typename Enum>
Enum named(const std::string& name) {
  if (const auto known = core::parse_name<Enum>(name)) return *known;
  throw core::usage_error("nothing is called \"" + name + "\"");
}

core::OpRanges ranges_of(const Json& list) {
  core::OpRanges ranges;
  for (const Json& range : list) ranges.push_back({range[0], range[1]});
  return ranges;
}

capture::CaptureOptions options_of(const Json& plan) {
  capture::CaptureOptions options;
  options.level = named<core::DumpLevel>(plan.at("level"));
  options.depth = named<core::DumpDepth>(plan.at("depth"));
  options.disable_dropout = plan.at("disable_dropout");
  options.rng = named<core::RngMode>(plan.at("rng"));
  options.unseen_writes = true;
  options.include = plan.at("include");
  options.exclude = plan.at("exclude");
  options.verify_inputs = plan.at("verify_inputs");
  options.no_sync = plan.at("no_sync");
  options.keep_ops = ranges_of(plan.at("keep_ops"));
  return options;
}

/// `auto` reads what each operator makes where the tensors of all are kept anyway.
std::string optimizer_of(const Json& plan) {
  std::string asked = plan.at("optimizer");
  if (asked != "auto") return asked;
  const bool keeps_all =
      plan.at("level") == core::name_of(core::DumpLevel::kTensor) && plan.at("keep_ops").empty();
  return keeps_all ? "operators" : std::string(core::kOptimizerState);
}

/// How often an elastic launcher had started the ranks again: 0 where there is none.
std::uint64_t attempt() {
  const char* count = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return core::parse_number<std::uint64_t>(count == nullptr ? "" : count).value_or(0);
}

core::RunManifest manifest_of(const Json& plan) {
  core::RunManifest manifest;
  manifest.tool_version = REPRO_CHECK_VERSION;
  manifest.run_name = plan.at("run");
  manifest.run_id = plan.value("run_id", "");
  manifest.attempt = attempt();
  manifest.end.emplace();  // which nobody knows yet
  manifest.configuration = plan.at("configuration").dump();
  const std::vector<std::string> command = plan.at("configuration").at("program").at("command");
  manifest.model_path = fmt::format("{}", fmt::join(command, " "));
  manifest.model_method = core::kProgramMethod;
  manifest.determinism = plan.at("determinism");
  manifest.disable_dropout = plan.at("disable_dropout");
  manifest.rng = plan.at("rng");
  manifest.grad = "program";
  core::TraceSummary& trace = manifest.trace;
  trace.level = plan.at("level");
  trace.depth = plan.at("depth");
  trace.include = plan.at("include");
  trace.exclude = plan.at("exclude");
  trace.only = plan.at("only");
  // Of other phases nobody wants what an optimizer does.
  const auto of_optimizer = static_cast<int>(core::Phase::kOptimizer);
  const Json& phases = plan.at("phases");
  if (phases.empty() || std::find(phases.begin(), phases.end(), of_optimizer) != phases.end()) {
    trace.optimizer = optimizer_of(plan);
  }
  trace.digest_algorithm = core::kDigestAlgorithm;
  return manifest;
}

}  // namespace

Plan plan_from_json_text(const std::string& text) {
  const Json document = Json::parse(text);
  Plan plan{options_of(document),
            {ranges_of(document.at("steps")),
             {},
             document.at("first_ops"),
             optimizer_of(document) == core::kOptimizerState,
             ranges_of(document.at("open_steps"))},
            named<core::DeterminismMode>(document.at("determinism")),
            document.at("workers"),
            document.at("bare"),
            std::nullopt,
            {},
            manifest_of(document)};
  for (const Json& phase : document.at("phases")) {
    plan.part.phases.push_back(static_cast<core::Phase>(phase.get<int>()));
  }
  for (const auto& [name, value] : document.at("found").items()) {
    plan.found[name] = value.is_null() ? std::nullopt : std::optional(value.get<std::string>());
  }
  if (!document.at("seed").is_null()) {
    plan.seed = document.at("seed").get<std::uint64_t>();
    plan.manifest.seed = *plan.seed;
  }
  if (plan.options.level == core::DumpLevel::kTensor) {
    plan.manifest.trace.keep_ops = plan.options.keep_ops;
  }
  return plan;
}

std::string to_json_text(const ProcessState& state) {
  Json document = {{"process", state.process},
                   {"parent", state.parent},
                   {"failure", state.failure},
                   {"ended", state.ended},
                   {"notes", state.notes},
                   {"operators", state.operators}};
  if (state.failure.empty()) document["failure"] = nullptr;
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace repro_check::probe
