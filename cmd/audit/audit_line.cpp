// SPDX-License-Identifier: Apache-2.0
#include "cmd/audit/audit_line.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "cmd/render/text.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/logging.h"
#include "comparators/audit/audit.h"
#include "core/text/secrets.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;
using configs::AuditFailure;
using core::ExitCode;
using Weight = comparators::Finding::Weight;

constexpr std::chrono::seconds kLongestAudit{2};

/// What is told, and what that makes of a command that is to fail on findings.
struct Told {
  std::string line;
  ExitCode code = ExitCode::kReproducible;
};

std::vector<std::pair<fs::path, std::optional<std::uint32_t>>> recordings_of(const fs::path& dump) {
  std::vector<std::pair<fs::path, std::optional<std::uint32_t>>> recordings;
  for (const store::RankDump& rank : store::rank_dumps(dump)) {
    recordings.emplace_back(rank.path, rank.rank);
  }
  if (recordings.empty()) recordings.emplace_back(dump, std::nullopt);
  return recordings;
}

comparators::AuditPlan plan_of(const AuditLine& ask) {
  comparators::AuditPlan plan;
  for (const auto& rule : comparators::audit_rules()) {
    if (ask.told == AlreadyTold::kNothing || rule.of_trace != nullptr) plan.rules.push_back(&rule);
  }
  plan.expected = ask.spec.expected;
  const auto now = std::chrono::system_clock::now();
  plan.today = std::chrono::floor<std::chrono::days>(now);
  if (ask.spec.fail_on != AuditFailure::kNever) return plan;
  plan.is_late = [end = std::chrono::steady_clock::now() + kLongestAudit] {
    return std::chrono::steady_clock::now() >= end;
  };
  return plan;
}

Told told_of_blocks(const AuditLine& ask) {
  Told told{"audit: not made (blocks)", ExitCode::kNotComparable};
  if (!ask.instead.empty()) told.line += ": repro-check audit";
  for (const std::string& word : core::without_secrets(ask.instead)) {
    told.line += " " + shell_quote(word);
  }
  const bool is_asked = ask.spec.fail_on != AuditFailure::kNever;
  if (ask.instead.empty() && !is_asked) told.line.clear();
  return told;
}

Told told_of(const fs::path& dump, const AuditLine& ask) {
  const std::string command = "repro-check audit " + shell_quote(dump.string());
  comparators::Audit audit(plan_of(ask));
  for (const auto& [place, rank] : recordings_of(dump)) {
    const auto opened = store::open_dump(place);
    if (opened->manifest().is_of_blocks()) return told_of_blocks(ask);
    if (!audit.see(*opened, rank)) {
      return {fmt::format("audit: stopped after {} s: {}", kLongestAudit.count(), command), {}};
    }
  }
  const comparators::AuditReport report = audit.finish();
  const std::size_t proofs = report.count(Weight::kProof);
  const std::size_t suspicions = report.count(Weight::kSuspicion);
  Told told{{}, comparators::exit_code_of(report, ask.spec.fail_on, false)};
  if (proofs == 0 && told.code != ExitCode::kDivergence) return told;
  std::string counts = proofs == 0 ? "" : format_count(proofs, "proof");
  if (suspicions != 0) {
    counts += (counts.empty() ? "" : ", ") + format_count(suspicions, "suspicion");
  }
  told.line = fmt::format("audit: {}: {}", counts, command);
  return told;
}

}  // namespace

AuditFailure audit_failure(const std::string& word) {
  return word == "proof"       ? AuditFailure::kProof
         : word == "suspicion" ? AuditFailure::kSuspicion
                               : AuditFailure::kNever;
}

ExitCode tell_of_audit(ExitCode code, const fs::path& dump, const AuditLine& ask) {
  const bool may_fail = ask.spec.fail_on != AuditFailure::kNever;
  Told told;
  try {
    told = told_of(dump, ask);
    if (!told.line.empty()) log_info(told.line);
  } catch (const std::exception& error) {
    told.code = ExitCode::kNotComparable;
    if (may_fail) log_warning(fmt::format("audit: not made: {}", error.what()));
  }
  return may_fail ? worse(code, told.code) : code;
}

}  // namespace repro_check::cmd
