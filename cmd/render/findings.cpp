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

class Collector {
 public:
  explicit Collector(const Report& report) : report_(report) {}

  std::vector<Finding> collect() {
    if (holds(report_, Status::kDiverged)) {
      add_named(Subject::kInputs, true);
      add_named(Subject::kWeights, false);
      add_parting();
      add_whole();
    }
    add_observer();
    add_runs();
    add_incomparable();
    add_operators();
    settle_consequences();
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

  void add_operator(const OpDivergence& op) {
    const bool parted = report_.kind == DivergenceKind::kControlFlow;
    Finding& finding = add(rule_of(op),
                           Subject::kOperator,
                           fmt::format("{}, {}", op_amount(op), relation_name(op.relation)));
    finding.op = &op;
    finding.detail = fmt::format("op {}, {}\n", shown_index(op), op.cause.evidence);
    if (!op.cause.advice.empty()) finding.detail += op.cause.advice + "\n";
    const bool inherits = op.relation == Relation::kPropagated || !op.producers.empty();
    finding.consequence = inherits || (parted && op.relation == Relation::kMissing);
  }

  void add_operators() {
    if (report_.first_divergence) add_operator(*report_.first_divergence);
    for (const OpDivergence& op : report_.divergences) add_operator(op);
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
    add(fallback_rule(), Subject::kCoverage, verdict_line(report_).raw()).detail = report_.mend;
    std::rotate(found_.begin(), found_.end() - 1, found_.end());
  }

  [[nodiscard]] RuleId fallback_rule() const {
    switch (comparators::exit_code_of(report_)) {
      case core::ExitCode::kDivergence:
        return RuleId::kOrigin;
      case core::ExitCode::kDumpUnusable:
        return RuleId::kDamaged;
      case core::ExitCode::kRunFailed:
        return RuleId::kRunFailed;
      default:
        return RuleId::kNotComparable;
    }
  }

  const Report& report_;
  std::vector<Finding> found_;
};

}  // namespace

std::vector<Finding> findings_of(const Report& report) {
  if (comparators::exit_code_of(report) == core::ExitCode::kReproducible) return {};
  return Collector(report).collect();
}

bool is_trouble(RuleId rule) noexcept { return rule >= RuleId::kStaleBaseline; }

}  // namespace repro_check::cmd
