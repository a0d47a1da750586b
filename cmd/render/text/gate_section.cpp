// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cmd/render/text.h"
#include "cmd/render/text/report_sections.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::ExpectedOutcome;

std::string changes_text(const std::vector<baselines::Change>& changes, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < changes.size() && i < most; ++i) {
    const baselines::Change& change = changes[i];
    text += fmt::format("{}{} {} -> {}",
                        i == 0 ? "" : ", ",
                        escape_name(change.name),
                        escape_name(change.accepted),
                        escape_name(change.now));
  }
  if (changes.size() > most) text += fmt::format(" and {} more", changes.size() - most);
  return text;
}

std::string baseline_text(const GateOutcome& gate) {
  const std::string file = escape_name(gate.file);
  switch (gate.baseline) {
    case BaselineState::kNotAsked:
      return gate.runs_agree ? "" : "not asked: the runs do not agree with each other";
    case BaselineState::kSame:
      return file + ": as accepted";
    case BaselineState::kRefresh:
      return file + ": results as accepted; it may be refreshed with `gate accept`";
    case BaselineState::kStale:
      return file + ": " + escape_name(gate.summary);
    case BaselineState::kMissing:
      return "none: " + file;
    case BaselineState::kDiffers:
      return file + ": " + escape_name(gate.summary);
    case BaselineState::kDamaged:
      return file + ": cannot be read";
    case BaselineState::kNoKey:
      break;
  }
  return "not asked: no platform key";
}

std::string expected_text(const ExpectedOutcome& entry) {
  std::string text = fmt::format("{}: {}", escape_name(entry.match), expected_name(entry.what));
  if (entry.operators > 0) text += fmt::format(", {}", format_count(entry.operators, "operator"));
  if (!entry.detail.empty()) text += ", " + escape_name(entry.detail);
  return text + fmt::format("; until {}, {}", entry.expires, escape_name(entry.owner));
}

}  // namespace

std::string_view state_name(BaselineState state) noexcept {
  return name_of(
      state, {"not_asked", "same", "refresh", "stale", "missing", "differs", "damaged", "no_key"});
}

std::string_view expected_name(ExpectedOutcome::What what) noexcept {
  return name_of(what,
                 {"excused",
                  "agreed",
                  "unexpected_pass",
                  "beyond_limit",
                  "not_judged",
                  "expired",
                  "elsewhere"});
}

Page gate_section(const GateOutcome* gate, const Detail& detail) {
  Page page;
  if (gate == nullptr) return page;
  const std::size_t most = detail.everything ? 100 : 3;
  page.prose("baseline", baseline_text(*gate));
  page.prose("changed", changes_text(gate->changes, most));
  if (!gate->nearest.empty()) {
    page.prose("nearest",
               escape_name(gate->nearest) + ": " + changes_text(gate->nearest_changes, most));
  }
  for (const ExpectedOutcome& entry : gate->expected) {
    page.prose("expected", expected_text(entry));
  }
  for (const std::string& note : gate->notes) page.prose("note", note);
  page.prose("attempt", gate->attempt);
  const bool has_news = gate->baseline != BaselineState::kSame;
  if (!gate->pending.empty() && has_news) {
    const std::string why = gate->refusal.empty() ? "" : "; accept refuses it: " + gate->refusal;
    page.prose("pending", gate->pending + why);
  }
  return page;
}

}  // namespace repro_check::cmd
