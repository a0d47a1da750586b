// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cmd/render/words.h"
#include "comparators/compare.h"

namespace repro_check::cmd {
namespace {

using comparators::DivergenceKind;
using comparators::ExpectedOutcome;
using comparators::OpDivergence;
using comparators::Relation;
using comparators::Report;
using comparators::RunSummary;
using comparators::Status;
using core::NamedTensorKind;

bool holds(const Report& report, Status status) {
  return report.status == status || std::ranges::find(report.also, status) != report.also.end();
}

std::string named_text(const comparators::NamedTensorDifference& tensor) {
  if (!tensor.note.empty()) return fmt::format("{}: {}", tensor.name, tensor.note);
  if (!tensor.metrics) return tensor.name + ": digests differ";
  return fmt::format("{}: {}", tensor.name, amount_text(*tensor.metrics, false));
}

std::string changes_text(const std::vector<baselines::Change>& changes) {
  constexpr std::size_t kListed = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(changes.size(), kListed); ++i) {
    text += fmt::format("{}: {} -> {}\n", changes[i].name, changes[i].accepted, changes[i].now);
  }
  if (changes.size() > kListed) text += fmt::format("... and {} more\n", changes.size() - kListed);
  return text;
}

/// `origin`, or what differs in its place.
std::string reason_text(const OpDivergence& op) {
  const std::string_view source = differing_source(op);
  if (source.empty()) return std::string(relation_name(op.relation));
  return fmt::format("its {} {}", source, source.ends_with('s') ? "differ" : "differs");
}

class Collector {
 public:
  Collector(const Report& report, const GateOutcome* gate) : report_(report), gate_(gate) {}

  std::vector<Finding> collect() {
    if (comparators::exit_code_of(report_) == core::ExitCode::kReproducible) {
      add_excused();
      return std::move(found_);
    }
    if (holds(report_, Status::kDiverged)) {
      add_named(Subject::kInputs, true);
      add_named(Subject::kWeights, false);
      add_parting();
      add_whole();
    }
    add_observer();
    add_runs();
    add_incomparable();
    add_stale();
    add_operators();
    add_entries();
    settle_consequences();
    add_excused();
    return std::move(found_);
  }

 private:
  Finding& add(RuleId rule, Subject subject, std::string message) {
    Finding& finding = found_.emplace_back();
    finding.rule = rule;
    finding.subject = subject;
    finding.message = std::move(message);
    return finding;
  }

  void add_named(Subject subject, bool inputs) {
    constexpr std::size_t kListed = 20;
    std::size_t count = 0;
    std::string detail;
    for (const auto& tensor : report_.named_tensors) {
      if ((tensor.kind == NamedTensorKind::kInput) != inputs) continue;
      if (count++ == 0) {
        add(RuleId::kInherited, subject, named_text(tensor));
      } else if (count <= kListed) {
        detail += named_text(tensor) + "\n";
      }
    }
    if (count == 0) return;
    if (count > kListed) detail += fmt::format("... and {} more\n", count - kListed);
    found_.back().detail = std::move(detail);
  }

  void add_parting() {
    if (report_.kind != DivergenceKind::kControlFlow) return;
    add(RuleId::kControlFlow, Subject::kAlignment, verdict_line(report_).raw());
  }

  void add_whole() {
    if (report_.kind == DivergenceKind::kGrowth) {
      add(RuleId::kGrowth, Subject::kGrowth, verdict_line(report_).raw());
    }
    if (report_.kind == DivergenceKind::kUnrepeated) {
      add(RuleId::kUnrepeated, Subject::kRepeat, verdict_line(report_).raw());
    } else if (report_.repeat && report_.repeat->differing > 0 && report_.repeat->alike) {
      add(RuleId::kUnrepeated,
          Subject::kRepeat,
          fmt::format(
              "{} of {} runs differ from {}",
              report_.repeat->differing,
              report_.repeat->judged,
              report_.repeat->runs.empty() ? "the first" : report_.repeat->runs.front().name));
    }
  }

  void add_observer() {
    if (!holds(report_, Status::kObserverEffect)) return;
    add(RuleId::kObserver, Subject::kCoverage, verdict_line(report_).raw());
  }

  void add_runs() {
    for (std::size_t i = 0; i < report_.runs.size(); ++i) {
      const RunSummary& run = report_.runs[i];
      if (run.status == "complete") continue;
      const bool failed = run.status == "failed";
      std::string text = run.signal.empty() ? run.message : "killed by " + run.signal;
      if (text.empty()) text = "the recording is " + run.status;
      if (run.last_op) text += fmt::format("; op {} was reached", *run.last_op);
      const RuleId rule =
          failed ? RuleId::kRunFailed
                 : (run.status == "partial" ? RuleId::kNotComparable : RuleId::kDamaged);
      Finding& finding = add(rule, failed ? Subject::kRun : Subject::kDump, std::move(text));
      finding.run = i;
      finding.detail = report_.mend;
    }
  }

  void add_incomparable() {
    const bool is_judged =
        !holds(report_, Status::kNotComparable) && !holds(report_, Status::kNothingCompared);
    if (is_judged) return;
    add(RuleId::kNotComparable, Subject::kCoverage, verdict_line(report_).raw()).detail =
        report_.mend;
  }

  void add_stale() {
    if (!holds(report_, Status::kStaleBaseline) && !holds(report_, Status::kNoBaseline)) return;
    Finding& finding = add(RuleId::kStaleBaseline, Subject::kBaseline, verdict_line(report_).raw());
    if (gate_ != nullptr) {
      finding.detail = changes_text(gate_->changes) + changes_text(gate_->nearest_changes);
    }
    finding.detail += report_.mend;
  }

  /// The entry that would have excused the operator before its day was over.
  [[nodiscard]] const ExpectedOutcome* expired_entry(const OpDivergence& op) const {
    if (gate_ == nullptr) return nullptr;
    for (const ExpectedOutcome& entry : gate_->expected) {
      if (entry.what != ExpectedOutcome::What::kExpired) continue;
      const auto is_it = [&](const OpDivergence& each) {
        return comparators::is_same_call(each, op);
      };
      if (std::ranges::any_of(entry.found, is_it)) return &entry;
    }
    return nullptr;
  }

  void add_operator(const OpDivergence& op) {
    const bool parted = report_.kind == DivergenceKind::kControlFlow;
    Finding& finding =
        add(rule_of(op), Subject::kOperator, fmt::format("{}, {}", op_amount(op), reason_text(op)));
    finding.op = &op;
    finding.detail = fmt::format("op {}, {}\n", shown_index(op), op.cause.evidence);
    if (!op.cause.advice.empty()) finding.detail += op.cause.advice + "\n";
    // What was given differently is a cause, wherever the comparator draws the line.
    const bool is_given = !differing_source(op).empty();
    const bool inherits =
        !op.producers.empty() || (op.relation == Relation::kPropagated && !is_given);
    finding.consequence = inherits || (parted && op.relation == Relation::kMissing);
    if (const ExpectedOutcome* entry = expired_entry(op); entry != nullptr && !inherits) {
      finding.rule = RuleId::kExpired;
      finding.entry = entry;
      finding.message += fmt::format("; expected, and expired on {}", entry->expires);
      finding.detail += entry_text(*entry) + "\n";
    }
  }

  void add_operators() {
    if (report_.first_divergence) add_operator(*report_.first_divergence);
    for (const OpDivergence& op : report_.divergences) add_operator(op);
  }

  Finding& add_entry(RuleId rule, const ExpectedOutcome& entry, std::string message) {
    Finding& finding = add(rule, Subject::kExpected, std::move(message));
    finding.entry = &entry;
    finding.op = entry.found.empty() ? nullptr : &entry.found.front();
    finding.detail = entry_text(entry) + "\n";
    return finding;
  }

  /// Entries that fail without an operator that says so.
  void add_entries() {
    if (gate_ == nullptr || !holds(report_, Status::kDiverged)) return;
    for (const ExpectedOutcome& entry : gate_->expected) {
      using enum ExpectedOutcome::What;
      const auto is_told = [&](const Finding& each) { return each.entry == &entry; };
      if (entry.what == kUnexpectedPass) {
        add_entry(RuleId::kUnexpectedPass,
                  entry,
                  fmt::format("{} was expected to diverge, and agrees", entry.match));
      } else if (entry.what == kExpired && std::ranges::none_of(found_, is_told)) {
        add_entry(RuleId::kExpired,
                  entry,
                  fmt::format("the expected divergence of {} expired on {}, and does not show",
                              entry.match,
                              entry.expires));
      } else if (entry.what == kBeyondLimit && report_.kind == DivergenceKind::kExpectation) {
        add_entry(RuleId::kOrigin,
                  entry,
                  fmt::format("{} diverged further than expected: {}", entry.match, entry.detail));
      }
    }
  }

  /// What diverges as expected is no part of the report any more.
  void add_excused() {
    if (gate_ == nullptr) return;
    for (const ExpectedOutcome& entry : gate_->expected) {
      if (entry.what != ExpectedOutcome::What::kExcused) continue;
      for (const OpDivergence& op : entry.found) {
        Finding& finding = add(RuleId::kExpected,
                               Subject::kOperator,
                               op_amount(op) + ", expected until " + entry.expires);
        finding.op = &op;
        finding.entry = &entry;
        finding.detail = entry_text(entry) + "\n";
      }
    }
  }

  /// Where nothing is a cause, the first operator stands for it. What kept the runs from being
  /// judged is always there when something did.
  void settle_consequences() {
    const bool is_judged = comparators::exit_code_of(report_) == core::ExitCode::kDivergence;
    const auto is_cause = [&](const Finding& each) {
      return is_judged ? !each.consequence : is_trouble(each.rule);
    };
    if (std::ranges::any_of(found_, is_cause)) return;
    if (is_judged && !found_.empty()) {
      found_.front().consequence = false;
      return;
    }
    add(fallback_rule(), fallback_subject(), verdict_line(report_).raw()).detail = report_.mend;
    std::rotate(found_.begin(), found_.end() - 1, found_.end());
  }

  [[nodiscard]] Subject fallback_subject() const {
    const bool is_about_baseline =
        gate_ != nullptr &&
        (gate_->baseline == BaselineState::kDiffers || gate_->baseline == BaselineState::kDamaged);
    return is_about_baseline ? Subject::kBaseline : Subject::kCoverage;
  }

  [[nodiscard]] RuleId fallback_rule() const {
    switch (comparators::exit_code_of(report_)) {
      case core::ExitCode::kDivergence:
        if (report_.kind == DivergenceKind::kExpectation) return RuleId::kUnexpectedPass;
        return report_.kind == DivergenceKind::kWeights || report_.kind == DivergenceKind::kInputs
                   ? RuleId::kInherited
                   : RuleId::kOrigin;
      case core::ExitCode::kDumpUnusable:
        return RuleId::kDamaged;
      case core::ExitCode::kRunFailed:
        return RuleId::kRunFailed;
      default:
        return RuleId::kNotComparable;
    }
  }

  const Report& report_;
  const GateOutcome* gate_;
  std::vector<Finding> found_;
};

}  // namespace

std::vector<Finding> findings_of(const Report& report, const GateOutcome* gate) {
  return Collector(report, gate).collect();
}

std::string entry_text(const ExpectedOutcome& entry) {
  return fmt::format("{}; until {}, {}{}{}",
                     entry.reason,
                     entry.expires,
                     entry.owner,
                     entry.issue.empty() ? "" : ", ",
                     entry.issue);
}

bool is_trouble(RuleId rule) noexcept { return rule >= RuleId::kStaleBaseline; }

}  // namespace repro_check::cmd
