// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/expectations.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "comparators/judge/rule_book.h"
#include "core/error.h"

namespace repro_check::comparators {
namespace {

using configs::ExpectedSpec;

bool matches(const ExpectedSpec& entry, const core::OpRecord& record) {
  return record.op != nullptr && takes_operator(entry.op, record) &&
         takes(entry.module, module_of(record)) && takes(entry.phase, core::name_of(record.phase));
}

std::string describe(const ExpectedSpec& entry) {
  std::string text =
      describe_patterns({{"operator", entry.op}, {"module", entry.module}, {"phase", entry.phase}});
  if (entry.id.empty()) return text;
  return fmt::format("{}{}id {}", text, text.empty() ? "" : ", ", entry.id);
}

std::string date_text(std::chrono::sys_days day) {
  const std::chrono::year_month_day date{day};
  return fmt::format("{:04}-{:02}-{:02}",
                     static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

/// Why an output went too far; empty where it did not.
Phrases excess(const configs::LimitSpec& limit, const TensorComparison& output) {
  if (!limit.ulp && !limit.atol && !limit.rtol) return {};
  if (output.outcome == TensorOutcome::kMismatch) return output.note;
  if (!output.metrics) return {Phrase("limit-needs-values")};
  const TensorMetrics& m = *output.metrics;
  // NaN and Inf against numbers have no distance.
  if (m.apart() != 0) return {Phrase("non-finite-on-one-side")};
  const auto beyond = [](std::string_view key, FieldValue value, FieldValue most) {
    return Phrases{Phrase(key, {{"value", std::move(value)}, {"limit", std::move(most)}})};
  };
  if (limit.ulp && (!m.ulp_max || *m.ulp_max > *limit.ulp)) {
    return m.ulp_max ? beyond("beyond-ulp-limit",
                              static_cast<std::int64_t>(*m.ulp_max),
                              static_cast<std::int64_t>(*limit.ulp))
                     : Phrases{Phrase("dtype-without-ulp")};
  }
  if (limit.atol && !(m.max_abs && *m.max_abs <= *limit.atol)) {
    return beyond("beyond-absolute-limit", m.max_abs.value_or(0), *limit.atol);
  }
  if (limit.rtol && !(m.max_rel && *m.max_rel <= *limit.rtol)) {
    return beyond("beyond-relative-limit", m.max_rel.value_or(0), *limit.rtol);
  }
  return {};
}

Phrases excess(const configs::LimitSpec& limit, const OpDivergence& op) {
  for (const TensorComparison& output : op.outputs) {
    Phrases why = excess(limit, output);
    if (!why.empty()) return why;
  }
  return {};
}

bool is_root(const OpDivergence& op) {
  return op.relation == Relation::kOrigin || op.relation == Relation::kMismatch;
}

// What an expected divergence can be the whole story of.
bool is_open_to_excuses(const Report& report) {
  const std::uint64_t listed = report.divergences.size() + (report.first_divergence ? 1 : 0);
  return report.status == Status::kDiverged && report.named_tensors.empty() &&
         !report.growth.exceeded && !report.control_flow && listed == report.divergences_total;
}

// The runs are compared with each other and with what was accepted: one call may come twice.
void keep(const OpDivergence& op, std::vector<OpDivergence>& found) {
  const auto is_known = [&](const OpDivergence& each) { return is_same_call(each, op); };
  if (found.size() == ExpectedOutcome::kMostFound || std::ranges::any_of(found, is_known)) return;
  found.push_back(op);
}

/// Takes an operator that is excused out of the sums of a report.
void uncount(const OpDivergence& op, Report& report) {
  const core::OpRecord& record = shown_record(op);
  if (core::is_returned(record)) {
    report.returned.compared -= report.returned.diverged;
    report.returned.not_judged += std::exchange(report.returned.diverged, 0);
    report.returned.first.reset();
    return;
  }
  Coverage& coverage = report.coverage;
  --(op.relation == Relation::kMismatch ? coverage.mismatched : coverage.diverged);
  --(is_root(op) ? coverage.origins : coverage.propagated);
  --coverage.compared;
  ++coverage.not_judged;
  const auto module = std::ranges::find(report.modules, module_of(record), &ModuleTally::path);
  if (module == report.modules.end() || module->not_fine == 0) return;
  --module->not_fine;
  ++module->not_judged;
}

void set_divergences(std::vector<OpDivergence> left, Report& report) {
  report.divergences_total = left.size();
  report.first_divergence.reset();
  report.divergences.clear();
  if (!left.empty()) {
    report.first_divergence = std::move(left.front());
    report.divergences.assign(std::make_move_iterator(left.begin() + 1),
                              std::make_move_iterator(left.end()));
    report.kind = report.first_divergence->kind;
    return;
  }
  report.kind = DivergenceKind::kNone;
  report.status = Status::kReproducible;
  if (!report.also.empty()) {
    report.status = report.also.front();
    report.also.erase(report.also.begin());
  }
}

}  // namespace

ExpectedOutcome described(const ExpectedSpec& entry) {
  return {
      describe(entry), entry.reason, entry.issue, entry.owner, date_text(entry.expires), {}, 0, {}};
}

bool is_same_call(const OpDivergence& left, const OpDivergence& right) {
  const core::OpRecord& a = shown_record(left);
  const core::OpRecord& b = shown_record(right);
  const bool same_operator =
      (a.op == nullptr) == (b.op == nullptr) && (a.op == nullptr || *a.op == *b.op);
  return same_operator && left.baseline_index == right.baseline_index &&
         left.candidate_index == right.candidate_index;
}

Expectations::Expectations(std::vector<ExpectedSpec> entries,
                           std::string platform,
                           std::chrono::sys_days today)
    : entries_(std::move(entries)),
      platform_(std::move(platform)),
      today_(today),
      seen_(entries_.size()) {}

void Expectations::require_matches(const core::DumpSource& dump) {
  for (std::size_t k = 0; k < entries_.size(); ++k) {
    const std::string& id = entries_[k].id;
    if (id.empty() || cause_of_id(id)) continue;
    throw core::usage_error(fmt::format("/expected/{}/id: no cause has the id \"{}\"", k, id),
                            "`findings` of a JSON report has the ids: --format json");
  }
  std::vector<bool> found(entries_.size(), false);
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord head = dump.op_head(i);
    for (std::size_t k = 0; k < entries_.size(); ++k) {
      if (found[k] || !matches(entries_[k], head)) continue;
      found[k] = true;
      seen_[k].named.baseline_index = i;
      seen_[k].named.baseline = head;
    }
  }
  for (std::size_t k = 0; k < entries_.size(); ++k) {
    if (found[k]) continue;
    throw core::usage_error(
        fmt::format("/expected/{}: {}: no operator of the run is that", k, describe(entries_[k])),
        "take the entry out, or see `repro-check inspect DUMP --list` for the names");
  }
}

bool Expectations::takes(const OpDivergence& op, bool expired) {
  bool taken = false;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const ExpectedSpec& entry = entries_[i];
    if (!platform_.starts_with(entry.platform) || (today_ > entry.expires) != expired ||
        !matches(entry, shown_record(op)) ||
        !(entry.id.empty() || entry.id == cause_id(op.cause.kind))) {
      continue;
    }
    if (expired) {
      keep(op, seen_[i].found);
      continue;
    }
    Phrases why = excess(entry.limit, op);
    if (why.empty()) {
      ++seen_[i].excused;
      keep(op, seen_[i].found);
      taken = true;
    } else if (seen_[i].beyond.empty()) {
      seen_[i].beyond = std::move(why);
    }
  }
  return taken;
}

void Expectations::excuse(Report& report) {
  if (report.status != Status::kDiverged) return;
  is_hidden_ = is_hidden_ || !report.first_divergence || !is_open_to_excuses(report);
  if (!report.named_tensors.empty()) return;
  std::vector<OpDivergence> all;
  if (report.first_divergence) all.push_back(*report.first_divergence);
  all.insert(all.end(), report.divergences.begin(), report.divergences.end());
  const bool is_listed = !all.empty() && core::is_returned(shown_record(all.front()));
  if (report.returned.first && !is_listed) all.push_back(*report.returned.first);
  for (const OpDivergence& op : all) {
    if (is_root(op)) takes(op, true);
  }
  if (!is_open_to_excuses(report)) return;
  std::vector<OpDivergence> left;
  bool any = false;
  for (OpDivergence& op : all) {
    const bool excused = is_root(op) && takes(op, false);
    any = any || excused;
    // Before the first origin that nobody expects, what is propagated comes from expected ones.
    const bool downstream = any && left.empty() && op.relation == Relation::kPropagated;
    if (excused || downstream) {
      uncount(op, report);
    } else {
      left.push_back(std::move(op));
    }
  }
  if (any) set_divergences(std::move(left), report);
}

ExpectedOutcome Expectations::outcome_of(std::size_t index) const {
  using enum ExpectedOutcome::What;
  const ExpectedSpec& entry = entries_[index];
  const Seen& seen = seen_[index];
  ExpectedOutcome outcome = described(entry);
  outcome.what = kExcused;
  outcome.operators = seen.excused;
  outcome.detail = seen.beyond;
  outcome.found = seen.found;
  if (!platform_.starts_with(entry.platform)) {
    outcome.what = kElsewhere;
  } else if (today_ > entry.expires) {
    outcome.what = kExpired;
  } else if (!seen.beyond.empty()) {
    outcome.what = kBeyondLimit;
  } else if (seen.excused == 0 && is_hidden_) {
    outcome.what = kNotJudged;
  } else if (seen.excused == 0) {
    outcome.what = entry.happens == configs::Happens::kAlways ? kUnexpectedPass : kAgreed;
  }
  if (outcome.fails() && outcome.found.empty() && seen.named.baseline_index) {
    outcome.found = {seen.named};
  }
  return outcome;
}

std::vector<ExpectedOutcome> Expectations::settle(const std::optional<std::uint64_t>& min_judged,
                                                  Report& report) const {
  using enum ExpectedOutcome::What;
  std::vector<ExpectedOutcome> outcomes;
  Phrases failures;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const ExpectedOutcome& outcome = outcomes.emplace_back(outcome_of(i));
    if (!outcome.fails()) continue;
    const std::string_view key = outcome.what == kExpired          ? "expectation-expired"
                                 : outcome.what == kUnexpectedPass ? "expected-agrees"
                                                                   : "diverged-further";
    failures.push_back(Phrase(key,
                              {{"match", outcome.match},
                               {"expires", outcome.expires},
                               {"detail", outcome.detail},
                               {"owner", outcome.owner}}));
  }
  if (report.status == Status::kReproducible && !failures.empty()) {
    report.status = Status::kDiverged;
    report.kind = DivergenceKind::kExpectation;
  }
  append(std::move(failures), report.reasons);
  if (report.status == Status::kReproducible && min_judged &&
      report.coverage.compared < *min_judged) {
    report.status = Status::kNotComparable;
    report.reasons.push_back(
        Phrase("few-judged", {{"operators", report.coverage.compared}, {"least", *min_judged}}));
  }
  return outcomes;
}

}  // namespace repro_check::comparators
