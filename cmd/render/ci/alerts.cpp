// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/ci/alerts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "cmd/render/text.h"
#include "cmd/words/causes.h"
#include "cmd/words/report_words.h"
#include "comparators/compare.h"
#include "core/trace/program_records.h"

namespace repro_check::cmd {
namespace {

using comparators::ExpectedOutcome;

bool holds(const Report& report, Status status) {
  return report.status == status || std::ranges::find(report.also, status) != report.also.end();
}

/// A line each, of those that have room.
std::string listed(const std::vector<std::string>& texts) {
  constexpr std::size_t kListed = 20;
  const std::size_t shown = std::min(texts.size(), kListed);
  std::string lines;
  for (std::size_t i = 0; i < shown; ++i) lines += texts[i] + "\n";
  if (texts.size() > shown) lines += fmt::format("... and {} more\n", texts.size() - shown);
  return lines;
}

std::string changes_text(const std::vector<baselines::Change>& changes) {
  std::vector<std::string> texts;
  texts.reserve(changes.size());
  for (const auto& [name, accepted, now] : changes) {
    texts.push_back(fmt::format("{}: {} -> {}", name, accepted, now));
  }
  return listed(texts);
}

/// What the operator was given besides the results of others, if that is what differs: `weights`,
/// `inputs`, `constant`, `argument`; else empty.
std::string_view differing_source(const OpDivergence& op) noexcept {
  using comparators::CauseKind;
  if (op.kind == DivergenceKind::kWeights || op.cause.kind == CauseKind::kWeights) return "weights";
  if (op.kind == DivergenceKind::kInputs || op.cause.kind == CauseKind::kInputData) return "inputs";
  if (op.cause.kind == CauseKind::kConstant) return "constant";
  return op.cause.kind == CauseKind::kArgument ? "argument" : "";
}

/// The rule that an operator which is not fine falls under.
RuleId rule_of(const OpDivergence& op) noexcept {
  if (op.relation == Relation::kMissing) return RuleId::kMissing;
  if (core::is_of_blocks(shown_record(op))) return RuleId::kBorder;
  if (!differing_source(op).empty()) return RuleId::kInherited;
  if (op.relation == Relation::kMismatch) return RuleId::kMismatch;
  if (op.kind == DivergenceKind::kUninitialised) return RuleId::kUninitialised;
  if (op.kind == DivergenceKind::kRng) return RuleId::kGenerator;
  if (op.relation == Relation::kPropagated) return RuleId::kInherited;
  return op.cause.kind == comparators::CauseKind::kNondeterministicKernel
             ? RuleId::kNondeterministic
             : RuleId::kOrigin;
}

/// `origin`, or what differs in its place.
std::string reason_text(const OpDivergence& op) {
  const std::string_view source = differing_source(op);
  if (source.empty()) return std::string(word_of(op.relation));
  return fmt::format("its {} {}", source, source.ends_with('s') ? "differ" : "differs");
}

class Collector {
 public:
  Collector(const Report& report, const GateOutcome* gate) : report_(report), gate_(gate) {}

  std::vector<Alert> collect() {
    if (comparators::exit_code_of(report_) == core::ExitCode::kReproducible) {
      add_excused();
      return std::move(found_);
    }
    if (holds(report_, Status::kDiverged)) {
      add_named(Subject::kInputs, true);
      add_named(Subject::kWeights, false);
      add_whole();
    }
    if (holds(report_, Status::kObserverEffect)) {
      add_verdict(RuleId::kObserver, Subject::kCoverage);
    }
    add_runs();
    if (holds(report_, Status::kNotComparable) || holds(report_, Status::kNothingCompared)) {
      add_verdict(RuleId::kNotComparable, Subject::kCoverage).detail = mend_of(report_);
    }
    add_stale();
    for (const OpDivergence* op : every_divergence(report_)) add_operator(*op);
    add_entries();
    settle_consequences();
    add_excused();
    return std::move(found_);
  }

 private:
  Alert& add(RuleId rule, Subject subject, std::string message) {
    Alert& alert = found_.emplace_back();
    alert.rule = rule;
    alert.subject = subject;
    alert.message = std::move(message);
    return alert;
  }

  /// What the verdict line says already.
  Alert& add_verdict(RuleId rule, Subject subject) {
    return add(rule, subject, verdict_line(report_).raw());
  }

  void add_named(Subject subject, bool inputs) {
    std::vector<std::string> texts;
    for (const auto& tensor : report_.named_tensors) {
      if ((tensor.kind == core::NamedTensorKind::kInput) != inputs) continue;
      texts.push_back(tensor.name + ": " + amount_text(tensor));
    }
    if (texts.empty()) return;
    Alert& alert = add(RuleId::kInherited, subject, texts.front());
    texts.erase(texts.begin());
    alert.detail = listed(texts);
  }

  void add_whole() {
    using enum DivergenceKind;
    if (report_.kind == kControlFlow) add_verdict(RuleId::kControlFlow, Subject::kAlignment);
    if (report_.kind == kGrowth) add_verdict(RuleId::kGrowth, Subject::kGrowth);
    if (report_.kind == kRestore) add_verdict(RuleId::kInherited, Subject::kWeights);
    if (report_.kind == kUnrepeated) {
      add_verdict(RuleId::kUnrepeated, Subject::kRepeat);
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
      Alert& alert = add(rule, failed ? Subject::kRun : Subject::kDump, std::move(text));
      alert.run = i;
      alert.detail = mend_of(report_);
    }
  }

  void add_stale() {
    if (!holds(report_, Status::kStaleBaseline) && !holds(report_, Status::kNoBaseline)) return;
    Alert& alert = add_verdict(RuleId::kStaleBaseline, Subject::kBaseline);
    if (gate_ != nullptr) {
      alert.detail = changes_text(gate_->changes) + changes_text(gate_->nearest_changes);
    }
    alert.detail += mend_of(report_);
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
    Alert& alert =
        add(rule_of(op), Subject::kOperator, fmt::format("{}, {}", op_amount(op), reason_text(op)));
    alert.op = &op;
    const FindingText why = words_of(op.cause);
    alert.detail = fmt::format("{}op {}, {}\n", index_owner(op), shown_index(op), why.evidence);
    if (!why.fix.empty()) alert.detail += why.fix + "\n";
    // What was given differently is a cause, wherever the comparator draws the line.
    const bool is_given = !differing_source(op).empty();
    const bool inherits =
        !op.producers.empty() || (op.relation == Relation::kPropagated && !is_given);
    alert.consequence = inherits || (parted && op.relation == Relation::kMissing);
    if (const ExpectedOutcome* entry = expired_entry(op); entry != nullptr && !inherits) {
      alert.rule = RuleId::kExpired;
      alert.entry = entry;
      alert.message += fmt::format("; expected, and expired on {}", entry->expires);
      alert.detail += entry_text(*entry) + "\n";
    }
  }

  Alert& add_entry(RuleId rule, const ExpectedOutcome& entry, std::string message) {
    Alert& alert = add(rule, Subject::kExpected, std::move(message));
    alert.entry = &entry;
    alert.op = entry.found.empty() ? nullptr : &entry.found.front();
    alert.detail = entry_text(entry) + "\n";
    return alert;
  }

  /// Entries that fail without an operator that says so.
  void add_entries() {
    if (gate_ == nullptr || !holds(report_, Status::kDiverged)) return;
    for (const ExpectedOutcome& entry : gate_->expected) {
      using enum ExpectedOutcome::What;
      const auto is_told = [&](const Alert& each) { return each.entry == &entry; };
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
        add_entry(
            RuleId::kOrigin,
            entry,
            fmt::format(
                "{} diverged further than expected: {}", entry.match, sentence_of(entry.detail)));
      }
    }
  }

  /// What diverges as expected is no part of the report any more.
  void add_excused() {
    if (gate_ == nullptr) return;
    for (const ExpectedOutcome& entry : gate_->expected) {
      if (entry.what != ExpectedOutcome::What::kExcused) continue;
      for (const OpDivergence& op : entry.found) {
        Alert& alert = add(RuleId::kExpected,
                           Subject::kOperator,
                           op_amount(op) + ", expected until " + entry.expires);
        alert.op = &op;
        alert.entry = &entry;
        alert.detail = entry_text(entry) + "\n";
      }
    }
  }

  /// Where nothing is a cause, the first operator stands for it. What kept the runs from being
  /// judged is always there when something did.
  void settle_consequences() {
    const bool is_judged = comparators::exit_code_of(report_) == core::ExitCode::kDivergence;
    const auto is_cause = [&](const Alert& each) {
      return is_judged ? !each.consequence : is_trouble(each.rule);
    };
    if (std::ranges::any_of(found_, is_cause)) return;
    if (is_judged && !found_.empty()) {
      found_.front().consequence = false;
      return;
    }
    const bool is_about_baseline =
        gate_ != nullptr &&
        (gate_->baseline == BaselineState::kDiffers || gate_->baseline == BaselineState::kDamaged);
    const Subject subject = is_about_baseline ? Subject::kBaseline : Subject::kCoverage;
    add_verdict(fallback_rule(), subject).detail = mend_of(report_);
    std::rotate(found_.begin(), found_.end() - 1, found_.end());
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
  std::vector<Alert> found_;
};

/// Empty where `file` is not below `root`.
std::string below(const std::filesystem::path& root, const std::string& file) {
  if (file.empty()) return {};
  std::filesystem::path path = std::filesystem::path(file).lexically_normal();
  if (path.is_absolute()) {
    if (root.empty()) return {};
    path = path.lexically_relative(root);
  }
  const bool is_outside = path.empty() || *path.begin() == ".." || path == ".";
  return is_outside || path.is_absolute() ? std::string() : path.generic_string();
}

bool is_installed(const std::filesystem::path& file) {
  return std::ranges::any_of(file, [](const std::filesystem::path& part) {
    return part == "site-packages" || part == "dist-packages" || part == "torch";
  });
}

const core::RunManifest* last_manifest(const Report& report) {
  return report.runs.empty() ? nullptr : &report.runs.back().manifest;
}

std::string subject_of(const Report& report, const DocumentOptions& options, bool several) {
  std::string subject = options.subject;
  const core::RunManifest* manifest = last_manifest(report);
  if (subject.empty() && manifest != nullptr) {
    subject = std::filesystem::path(manifest->model_path).stem().string();
  }
  subject = identifier(subject.empty() ? "model" : subject);
  // A dot would make a package of the rest where readers split class names.
  std::ranges::replace(subject, '.', '_');
  if (!several || report.runs.empty()) return subject;
  std::string candidate = identifier(report.runs.back().name);
  std::ranges::replace(candidate, '.', '_');
  return subject + "-" + candidate;
}

std::string platform_of(const Report& report, const DocumentOptions& options) {
  if (!options.platform.empty()) return identifier(options.platform);
  const core::RunManifest* manifest = last_manifest(report);
  if (manifest == nullptr) return "unknown";
  const bool is_known = !manifest->created.empty() && !manifest->device.empty();
  return is_known ? identifier(manifest->device) : "unknown";
}

}  // namespace

const RuleRow& rule(RuleId id) { return catalogue().rules.at(static_cast<std::size_t>(id)); }

std::vector<Alert> alerts_of(const Report& report, const GateOutcome* gate) {
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

std::optional<SourcePlace> source_place(const core::CallSite* site,
                                        const DocumentOptions& options) {
  const std::filesystem::path root(options.source_root);
  for (const core::SourceFrame& frame : site ? site->frames : decltype(site->frames){}) {
    if (frame.line == 0 || is_installed(frame.file)) continue;
    if (std::string file = below(root, frame.file); !file.empty()) {
      return SourcePlace{std::move(file), frame.line, true};
    }
  }
  return std::nullopt;
}

SourcePlace source_place(const core::CallSite* site,
                         const Report& report,
                         const DocumentOptions& options) {
  if (auto place = source_place(site, options)) return std::move(*place);
  const std::filesystem::path root(options.source_root);
  const core::RunManifest* manifest = last_manifest(report);
  const std::string model = manifest == nullptr ? "" : manifest->model_path;
  for (const std::string& file : {options.fallback_file, model}) {
    if (std::string inside = below(root, file); !inside.empty())
      return {std::move(inside), 1, false};
  }
  // A reader drops what has no file at all.
  const std::string name = std::filesystem::path(model).filename().string();
  return {name.empty() ? "repro-check" : name, 1, false, false};
}

const core::CallSite* site_of(const Alert& alert, const Report& report) {
  if (alert.op != nullptr) return shown_record(*alert.op).site.get();
  const bool has_operator = alert.subject == Subject::kInputs ||
                            alert.subject == Subject::kWeights ||
                            alert.subject == Subject::kAlignment;
  if (!has_operator || !report.first_divergence) return nullptr;
  return shown_record(*report.first_divergence).site.get();
}

std::vector<CiReport> ci_reports(std::span<const Report> reports, const DocumentOptions& options) {
  std::vector<CiReport> views;
  for (const Report& report : reports) {
    const GateOutcome* gate = views.empty() ? options.gate : nullptr;
    views.push_back({report,
                     gate,
                     options,
                     subject_of(report, options, reports.size() > 1),
                     platform_of(report, options),
                     alerts_of(report, gate)});
  }
  return views;
}

}  // namespace repro_check::cmd
