// SPDX-License-Identifier: Apache-2.0
#include "core/trace/program_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "core/text/secrets.h"
#include "core/trace/json_fields.h"

namespace repro_check::core {

void fields(const auto& f, Of<ProgramPlan> auto& it) {
  visit_part(f, it);
  f FIELD(keep_ops) FIELD(open_steps) FIELD(keep_steps) FIELD(checkpoints) FIELD(determinism);
  f FIELD(disable_dropout) FIELD(rng) FIELD(compile) FIELD(compile_fallback) FIELD(seed);
  f FIELD(bare) FIELD(found);
  f FIELD(run) FIELD(run_id) FIELD(configuration);
  f FIELD(directory) FIELD(probes) FIELD(build_folder);
}

void fields(const auto& f, Of<ProcessState> auto& it) {
  f FIELD(process) FIELD(parent) FIELD(failure) FIELD(notes) FIELD(ended) FIELD(operators);
  f FIELD(worker) FIELD(rank) FIELD(ranks) FIELD(joins) FIELD(attempt) FIELD(began);
  f FIELD(started) FIELD(how) FIELD(pool) FIELD(unread) FIELD(command);
}

namespace {

template <typename Whole>
Whole read_whole(const std::string& text, const std::string& name) {
  const JsonOrigin origin{
      name, ErrorKind::kUsage, "are the tool and its probe of one version?", /*whole=*/false};
  const Json json = Json::parse(text, nullptr, false);
  const JsonNode root(json, "", origin);
  if (!json.is_object()) throw root.damaged("must be an object");
  Whole whole;
  const Json known = json_of(whole);
  for (const auto& [key, value] : json.items()) {
    if (!known.contains(key)) throw root.damaged("nothing is called \"" + key + "\"");
  }
  root.read(whole);
  return whole;
}

/// How often an elastic launcher had started the ranks again: 0 where there is none.
std::uint64_t attempt() {
  const char* count = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return parse_number<std::uint64_t>(count == nullptr ? "" : count).value_or(0);
}

}  // namespace

std::string to_json_text(const ProgramPlan& plan) try {
  return json_of(plan).dump();
} catch (const Json::exception&) {
  throw usage_error("a path of this run is not UTF-8",
                    "rename the file or directory so that its whole path is UTF-8");
}

std::string to_json_text(const ProcessState& state) {
  return json_of(state).dump(-1, ' ', false, Json::error_handler_t::replace);
}

ProgramPlan program_plan_from_json_text(const std::string& text) {
  auto plan = read_whole<ProgramPlan>(text, "plan");
  // `auto` reads what each operator makes where the tensors of all are kept anyway.
  if (plan.optimizer == OptimizerReading::kAuto) {
    const bool keeps_all = plan.level == DumpLevel::kTensor && plan.keep_ops.empty();
    plan.optimizer = keeps_all ? OptimizerReading::kOperators : OptimizerReading::kState;
  }
  return plan;
}

ProcessState process_state_from_json_text(const std::string& text) {
  return read_whole<ProcessState>(text, "state");
}

RunManifest manifest_of(const ProgramPlan& plan) {
  RunManifest manifest;
  manifest.tool_version = REPRO_CHECK_VERSION;
  manifest.run_name = plan.run;
  manifest.run_id = plan.run_id;
  manifest.attempt = attempt();
  manifest.end.emplace();  // which nobody knows yet
  manifest.configuration = plan.configuration;
  manifest.model_path = fmt::format("{}", fmt::join(command_in(plan.configuration), " "));
  manifest.model_method = kProgramMethod;
  manifest.seed = plan.seed.value_or(0);
  manifest.determinism = name_of(plan.determinism);
  manifest.disable_dropout = plan.disable_dropout;
  manifest.rng = name_of(plan.rng);
  manifest.grad = "program";
  TraceSummary& trace = manifest.trace;
  trace.level = name_of(plan.level);
  trace.depth = name_of(plan.depth);
  if (plan.depth == DumpDepth::kBlocks) {
    trace.blocks.emplace().every = std::max<std::uint64_t>(plan.every, 1);
  }
  trace.include = plan.include;
  trace.exclude = plan.exclude;
  trace.only = part_text(plan);
  // Of other phases nobody wants what an optimizer does.
  const auto of_optimizer = std::ranges::find(plan.phases, Phase::kOptimizer);
  const bool reads_operators = plan.depth != DumpDepth::kBlocks;
  if (reads_operators && (plan.phases.empty() || of_optimizer != plan.phases.end())) {
    trace.optimizer = name_of(plan.optimizer);
  }
  if (plan.level == DumpLevel::kTensor) trace.keep_ops = plan.keep_ops;
  trace.digest_algorithm = kDigestAlgorithm;
  return manifest;
}

}  // namespace repro_check::core
