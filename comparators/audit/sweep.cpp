// SPDX-License-Identifier: Apache-2.0
#include "comparators/audit/sweep.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "comparators/report/divergence.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {
namespace {

constexpr std::array kRules{
    AuditRule{FindingId::kLeavesUnwritten},
    AuditRule{FindingId::kVariesWithThreads},
    AuditRule{FindingId::kVariesWithAlignment},
    AuditRule{FindingId::kVariesWithEnvironment},
    AuditRule{FindingId::kVariesWithBatch},
    AuditRule{FindingId::kDecidesOnRounding},
    AuditRule{FindingId::kFragile},
};

/// Of all calls, so many have to be judged.
constexpr double kLeastJudged = 0.9;

/// Of the largest number: what kernels may differ by.
constexpr double kMostRounding = 0.01;

/// The calls of one operator at one line that one kind of setting changes.
struct Varying {
  const SweepDifference* first = nullptr;
  const SweepDifference* worst = nullptr;
  std::set<std::uint64_t> calls;
  std::vector<std::string> settings;
};

double share_of(const SweepDifference& difference) {
  if (difference.condition) return *difference.condition;
  if (!difference.argument.empty()) {
    return static_cast<double>(difference.differing) / static_cast<double>(difference.elements);
  }
  const double moved = difference.max_abs.value_or(0);
  return difference.largest == 0 ? moved : moved / difference.largest;
}

void add(const SweepDifference& difference, const std::string& setting, Varying& to) {
  if (to.first == nullptr || difference.op < to.first->op) to.first = &difference;
  if (to.worst == nullptr || share_of(difference) > share_of(*to.worst)) to.worst = &difference;
  to.calls.insert(difference.op);
  if (std::ranges::find(to.settings, setting) == to.settings.end()) to.settings.push_back(setting);
}

Finding finding_of(FindingId id, const core::OpRecord& first, const Varying& varying) {
  const bool is_of_rounding = id == FindingId::kFragile || id == FindingId::kDecidesOnRounding;
  // A mean over the batch is as many times as large for one item alone, as it has to be.
  const bool is_gross =
      id == FindingId::kVariesWithBatch && share_of(*varying.worst) > kMostRounding;
  using enum Finding::Weight;
  Finding finding{id, is_of_rounding || is_gross ? kSuspicion : kProof};
  finding.where.step = first.step;
  finding.where.op = varying.first->op;
  finding.where.line = core::line_text(first.site.get());
  finding.with("reader", op_text(first))
      .with("settings", varying.settings)
      .with("calls", varying.calls.size());
  const SweepDifference& worst = *varying.worst;
  if (worst.slot.empty()) return finding;
  finding.with("slot", worst.slot)
      .with("elements", worst.elements)
      .with("differing", worst.differing);
  if (is_gross) finding.with("gross", true);
  if (is_of_rounding) finding.with("argument", worst.argument);
  if (worst.condition) finding.with("condition", *worst.condition);
  if (worst.max_abs) finding.with("max_abs", *worst.max_abs).with("largest", worst.largest);
  return finding;
}

std::vector<Finding> findings_of(const SweptDump& swept) {
  // In the order of calls.
  using Place = std::tuple<FindingId, std::string, std::string, std::string>;
  std::map<Place, Varying> found;
  std::vector<SweepDifference> differences = swept.differences;
  std::ranges::stable_sort(differences, {}, &SweepDifference::setting);
  for (const SweepDifference& each : differences) {
    const core::OpRecord record = swept.dump->op_head(each.op);
    const SweepSetting& setting = swept.settings[each.setting];
    const std::string module = record.site ? record.site->module_path : std::string();
    Place place{setting.found, record.op->name, module, core::line_text(record.site.get())};
    add(each, setting.text, found[std::move(place)]);
  }
  std::vector<std::pair<FindingId, const Varying*>> ordered;
  ordered.reserve(found.size());
  for (const auto& [place, varying] : found) ordered.emplace_back(std::get<0>(place), &varying);
  std::ranges::sort(ordered, {}, [](const auto& each) { return each.second->first->op; });
  std::vector<Finding> findings;
  findings.reserve(ordered.size());
  for (const auto& [id, varying] : ordered) {
    findings.push_back(finding_of(id, swept.dump->op_head(varying->first->op), *varying));
    findings.back().where.rank = swept.rank;
    if (swept.coverage.batch) findings.back().with("batch", swept.coverage.batch->items);
  }
  return findings;
}

/// The phrase that says why what was not found says nothing; empty where it does.
std::string_view why_blind(const SweepCoverage& coverage) {
  if (coverage.batch && coverage.batch->items == 0) return "batch-without-items";
  const bool is_of_few =
      static_cast<double>(coverage.judged) < kLeastJudged * static_cast<double>(coverage.calls()) ||
      coverage.judged == 0;
  if (is_of_few) return "sweep-of-few";
  // A comparison that could not fail.
  return coverage.batch && coverage.batch->told_apart == 0 ? "batch-of-alike" : "";
}

}  // namespace

std::span<const AuditRule> sweep_rules() noexcept { return kRules; }

const AuditRule* batch_rule() noexcept { return rule_of_finding("varies-with-batch"); }

AuditReport audit_sweep(std::span<const SweptDump> swept, AuditPlan plan) {
  const std::vector<const AuditRule*> rules = plan.rules;
  Audit audit(std::move(plan));
  SweepCoverage coverage;
  std::set<FindingId> asked;  // where something was changed
  for (const SweptDump& each : swept) {
    audit.add_of_calls(*each.dump, findings_of(each));
    SweepCoverage own = each.coverage;
    for (const std::size_t at : each.had) {
      own.settings.push_back(each.settings[at].text);
      asked.insert(each.settings[at].found);
    }
    coverage.add(own);
  }
  AuditReport report = audit.finish();
  const std::string_view blind = why_blind(coverage);
  for (const AuditRule* rule : rules) {
    if (blind.empty() && asked.contains(rule->id)) continue;
    std::erase(report.audited, rule);
    report.not_audited.push_back({rule, Phrase(blind.empty() ? "sweep-without-setting" : blind)});
  }
  report.sweep = std::move(coverage);
  return report;
}

}  // namespace repro_check::comparators
