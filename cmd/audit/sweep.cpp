// SPDX-License-Identifier: Apache-2.0
#include "cmd/audit/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <string_view>

#include "cmd/audit/sweep_message.h"
#include "cmd/options/command_line.h"
#include "cmd/replay/replay.h"
#include "cmd/terminal/logging.h"
#include "comparators/report/divergence.h"
#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

using Kind = replay::SweepSetting::Kind;
using comparators::FindingId;

/// Work is shared out otherwise by each of them, whatever was recorded.
constexpr std::array<std::int64_t, 4> kThreads{1, 2, 3, 8};
/// Of 64, which LibTorch aligns to: none of them a multiple of 32, one of 16.
constexpr std::array<std::int64_t, 3> kShifts{4, 16, 36};
/// Bytes whose float32 are finite numbers, far apart.
constexpr std::array<std::int64_t, 2> kFills{85, 170};
constexpr const char* kCapability = "ATEN_CPU_CAPABILITY";
/// The oldest kernels of the libraries that LibTorch computes with on a CPU.
constexpr std::array<std::pair<const char*, const char*>, 3> kOldest{
    {{kCapability, "default"}, {"ONEDNN_MAX_CPU_ISA", "SSE41"}, {"MKL_CBWR", "COMPATIBLE"}}};
constexpr std::string_view kLastBit = "ulp";
constexpr std::string_view kThreadsPrefix = "threads=";
constexpr std::string_view kVariablePrefix = "env:";

FindingId finding_of(Kind kind) {
  switch (kind) {
    case Kind::kThreads:
      return FindingId::kVariesWithThreads;
    case Kind::kAlignment:
      return FindingId::kVariesWithAlignment;
    case Kind::kFill:
      return FindingId::kLeavesUnwritten;
    case Kind::kCondition:
      return FindingId::kFragile;
    case Kind::kDecision:
      return FindingId::kDecidesOnRounding;
  }
  return FindingId::kLeavesUnwritten;
}

core::Error no_sweep(const std::string& word) {
  return core::usage_error(
      fmt::format("--sweep {}: there is no such setting", core::printable(word)),
      near_hint(
          word,
          {"threads", "isa", "alignment", "poison", "ulp", "batch"},
          "settings are threads, threads=1,8, isa, alignment, poison, ulp and env:NAME=VALUE, or "
          "batch"));
}

std::int64_t number_of_threads(std::string_view word) {
  constexpr std::int64_t kMost = 1024;
  const auto count = core::parse_number<std::int64_t>(word);
  if (!count || *count < 1 || *count > kMost) {
    throw core::usage_error(fmt::format("--sweep {}{}: expected a number of threads from 1 to {}",
                                        kThreadsPrefix,
                                        core::printable(word),
                                        kMost),
                            "for example --sweep threads=1,8");
  }
  return *count;
}

/// The calls that a process has made and that gave what was recorded.
class Repeated {
 public:
  explicit Repeated(const replay::SweepOutcome& outcome) {
    for (const replay::SweptCall& call : outcome.differing) {
      if (!call.setting) others_.insert(call.op);
    }
    for (const replay::UnsweptCall& call : outcome.unswept) others_.insert(call.op);
  }
  [[nodiscard]] bool contains(std::uint64_t op) const { return !others_.contains(op); }

 private:
  std::set<std::uint64_t> others_;
};

/// A processor without these kernels would compute as it always does.
void require_effect(const std::pair<std::string, std::string>& variable,
                    const SweepAnswer& answer) {
  const auto& [name, value] = variable;
  const std::string& used = answer.cpu_capability;
  if (name != kCapability || used == value || used == "unknown") return;
  throw core::run_failed(
      fmt::format("--sweep env:{}={}: the recorder executed with kernels of {}", name, value, used),
      "this processor or build has no such kernels");
}

}  // namespace

comparators::SweepDifference difference_of(std::uint64_t op,
                                           const std::optional<replay::SweptOutput>& output,
                                           std::size_t setting) {
  comparators::SweepDifference difference;
  difference.op = op;
  difference.setting = setting;
  if (!output) return difference;
  difference.slot = output->slot;
  difference.elements = output->elements;
  difference.differing = output->differing;
  difference.max_abs = output->max_abs;
  difference.largest = output->largest;
  difference.condition = output->condition;
  difference.argument = output->argument;
  return difference;
}

SweepAsked::SweepAsked(const std::vector<std::string>& words) {
  for (const std::string& word : words) add_word(word);
  // Those of a process come first.
  for (const Variable& variable : variables_) {
    settings_.push_back(
        {FindingId::kVariesWithEnvironment, variable.first + "=" + variable.second});
  }
}

void SweepAsked::add_word(const std::string& word) {
  const bool follows_threads = !of_process_.empty() && of_process_.back().kind == Kind::kThreads &&
                               word.find_first_not_of("0123456789") == std::string::npos &&
                               !word.empty();
  if (word == "threads") {
    for (const std::int64_t count : kThreads) add(Kind::kThreads, count);
  } else if (follows_threads) {
    add(Kind::kThreads, number_of_threads(word));
  } else if (word.starts_with(kThreadsPrefix)) {
    add(Kind::kThreads, number_of_threads(std::string_view(word).substr(kThreadsPrefix.size())));
  } else if (word == name_of(Kind::kAlignment)) {
    for (const std::int64_t shift : kShifts) add(Kind::kAlignment, shift);
  } else if (word == name_of(Kind::kFill)) {
    for (const std::int64_t fill : kFills) add(Kind::kFill, fill);
  } else if (word == kLastBit) {
    add(Kind::kCondition, 0);
    add(Kind::kDecision, 0);
  } else if (word == "isa") {
    for (const auto& [name, value] : kOldest) add({name, value});
  } else if (word.starts_with(kVariablePrefix) && word.find('=') != std::string::npos) {
    const std::string variable = word.substr(kVariablePrefix.size());
    const std::size_t end = variable.find('=');
    if (end == 0) throw no_sweep(word);
    add({variable.substr(0, end), variable.substr(end + 1)});
  } else {
    throw no_sweep(word);
  }
}

void SweepAsked::add(Kind kind, std::int64_t value) {
  of_process_.push_back({kind, value});
  const bool is_alone = kind == Kind::kCondition || kind == Kind::kDecision;
  settings_.push_back(
      {finding_of(kind),
       is_alone ? std::string(name_of(kind)) : fmt::format("{}={}", name_of(kind), value)});
}

void SweepAsked::add(Variable variable) {
  if (std::ranges::find(variables_, variable) == variables_.end()) {
    variables_.push_back(std::move(variable));
  }
}

std::vector<const comparators::AuditRule*> SweepAsked::rules() const {
  std::vector<const comparators::AuditRule*> rules;
  for (const comparators::AuditRule& rule : comparators::sweep_rules()) {
    const bool is_asked =
        std::ranges::find(settings_, rule.id, &comparators::SweepSetting::found) != settings_.end();
    if (is_asked) rules.push_back(&rule);
  }
  return rules;
}

comparators::SweptDump SweepAsked::sweep(
    const core::DumpSource& dump,
    const std::filesystem::path& place,
    const std::optional<std::filesystem::path>& recorder) const {
  const auto ask = [&](const std::vector<replay::SweepSetting>& settings,
                       const std::vector<Variable>& variables) {
    SweepQuestion question;
    question.recorded.dump = place;
    question.settings = settings;
    DumpQuestion asked{"sweep", message_text(question), recorder};
    asked.variables = variables;
    return read_answer<SweepAnswer>(ask_about_dump(asked, dump.manifest()));
  };
  const auto said = [&](std::uint64_t op) { return comparators::op_text(dump.op_head(op)); };
  comparators::SweptDump swept;
  swept.dump = &dump;
  swept.settings = settings_;
  const SweepAnswer first = ask(of_process_, {});
  for (const std::string& note : first.notes) log_info(note);
  const Repeated repeated(first.outcome);
  std::set<std::uint64_t> lost;  // under a variable
  swept.had.assign(first.outcome.had.begin(), first.outcome.had.end());
  for (const replay::SweptCall& call : first.outcome.differing) {
    if (call.setting) {
      swept.differences.push_back(difference_of(call.op, call.output, *call.setting));
    } else {
      swept.coverage.unrepeated.push_back(said(call.op));
    }
  }
  for (const replay::UnsweptCall& call : first.outcome.unswept) {
    swept.coverage.unswept.push_back(core::printable(call.why));
  }
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const std::size_t setting = of_process_.size() + i;
    const SweepAnswer answer = ask({}, {variables_[i]});
    require_effect(variables_[i], answer);
    swept.had.push_back(setting);
    for (const replay::SweptCall& call : answer.outcome.differing) {
      if (!repeated.contains(call.op)) continue;
      swept.differences.push_back(difference_of(call.op, call.output, setting));
    }
    for (const replay::UnsweptCall& call : answer.outcome.unswept) {
      if (!repeated.contains(call.op) || !lost.insert(call.op).second) continue;
      swept.coverage.unswept.push_back(settings_[setting].text + ": " + core::printable(call.why));
    }
  }
  swept.coverage.judged = first.outcome.executed - swept.coverage.unrepeated.size() - lost.size();
  return swept;
}

}  // namespace repro_check::cmd
