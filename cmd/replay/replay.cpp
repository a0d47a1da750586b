// SPDX-License-Identifier: Apache-2.0
#include "cmd/replay/replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "cmd/inspect/inspect_tensor.h"
#include "cmd/recording/kit.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/recorder_process.h"
#include "cmd/terminal/output.h"
#include "core/text/text.h"
#include "core/trace/program_records.h"
#include "core/trace/replay_inputs.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

constexpr const char* kIsaVariable = "ATEN_CPU_CAPABILITY";
constexpr const char* kVariablePrefix = "env.";

constexpr ReplayVerdict kRepeats{"repeats",
                                 "REPEATS",
                                 "repeats at every setting, {0} gave the recorded result",
                                 core::ExitCode::kReproducible};
constexpr ReplayVerdict kRepeatsUnrecorded{
    "repeats_unrecorded",
    "REPEATS, NOT COMPARED",
    "repeats at every setting, {0} gave one result; the record has no result",
    core::ExitCode::kNotComparable};
constexpr ReplayVerdict kNotReproduced{
    "not_reproduced",
    "NOT REPRODUCED",
    "repeats at every setting, but {0} gave another result than the recorded",
    core::ExitCode::kDivergence};
constexpr ReplayVerdict kDependsOnSettings{"depends_on_settings",
                                           "DEPENDS ON SETTINGS",
                                           "repeats at every setting, but {0} gave {1}",
                                           core::ExitCode::kDivergence};
constexpr ReplayVerdict kVaries{
    "varies", "VARIES", "gave {2} in {3} with {4}", core::ExitCode::kDivergence};

/// A recorder that executes with other kernels than it was started for says nothing about those.
void require_isa(const std::string& isa, const std::string& used) {
  if (isa.empty() || used == isa || used == "unknown") return;
  throw core::run_failed(
      fmt::format("--isa {}: the recorder executed with the kernels of {}", isa, used),
      "this processor or build has no such kernels: take default, avx2 or avx512");
}

void take(const std::string& isa, ReplayAnswer answer, ReplayFindings& findings) {
  require_isa(isa, answer.cpu_capability);
  findings.libtorch = answer.libtorch;
  for (replay::Round& round : answer.rounds) {
    findings.settings.push_back({isa, answer.cpu_capability, std::move(round)});
  }
  for (const std::string& note : answer.notes) {
    if (std::ranges::find(findings.notes, note) == findings.notes.end()) {
      findings.notes.push_back(note);
    }
  }
  if (!findings.baseline) findings.baseline = std::move(answer.baseline);
  if (!findings.candidate) findings.candidate = std::move(answer.candidate);
}

bool tensors_agree(const core::OpRecord& left, const core::OpRecord& right) {
  const auto inputs = [](const core::OpRecord& op) {
    std::vector<core::ContentKey> keys;
    for (const core::TensorRecord& tensor : op.tensors) {
      if (tensor.role == core::TensorRole::kInput) keys.push_back(tensor.content_key());
    }
    return keys;
  };
  return inputs(left) == inputs(right);
}

/// The names of those that differ, modes among them, of records whose tensors agree.
std::string other_arguments(const core::OpRecord& left, const core::OpRecord& right) {
  std::vector<std::string_view> names;
  for (const core::Argument& argument : left.arguments) {
    const core::Value* other = core::find_argument(right, argument.name);
    if (other == nullptr || !(*other == argument.value)) names.push_back(argument.name);
  }
  const auto ours = core::call_modes(left.modes);
  const auto theirs = core::call_modes(right.modes);
  for (const auto& [these, those] : {std::pair{&ours, &theirs}, std::pair{&theirs, &ours}}) {
    for (const auto& mode : *these) {
      const bool same = std::ranges::find(*those, mode) != those->end();
      if (!same && std::ranges::find(names, mode.first) == names.end()) names.push_back(mode.first);
    }
  }
  return core::printable(fmt::format("{}", fmt::join(names, ", ")));
}

/// The kernel of a model may print too: the answer is the last line.
std::string last_line(std::string text) {
  const std::size_t end = text.find_last_not_of('\n');
  const std::size_t start = end == std::string::npos ? end : text.rfind('\n', end);
  return start == std::string::npos ? std::move(text) : text.substr(start + 1);
}

}  // namespace

std::string ask_about_dump(const DumpQuestion& asked, const core::RunManifest& manifest) {
  const TemporaryFile request("repro-check-question");
  write_file(request.path(), asked.text);
  RecorderCall call{{require_recorder(asked.recorder), {asked.verb, request.path().string()}},
                    asked.timeout};
  for (const core::Setting& setting : manifest.settings) {
    if (!setting.name.starts_with(kVariablePrefix)) continue;
    const std::string name = setting.name.substr(std::string_view(kVariablePrefix).size());
    call.environment[name] = setting.used == "unset" ? std::nullopt : std::optional(setting.used);
  }
  for (const auto& [name, value] : asked.variables) call.environment[name] = value;
  return last_line(ask_recorder(call, asked.about));
}

const ReplayVerdict& ReplayFindings::verdict() const {
  bool recorded = true;
  bool known = true;
  for (const ReplaySetting& setting : settings) {
    if (setting.round.results.size() > 1) return kVaries;
    for (const replay::Result& result : setting.round.results) {
      known = known && result.as_recorded.has_value();
      recorded = recorded && result.as_recorded.value_or(false);
    }
  }
  if (distinct() > 1) return kDependsOnSettings;
  if (!known) return kRepeatsUnrecorded;
  return recorded ? kRepeats : kNotReproduced;
}

std::uint64_t ReplayFindings::calls() const {
  std::uint64_t sum = 0;
  for (const ReplaySetting& setting : settings) sum += setting.round.sequence.size();
  return sum;
}

std::uint64_t ReplayFindings::distinct() const {
  std::set<core::Digest> digests;
  for (const ReplaySetting& setting : settings) {
    for (const replay::Result& result : setting.round.results) {
      digests.insert(result.digest);
    }
  }
  return digests.size();
}

std::optional<double> ReplayFindings::reference_ratio() const {
  const auto first = rms_distance(baseline);
  const auto second = rms_distance(candidate);
  if (!first || !second) return std::nullopt;
  if (*first == *second) return std::isinf(*first) ? std::nullopt : std::optional<double>(1);
  return *second == 0 ? std::numeric_limits<double>::infinity() : *first / *second;
}

std::optional<double> rms_distance(const std::optional<replay::ReferenceDistance>& distance) {
  if (!distance) return std::nullopt;
  double squares = 0;
  double numbers = 0;
  for (const replay::OutputDistance& output : distance->outputs) {
    if (output.incomparable > 0) return std::numeric_limits<double>::infinity();
    if (!output.rmse) continue;
    const auto elements = static_cast<double>(output.elements);
    squares += *output.rmse * *output.rmse * elements;
    numbers += elements;
  }
  return numbers > 0 ? std::optional<double>(std::sqrt(squares / numbers)) : std::nullopt;
}

ReplayFindings replay(const ReplayPlan& plan) {
  ReplayFindings findings;
  ReplayQuestion asked = plan.question;
  const ReplaySide& recorded = asked.recorded;
  const auto dump = store::open_dump(recorded.dump, recorded.references);
  expect_own(*dump, recorded.dump);
  findings.op = core::require_replayable(*dump, recorded.op);
  findings.dump = recorded.dump.string();
  findings.device = asked.how.device;
  if (asked.against) {
    ReplaySide& other = *asked.against;
    other.references = {recorded.dump};
    const auto against = store::open_dump(other.dump, other.references);
    other.op = plan.against_op ? *plan.against_op : counterpart(*dump, recorded.op, *against);
    findings.against = other.dump.string();
    findings.against_op = other.op;
    const core::OpRecord there = core::require_replayable(*against, other.op);
    const bool tensors = tensors_agree(findings.op, there);
    findings.same_inputs =
        tensors && findings.op.arguments == there.arguments && findings.op.modes == there.modes;
    if (tensors) findings.other_arguments = other_arguments(findings.op, there);
  }
  DumpQuestion question{"replay", message_text(asked), plan.recorder, plan.timeout};
  question.about =
      fmt::format("op {} {}", findings.op.index, core::printable(findings.op.op->full_name()));
  std::vector<std::string> isas = plan.isas;
  if (isas.empty()) isas.emplace_back();
  for (const std::string& isa : isas) {
    question.variables.clear();
    if (!isa.empty()) question.variables.emplace_back(kIsaVariable, isa);
    take(isa, read_answer<ReplayAnswer>(ask_about_dump(question, dump->manifest())), findings);
  }
  return findings;
}

}  // namespace repro_check::cmd
