// SPDX-License-Identifier: Apache-2.0
#include "cmd/gate/gate_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace repro_check::cmd {
namespace {

using What = comparators::ExpectedOutcome::What;

/// What one entry did in a gate; nothing where the gate did not come to it.
std::optional<std::string> outcome_in(const HistoryEntry& entry, const std::string& match) {
  const auto found = std::ranges::find(entry.expected, match, &HistoryExpected::match);
  if (found == entry.expected.end()) return std::nullopt;
  return found->outcome;
}

bool is_of_same_gate(const HistoryEntry& one, const HistoryEntry& other) {
  return one.gate == other.gate && one.platform == other.platform;
}

/// Whether nothing whole was there to be judged.
bool was_not_judged(const HistoryEntry& entry) {
  return entry.exit_code == core::ExitCode::kRunFailed ||
         entry.exit_code == core::ExitCode::kDumpUnusable;
}

/// `GITHUB_RUN_ATTEMPT=2` -> 2; what counts retries begins with 0.
std::optional<std::uint64_t> attempt_number(const std::string& attempt) {
  const std::size_t equals = attempt.find('=');
  if (equals == std::string::npos) return std::nullopt;
  const std::string_view digits = std::string_view(attempt).substr(equals + 1);
  std::uint64_t number = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (end.ec != std::errc{} || end.ptr != digits.data() + digits.size()) return std::nullopt;
  const bool counts_retries = attempt.find("RETRY") < equals;
  return counts_retries ? number + 1 : number;
}

/// `diverged at aten::addmm`
std::string became(const HistoryEntry& entry) {
  if (entry.passed()) return "passed";
  std::string text = entry.status;
  std::ranges::replace(text, '_', ' ');
  if (entry.first) text += " at " + entry.first->name;
  return text;
}

}  // namespace

std::uint64_t agreed_in_a_row(std::span<const HistoryEntry> before,
                              const HistoryEntry& now,
                              const std::string& match) {
  std::uint64_t count = 0;
  const auto agreed = [&](const HistoryEntry& entry) {
    return outcome_in(entry, match) == expected_name(What::kAgreed);
  };
  if (!agreed(now) || !now.passed()) return 0;
  ++count;
  for (auto left = before; !left.empty(); left = left.first(left.size() - 1)) {
    const HistoryEntry& entry = left.back();
    if (!is_of_same_gate(entry, now)) continue;
    if (agreed(entry)) {
      if (entry.passed()) ++count;
      continue;
    }
    const bool says_nothing = outcome_in(entry, match)
                                  ? outcome_in(entry, match) == expected_name(What::kNotJudged)
                                  : was_not_judged(entry);
    if (!says_nothing) break;
  }
  return count;
}

std::string earlier_attempts(std::span<const HistoryEntry> before, const HistoryEntry& now) {
  const auto present = attempt_number(now.attempt);
  if (!present || now.commit.empty()) return {};
  std::map<std::uint64_t, const HistoryEntry*> last;
  for (const HistoryEntry& entry : before) {
    const auto number = attempt_number(entry.attempt);
    const bool is_of_job =
        entry.gate == now.gate && entry.commit == now.commit && entry.job == now.job;
    if (!number || *number >= *present || !is_of_job) continue;
    const HistoryEntry*& known = last[*number];
    // Jobs on several platforms may share a name, and a later attempt may get another machine.
    const bool is_closer = entry.platform == now.platform;
    if (known == nullptr || is_closer || known->platform != now.platform) known = &entry;
  }
  if (last.empty()) return {};
  std::string text = fmt::format("attempt {}", *present);
  for (const auto& [number, entry] : last) {
    text += fmt::format("; attempt {} {}", number, became(*entry));
  }
  return text;
}

void recall(std::span<const HistoryEntry> before, const HistoryEntry& now, GateOutcome& outcome) {
  for (comparators::ExpectedOutcome& entry : outcome.expected) {
    const std::uint64_t count = agreed_in_a_row(before, now, entry.match);
    if (count < 2) continue;
    entry.detail = fmt::format("{} gates in a row", count);
    if (count >= kAgreedLongEnough) entry.detail += ": take the entry out of /expected";
  }
  std::string attempts = earlier_attempts(before, now);
  if (!attempts.empty()) outcome.notes.push_back(std::move(attempts));
}

}  // namespace repro_check::cmd
