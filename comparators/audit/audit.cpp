// SPDX-License-Identifier: Apache-2.0
#include "comparators/audit/audit.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "comparators/audit/constants.h"
#include "comparators/audit/sweep.h"
#include "comparators/judge/rule_book.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
namespace {

using Need = AuditNeed;

constexpr AuditRule by_trace(FindingId id, Need need, decltype(AuditRule::of_trace) find) {
  return {id, need, find, nullptr};
}
constexpr AuditRule by_ranks(FindingId id, Need need, decltype(AuditRule::of_ranks) find) {
  return {id, need, nullptr, find};
}

constexpr std::array kRules{
    by_trace(FindingId::kRecomputedOtherwise, Need::kOperators, &find_recomputed_otherwise),
    by_trace(FindingId::kDrawsRepeat, Need::kRepeats, &find_draws_repeat),
    by_trace(FindingId::kDrawnOnce, Need::kCalls, &find_drawn_once),
    by_trace(FindingId::kKeyIsConstant, Need::kKeys, &find_key_is_constant),
    by_trace(FindingId::kKeyUsedTwice, Need::kKeys, &find_key_used_twice),
    by_trace(FindingId::kRestoredThenOverwritten, Need::kWhole, &find_restored_then_overwritten),
    by_trace(FindingId::kCopyDidNotCopy, Need::kOperators, &find_copy_that_did_not),
    by_trace(FindingId::kDivisorZero, Need::kProgram, &find_divisor_zero),
    by_trace(FindingId::kFilledOnPartial, Need::kRanks, &find_filled_on_partial),
    by_ranks(FindingId::kWeightsNeverMoved, Need::kProgram, &find_never_moved),
    by_ranks(FindingId::kTrainedAndValidated, Need::kSamples, &find_trained_and_validated),
    by_trace(FindingId::kWorkersDrawAlike, Need::kSamples, &find_workers_draw_alike),
    by_ranks(FindingId::kEveryWorkerReadsAll, Need::kSamples, &find_read_by_every_worker),
    by_ranks(FindingId::kSameOrder, Need::kSamples, &find_same_order),
    by_ranks(FindingId::kTwiceInABatch, Need::kLoaderOfRanks, &find_twice_in_a_batch),
    by_trace(FindingId::kWeightWithoutEffect, Need::kWhole, &find_weight_without_effect),
    by_trace(FindingId::kTrainsInEval, Need::kWhole, &find_trains_in_eval),
    by_trace(FindingId::kNotWhatTheStepLeft, Need::kWhole, &find_not_what_the_step_left),
    by_trace(FindingId::kSameAtEverySync, Need::kWhole, &find_same_at_every_sync),
    by_trace(FindingId::kOlderThanWeights, Need::kWhole, &find_older_than_weights),
    by_trace(FindingId::kReadUnwritten, Need::kWhole, &find_read_unwritten),
    by_trace(FindingId::kDropoutInEval, Need::kOperators, &find_dropout_in_eval),
    by_trace(FindingId::kUntied, Need::kWhole, &find_untied),
    by_trace(FindingId::kStepWithoutBackward, Need::kWhole, &find_step_without_backward),
    by_trace(FindingId::kLostInRounding, Need::kValues, &find_lost_in_rounding),
    by_trace(FindingId::kEpochNeverArrives, Need::kAttributes, &find_epoch_never_arrives),
};

/// Whether operators were left out, so that one that is not there may have been called.
bool is_part(const core::TraceSummary& trace) {
  return !trace.include.empty() || !trace.exclude.empty() || !trace.only.empty();
}

/// Whether loaders with workers tell what was set behind these. Old recordings do not.
bool is_told_of_workers(const AuditTrace& trace) {
  return std::ranges::none_of(trace.batches(), [](const AuditBatch& batch) {
    return batch.loader >= 0 && batch.workers > 0 && !batch.unseen;
  });
}

/// Why nobody can tell whether something repeats, from call to call or step to step.
std::optional<Phrase> lack_of_repeats(AuditNeed need, const AuditTrace& trace) {
  if (trace.manifest().is_of_program()) {
    if (need == AuditNeed::kCalls) return Phrase("audit-of-program");
    return trace.steps().empty() ? std::optional(Phrase("audit-without-steps")) : std::nullopt;
  }
  const std::optional<Liveness> liveness = liveness_of(trace);
  const bool is_told = liveness && liveness->calls >= kTellingCalls;
  return is_told ? std::nullopt : std::optional(Phrase("audit-of-few-calls"));
}

/// Why a rule cannot be asked of a recording.
std::optional<Phrase> lack_of(AuditNeed need,
                              const core::DumpSource& dump,
                              const AuditTrace* trace) {
  const core::RunManifest& manifest = dump.manifest();
  const auto lacks = [](std::string_view key) { return std::optional<Phrase>(Phrase(key)); };
  if (manifest.is_of_blocks()) return lacks("audit-of-blocks");
  const bool has_keys = core::environment_fact(manifest, core::kFramework) != nullptr;
  if (has_keys != (need == AuditNeed::kKeys)) {
    return lacks(has_keys ? "audit-of-pytorch" : "audit-of-keys");
  }
  switch (need) {
    case AuditNeed::kKeys:
    case AuditNeed::kOperators:
      return std::nullopt;
    case AuditNeed::kProgram:
      return manifest.is_of_program() ? std::nullopt : lacks("audit-of-model");
    case AuditNeed::kWhole:
      return is_part(manifest.trace) ? lacks("audit-of-part") : std::nullopt;
    case AuditNeed::kRanks:
    case AuditNeed::kLoaderOfRanks:
      if (core::environment_fact(manifest, core::kRanks) == nullptr) return lacks("audit-of-one");
      if (need == AuditNeed::kRanks) return std::nullopt;
      [[fallthrough]];
    case AuditNeed::kSamples:
    case AuditNeed::kAttributes:
      if (trace->data().empty()) return lacks("audit-without-loader");
      if (need == AuditNeed::kSamples || is_told_of_workers(*trace)) return std::nullopt;
      return lacks("audit-without-attributes");
    case AuditNeed::kCalls:
    case AuditNeed::kRepeats:
      return lack_of_repeats(need, *trace);
    case AuditNeed::kValues:
      return manifest.trace.level == "tensor" ? std::nullopt : lacks("audit-without-values");
  }
  return std::nullopt;
}

std::size_t parameters_of(const AuditTrace& trace) {
  std::set<TextId> names;
  for (const AuditStep& step : trace.steps()) {
    for (const AuditTensor& tensor : trace.outputs(step.call)) {
      if (trace.text(tensor.slot).starts_with(core::kParameterPrefix)) names.insert(tensor.slot);
    }
  }
  return names.size();
}

}  // namespace

std::span<const AuditRule> audit_rules() noexcept { return kRules; }

const AuditRule* find_audit_rule(std::string_view name) noexcept {
  const auto* found = std::ranges::find(kRules, name, &AuditRule::name);
  return found == kRules.end() ? nullptr : found;
}

const AuditRule* rule_of_finding(std::string_view id) noexcept {
  constexpr std::array kOfParameters{
      FindingId::kInNoOptimizer, FindingId::kWithoutGradient, FindingId::kNotMoved};
  const bool is_of_parameters =
      std::ranges::find(kOfParameters, id, &finding_id) != kOfParameters.end();
  if (id == constants_rule().name()) return &constants_rule();
  const auto swept = std::ranges::find(sweep_rules(), id, &AuditRule::name);
  if (swept != sweep_rules().end()) return &*swept;
  return find_audit_rule(is_of_parameters ? finding_id(FindingId::kWeightsNeverMoved) : id);
}

std::span<const AuditFinding> AuditReport::open() const noexcept {
  const auto end = std::ranges::find_if(
      findings, [](const AuditFinding& each) { return each.expected.has_value(); });
  return {findings.begin(), end};
}

void SweepCoverage::add(const SweepCoverage& more) {
  judged += more.judged;
  for (const std::string& setting : more.settings) {
    if (std::ranges::find(settings, setting) == settings.end()) settings.push_back(setting);
  }
  unrepeated.insert(unrepeated.end(), more.unrepeated.begin(), more.unrepeated.end());
  unswept.insert(unswept.end(), more.unswept.begin(), more.unswept.end());
  if (!more.batch) return;
  if (!batch) batch.emplace();
  batch->items = std::max(batch->items, more.batch->items);
  batch->told_apart += more.batch->told_apart;
  batch->without_items += more.batch->without_items;
  batch->mixing.insert(batch->mixing.end(), more.batch->mixing.begin(), more.batch->mixing.end());
}

std::size_t AuditReport::count(Finding::Weight weight) const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(
      open(), [&](const AuditFinding& each) { return each.finding.weight == weight; }));
}

core::ExitCode exit_code_of(const AuditReport& report,
                            configs::AuditFailure fail_on,
                            bool all_asked) noexcept {
  using configs::AuditFailure;
  const bool fails =
      (fail_on != AuditFailure::kNever && report.count(Finding::Weight::kProof) != 0) ||
      (fail_on == AuditFailure::kSuspicion && report.count(Finding::Weight::kSuspicion) != 0);
  if (fails) return core::ExitCode::kDivergence;
  const bool is_open = report.audited.empty() || (all_asked && !report.not_audited.empty());
  return is_open ? core::ExitCode::kNotComparable : core::ExitCode::kReproducible;
}

Audit::Audit(AuditPlan plan) : plan_(std::move(plan)) {
  for (const configs::ExpectedSpec& entry : plan_.expected) {
    report_.expected.push_back(described(entry));
  }
  if (!plan_.rules.empty()) return;
  for (const AuditRule& rule : kRules) plan_.rules.push_back(&rule);
}

/// The entry that is about a finding, and in force.
std::optional<std::size_t> Audit::expected(const AuditFinding& finding) const {
  const std::string_view module =
      finding.site ? std::string_view(finding.site->module_path) : std::string_view();
  for (std::size_t at = 0; at < plan_.expected.size(); ++at) {
    const configs::ExpectedSpec& entry = plan_.expected[at];
    const bool is_about = entry.id == finding_id(finding.finding.id) && takes(entry.module, module);
    if (is_about && plan_.today <= entry.expires) return at;
  }
  return std::nullopt;
}

AuditFinding Audit::made(const AuditRule& rule,
                         Finding finding,
                         std::shared_ptr<const core::CallSite> site) {
  AuditFinding made;
  made.rule = &rule;
  made.finding = std::move(finding);
  made.site = std::move(site);
  made.recording = report_.recordings;
  made.expected = expected(made);
  if (made.expected) ++report_.expected[*made.expected].operators;
  return made;
}

void Audit::add_of_calls(const core::DumpSource& dump, std::vector<Finding> findings) {
  for (Finding& finding : findings) {
    const auto rule = std::ranges::find(plan_.rules, finding.id, &AuditRule::id);
    if (rule == plan_.rules.end()) continue;
    auto site = dump.op_head(*finding.where.op).site;
    AuditFinding& added =
        report_.findings.emplace_back(made(**rule, std::move(finding), std::move(site)));
    if (const auto rank = added.finding.where.rank) added.ranks.push_back(*rank);
  }
  count(dump);
}

void Audit::count(const core::DumpSource& dump) {
  ++report_.recordings;
  report_.rows.push_back(dump.op_count());
  report_.operators += dump.manifest().trace.operator_calls();
}

void Audit::put(const AuditRule& rule, std::vector<Finding> findings, const AuditTrace* trace) {
  for (Finding& finding : findings) {
    std::shared_ptr<const core::CallSite> site;
    if (trace != nullptr && finding.where.op) {
      site = trace->site(static_cast<std::uint32_t>(*finding.where.op));
    }
    AuditFinding added = made(rule, std::move(finding), std::move(site));
    const Finding& said = added.finding;
    const auto same = std::ranges::find_if(report_.findings, [&](const AuditFinding& known) {
      return known.rule == &rule && known.finding.id == said.id &&
             known.expected == added.expected && known.finding.weight == said.weight &&
             known.finding.where.line == said.where.line &&
             (trace != nullptr || known.finding.where.tensor == said.where.tensor) &&
             (!said.where.line.empty() || known.finding.fields == said.fields);
    });
    const auto rank = said.where.rank;
    if (same != report_.findings.end()) {
      ++same->times;
      if (rank && std::ranges::find(same->ranks, *rank) == same->ranks.end()) {
        same->ranks.push_back(*rank);
      }
      continue;
    }
    if (rank) added.ranks.push_back(*rank);
    report_.findings.push_back(std::move(added));
  }
}

void Audit::keep(const AuditTrace& trace, const std::optional<std::uint32_t>& rank) {
  AuditShare& share = shares_.emplace_back();
  share.rank = rank;
  share.still = trace.still();
  share.parameters = parameters_of(trace);
  share.steps = trace.steps().size();
  share.data = trace.data();
  share.batches = trace.batches();
}

bool Audit::see(const core::DumpSource& dump, const std::optional<std::uint32_t>& rank) {
  const bool has_operators = !dump.manifest().is_of_blocks();
  const std::optional<AuditTrace> trace =
      has_operators ? std::optional<AuditTrace>(std::in_place, dump, plan_.is_late) : std::nullopt;
  if (trace && !trace->is_whole()) return false;
  for (const AuditRule* rule : plan_.rules) {
    if (plan_.is_late && plan_.is_late()) return false;
    const auto lack = lack_of(rule->need, dump, trace ? &*trace : nullptr);
    if (lack) {
      if (std::ranges::find(report_.not_audited, rule, &NotAudited::rule) ==
          report_.not_audited.end()) {
        report_.not_audited.push_back({rule, *lack});
      }
      continue;
    }
    if (rule->of_trace == nullptr) continue;
    std::vector<Finding> found = rule->of_trace(*trace);
    for (Finding& finding : found) finding.where.rank = rank;
    put(*rule, std::move(found), &*trace);
  }
  if (trace) {
    keep(*trace, rank);
    report_.liveness = liveness_of(*trace);
  }
  count(dump);
  return true;
}

void Audit::settle() {
  using enum ExpectedOutcome::What;
  const auto was_audited = [&](const std::string& id) {
    return std::ranges::find(report_.audited, rule_of_finding(id)) != report_.audited.end();
  };
  for (std::size_t at = 0; at < plan_.expected.size(); ++at) {
    const configs::ExpectedSpec& entry = plan_.expected[at];
    ExpectedOutcome& outcome = report_.expected[at];
    outcome.what = plan_.today > entry.expires ? kExpired
                   : outcome.operators != 0    ? kExcused
                   : !was_audited(entry.id)    ? kNotJudged
                                               : kAgreed;
  }
}

AuditReport Audit::finish() {
  for (const AuditRule* rule : plan_.rules) {
    if (std::ranges::find(report_.not_audited, rule, &NotAudited::rule) !=
        report_.not_audited.end()) {
      continue;
    }
    report_.audited.push_back(rule);
    if (rule->of_ranks != nullptr) put(*rule, rule->of_ranks(shares_), nullptr);
  }
  settle();
  std::ranges::stable_sort(report_.findings, std::less(), [](const AuditFinding& each) {
    return std::tuple(each.expected.has_value(), each.finding.weight, each.rule);
  });
  for (AuditFinding& each : report_.findings) {
    each.finding.with("times", each.times);
    if (each.ranks.size() > 1) each.finding.where.rank.reset();
    std::ranges::sort(each.ranks);
  }
  return std::move(report_);
}

}  // namespace repro_check::comparators
