// SPDX-License-Identifier: Apache-2.0
#include "cmd/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cmd/inspect/counterpart.h"
#include "cmd/recording/own_recordings.h"
#include "cmd/recording/recorder_lookup.h"
#include "cmd/recording/recorder_process.h"
#include "cmd/recording/spawn.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "core/text/printable.h"
#include "core/trace/replay_inputs.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kIsaVariable = "ATEN_CPU_CAPABILITY";
constexpr const char* kVariablePrefix = "env.";

Json side_json(const ReplaySide& side) {
  Json references = Json::array();
  for (const auto& reference : side.references) {
    references.push_back(std::filesystem::absolute(reference).string());
  }
  return {{"dump", std::filesystem::absolute(side.dump).string()},
          {"references", std::move(references)},
          {"op", side.op}};
}

std::string request_text(const ReplayPlan& plan, const std::optional<ReplaySide>& other) {
  Json request = side_json(plan.recorded);
  request["calls"] = plan.calls;
  request["threads"] = plan.threads;
  request["device"] = plan.device;
  request["float64"] = plan.float64;
  if (other) request["against"] = side_json(*other);
  return request.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The recorded run's variables, as far as they are known to change numbers.
RecorderQuestion question_for(const ReplayPlan& plan,
                              const core::RunManifest& manifest,
                              const std::string& isa,
                              const std::filesystem::path& request) {
  RecorderQuestion question{require_recorder(plan.recorder), {"replay", request.string()}};
  question.timeout = plan.timeout;
  for (const core::Setting& setting : manifest.settings) {
    if (!setting.name.starts_with(kVariablePrefix)) continue;
    const std::string name = setting.name.substr(std::string_view(kVariablePrefix).size());
    if (setting.used == "unset") {
      question.unset.push_back(name);
    } else {
      question.environment[name] = setting.used;
    }
  }
  if (isa.empty()) return question;
  std::erase(question.unset, kIsaVariable);
  question.environment[kIsaVariable] = isa;
  return question;
}

std::optional<double> number(const Json& value) {
  if (value.is_null()) return std::nullopt;
  if (value.is_number()) return value.get<double>();
  return value == "nan" ? std::numeric_limits<double>::quiet_NaN()
                        : std::numeric_limits<double>::infinity();
}

std::vector<capture::OutputDistance> distances(const Json& list) {
  std::vector<capture::OutputDistance> all;
  for (const Json& entry : list) {
    all.push_back({entry.at("slot").get<std::string>(),
                   entry.at("elements").get<std::uint64_t>(),
                   entry.at("differing").get<std::uint64_t>(),
                   entry.at("incomparable").get<std::uint64_t>(),
                   number(entry.at("max_abs")),
                   number(entry.at("rmse"))});
  }
  return all;
}

capture::ReplayRound round_of(const Json& entry) {
  capture::ReplayRound round;
  round.threads = entry.at("threads").get<int>();
  round.sequence = entry.at("sequence").get<std::vector<unsigned>>();
  for (const Json& given : entry.at("results")) {
    capture::ReplayResult& result = round.results.emplace_back();
    const auto digest = core::parse_digest(given.at("digest").get<std::string>());
    if (digest) result.digest = *digest;
    result.calls = given.at("calls").get<unsigned>();
    result.first = given.at("first").get<unsigned>();
    if (given.at("as_recorded").is_boolean()) {
      result.as_recorded = given.at("as_recorded").get<bool>();
    }
    result.to_recorded = distances(given.at("to_recorded"));
  }
  return round;
}

std::optional<capture::ReferenceDistance> reference(const Json& answer, const char* side) {
  if (!answer.contains("float64") || !answer["float64"].contains(side)) return std::nullopt;
  const Json& given = answer["float64"][side];
  return capture::ReferenceDistance{distances(given.at("outputs")),
                                    given.at("problem").get<std::string>()};
}

/// The kernel of a model may print too: the answer is the last line.
Json parse_answer(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  const std::size_t start = end == std::string::npos ? end : text.rfind('\n', end);
  return Json::parse(text.substr(start == std::string::npos ? 0 : start + 1));
}

/// A recorder that executes with other kernels than it was started for says nothing about those.
void require_isa(const std::string& isa, const std::string& used) {
  if (isa.empty() || used == isa || used == "unknown") return;
  throw core::Error(
      core::ErrorKind::kRunFailed,
      fmt::format("--isa {}: the recorder executed with the kernels of {}", isa, used),
      "this processor or build has no such kernels: take default, avx2 or avx512");
}

void take(const std::string& isa, const Json& answer, ReplayFindings& findings) {
  require_isa(isa, answer.at("cpu_capability").get<std::string>());
  findings.libtorch = answer.at("libtorch").get<std::string>();
  for (const Json& entry : answer.at("rounds")) {
    findings.settings.push_back(
        {isa, answer.at("cpu_capability").get<std::string>(), round_of(entry)});
  }
  for (const Json& note : answer.at("notes")) {
    const auto text = note.get<std::string>();
    if (std::ranges::find(findings.notes, text) == findings.notes.end()) {
      findings.notes.push_back(text);
    }
  }
  if (!findings.baseline) findings.baseline = reference(answer, "baseline");
  if (!findings.candidate) findings.candidate = reference(answer, "candidate");
}

bool inputs_agree(const core::OpRecord& left, const core::OpRecord& right) {
  const auto inputs = [](const core::OpRecord& op) {
    std::vector<core::ContentKey> keys;
    for (const core::TensorRecord& tensor : op.tensors) {
      if (tensor.role == core::TensorRole::kInput) keys.push_back(tensor.content_key());
    }
    return keys;
  };
  return inputs(left) == inputs(right) && left.arguments == right.arguments;
}

}  // namespace

std::string verdict_name(ReplayVerdict verdict) {
  switch (verdict) {
    case ReplayVerdict::kRepeats:
      return "repeats";
    case ReplayVerdict::kRepeatsUnrecorded:
      return "repeats_unrecorded";
    case ReplayVerdict::kNotReproduced:
      return "not_reproduced";
    case ReplayVerdict::kDependsOnSettings:
      return "depends_on_settings";
    case ReplayVerdict::kVaries:
      return "varies";
  }
  return "varies";
}

ReplayVerdict ReplayFindings::verdict() const {
  bool recorded = true;
  bool known = true;
  for (const ReplaySetting& setting : settings) {
    if (setting.round.results.size() > 1) return ReplayVerdict::kVaries;
    for (const capture::ReplayResult& result : setting.round.results) {
      known = known && result.as_recorded.has_value();
      recorded = recorded && result.as_recorded.value_or(false);
    }
  }
  if (distinct() > 1) return ReplayVerdict::kDependsOnSettings;
  if (!known) return ReplayVerdict::kRepeatsUnrecorded;
  return recorded ? ReplayVerdict::kRepeats : ReplayVerdict::kNotReproduced;
}

std::uint64_t ReplayFindings::calls() const {
  std::uint64_t sum = 0;
  for (const ReplaySetting& setting : settings) sum += setting.round.sequence.size();
  return sum;
}

std::uint64_t ReplayFindings::distinct() const {
  std::set<core::Digest> digests;
  for (const ReplaySetting& setting : settings) {
    for (const capture::ReplayResult& result : setting.round.results) {
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

std::optional<double> rms_distance(const std::optional<capture::ReferenceDistance>& distance) {
  if (!distance) return std::nullopt;
  double squares = 0;
  double numbers = 0;
  for (const capture::OutputDistance& output : distance->outputs) {
    if (output.incomparable > 0) return std::numeric_limits<double>::infinity();
    if (!output.rmse) continue;
    const auto elements = static_cast<double>(output.elements);
    squares += *output.rmse * *output.rmse * elements;
    numbers += elements;
  }
  return numbers > 0 ? std::optional<double>(std::sqrt(squares / numbers)) : std::nullopt;
}

core::ExitCode exit_code_of(const ReplayFindings& findings) {
  switch (findings.verdict()) {
    case ReplayVerdict::kRepeats:
      return core::ExitCode::kReproducible;
    case ReplayVerdict::kRepeatsUnrecorded:
      return core::ExitCode::kNotComparable;
    default:
      return core::ExitCode::kDivergence;
  }
}

ReplayFindings replay(const ReplayPlan& plan) {
  ReplayFindings findings;
  const auto dump = store::open_dump(plan.recorded.dump, plan.recorded.references);
  expect_own(*dump, plan.recorded.dump);
  findings.op = core::require_replayable(*dump, plan.recorded.op);
  findings.dump = plan.recorded.dump.string();
  findings.device = plan.device;
  std::optional<ReplaySide> other;
  if (plan.against) {
    const auto against = store::open_dump(*plan.against, {plan.recorded.dump});
    other = ReplaySide{*plan.against, {plan.recorded.dump}, 0};
    other->op = plan.against_op ? *plan.against_op : counterpart(*dump, plan.recorded.op, *against);
    findings.against = plan.against->string();
    findings.against_op = other->op;
    findings.same_inputs = inputs_agree(findings.op, core::require_replayable(*against, other->op));
  }
  const TemporaryFile request("repro-check-replay");
  write_file(request.path(), request_text(plan, other));
  std::vector<std::string> isas = plan.isas;
  if (isas.empty()) isas.emplace_back();
  for (const std::string& isa : isas) {
    RecorderQuestion question = question_for(plan, dump->manifest(), isa, request.path());
    question.about =
        fmt::format("op {} {}", findings.op.index, core::printable(findings.op.op->full_name()));
    const std::string answer = ask_recorder(question);
    try {
      take(isa, parse_answer(answer), findings);
    } catch (const nlohmann::json::exception& error) {
      throw core::Error(core::ErrorKind::kRunFailed,
                        fmt::format("the recorder's answer cannot be read: {}", error.what()),
                        "use the recorder that belongs to this repro-check");
    }
  }
  return findings;
}

}  // namespace repro_check::cmd
