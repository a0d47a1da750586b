// SPDX-License-Identifier: Apache-2.0
#include "cmd/gate/history.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "cmd/render/json/json_form.h"
#include "cmd/render/words.h"
#include "cmd/reports/report_flags.h"
#include "cmd/terminal/output.h"
#include "comparators/compare.h"
#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

constexpr std::string_view kHistoryFormat = "repro-check-history";
constexpr std::string_view kHistoryVersion = "1.1";

/// Values of those variables of the environment that are there and not empty.
std::vector<std::string> variables(std::initializer_list<const char*> names) {
  std::vector<std::string> values;
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') values.emplace_back(value);
  }
  return values;
}

std::string commit_now() {
  const auto named = variables({"GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "GIT_COMMIT"});
  return named.empty() ? commit_of_repository(repository_root()) : named.front();
}

/// What stays the same from one attempt of a job to the next.
std::string job_of_ci() {
  return fmt::format("{}",
                     fmt::join(variables({"GITHUB_WORKFLOW_REF",
                                          "GITHUB_RUN_ID",
                                          "GITHUB_JOB",
                                          "CI_PIPELINE_ID",
                                          "CI_JOB_NAME",
                                          "BUILDKITE_BUILD_ID",
                                          "BUILDKITE_STEP_ID"}),
                               " "));
}

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

bool is_hash(std::string_view text) {
  constexpr std::size_t kSha1 = 40;
  constexpr std::size_t kSha256 = 64;
  return (text.size() == kSha1 || text.size() == kSha256) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<HistoryOperator> operator_of(const Report& report) {
  if (!report.first_divergence) return std::nullopt;
  const core::OpRecord& record = shown_record(*report.first_divergence);
  return HistoryOperator{std::string(core::phase_name(record.phase)),
                         record.op == nullptr ? "" : record.op->full_name(),
                         record.site == nullptr ? "" : record.site->module_path,
                         report.first_divergence->occurrence};
}

std::optional<std::uint64_t> ulp_max_of(const Report& report) {
  std::optional<std::uint64_t> most;
  for (const OpDivergence* op : every_divergence(report)) {
    for (const comparators::TensorComparison& output : op->outputs) {
      if (!output.metrics || !output.metrics->ulp_max) continue;
      most = std::max(most.value_or(0), *output.metrics->ulp_max);
    }
  }
  return most;
}

void describe_exit_code(JsonWriter f, core::ExitCode code) { f.json() = static_cast<int>(code); }

void describe_exit_code(JsonReader f, core::ExitCode& code) {
  for (const core::ExitCode known : {core::ExitCode::kReproducible,
                                     core::ExitCode::kDivergence,
                                     core::ExitCode::kDumpUnusable,
                                     core::ExitCode::kNotComparable,
                                     core::ExitCode::kRunFailed}) {
    if (static_cast<int>(known) != f.json().get<int>()) continue;
    code = known;
    return;
  }
  f.refuse("no exit code of a gate");
}

/// @return why it is no entry; empty when it is one
std::string take_line(std::string_view line, History& into) {
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) return "it is no JSON, or was not written to its end";
  if (!json.is_object()) return "it is no JSON object";
  try {
    if (json.value("format", "") != kHistoryFormat) return "it is no entry of a history";
    const std::string version = json.value("version", "");
    if (!version.starts_with("1.")) return "its version is \"" + version + "\", and 1 is known";
    HistoryEntry entry;
    describe(JsonReader(json), entry);
    into.entries.push_back(std::move(entry));
    return {};
  } catch (const Json::exception&) {
    return "a member is missing, or of another type";
  } catch (const std::exception&) {
    return "a number in it is none that a gate writes";
  }
}

core::Error cannot_write(const std::filesystem::path& file) {
  return {core::ErrorKind::kIo,
          "cannot write " + file.string() + ": " + std::strerror(errno),
          "the gate has judged; its verdict is not in the history"};
}

/// Whether the file's last line lacks its newline.
bool ends_amid_line(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0 || status.st_size == 0) return false;
  char last = '\n';
  return ::pread(file, &last, 1, status.st_size - 1) == 1 && last != '\n';
}

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

/// In how many gates in a row, the present one included, an expected divergence agreed: passing
/// gates of its name on its platform. A gate that did not pass says nothing of it and is passed
/// over, unless the divergence happened there; one that did not ask ends the row.
/// @param match  of the entry, as ExpectedOutcome has it
std::uint64_t agreed_in_a_row(std::span<const HistoryEntry> before,
                              const HistoryEntry& now,
                              const std::string& match) {
  std::uint64_t count = 0;
  const auto agreed = [&](const HistoryEntry& entry) {
    return outcome_in(entry, match) == word_of(What::kAgreed);
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
                                  ? outcome_in(entry, match) == word_of(What::kNotJudged)
                                  : was_not_judged(entry);
    if (!says_nothing) break;
  }
  return count;
}

/// `attempt 2; attempt 1 diverged at aten::addmm`: what became of the earlier attempts of this job,
/// as the history has them; empty where there was none.
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

}  // namespace

DESCRIBE(HistoryOperator, MEMBER(phase) NAMED("operator", name) MEMBER(module) MEMBER(occurrence))

DESCRIBE(HistoryExpected, MEMBER(match) MEMBER(outcome))

void describe(auto f, Of<decltype(f), HistoryEntry>& it) {
  f.derived("format", [] { return Json(kHistoryFormat); });
  f.derived("version", [] { return Json(kHistoryVersion); });
  f MEMBER(time) MEMBER(gate) TEXT(commit) TEXT(attempt) NAMED_TEXT("platform_key", platform)
      MEMBER(status);
  describe_exit_code(f.at("exit_code"), it.exit_code);
  f MEMBER(compared) MEMBER(origins) MEMBER(first) MEMBER(ulp_max);
  // Since version 1.1.
  if (f.has("job", true)) f TEXT(job);
  if (f.has("expected", true)) f MEMBER(expected);
}
template void describe(JsonWriter, const HistoryOperator&);
template void describe(JsonWriter, const HistoryEntry&);
template void describe(JsonReader, HistoryEntry&);

HistoryEntry history_entry(const GateResult& result) {
  const Report& report = result.reports.front();
  HistoryEntry entry;
  entry.time = core::utc_now();
  entry.gate = result.outcome.gate;
  entry.commit = commit_now();
  entry.attempt = result.outcome.attempt;
  entry.platform = result.outcome.key;
  entry.status = word_of(report.status);
  entry.exit_code = comparators::exit_code_of(report);
  entry.compared = report.coverage.compared;
  entry.origins = report.coverage.origins;
  entry.first = operator_of(report);
  entry.ulp_max = ulp_max_of(report);
  entry.job = job_of_ci();
  for (const comparators::ExpectedOutcome& each : result.outcome.expected) {
    entry.expected.push_back({each.match, std::string(word_of(each.what))});
  }
  return entry;
}

std::string to_line(const HistoryEntry& entry) { return to_document(json_of(entry), false); }

History parse_history(std::string_view text) {
  History history;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    std::string why = take_line(line, history);
    if (!why.empty()) history.damaged.push_back({number, std::move(why)});
  }
  return history;
}

void append_history(const std::filesystem::path& file, const HistoryEntry& entry) {
  constexpr mode_t kMode = 0644;
  const int descriptor = ::open(file.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, kMode);
  if (descriptor < 0) throw cannot_write(file);
  const std::string line = (ends_amid_line(descriptor) ? "\n" : "") + to_line(entry);
  const ssize_t written = ::write(descriptor, line.data(), line.size());
  if (written >= 0 && static_cast<std::size_t>(written) != line.size()) errno = ENOSPC;
  std::optional<core::Error> failure;
  if (written != std::ssize(line)) failure = cannot_write(file);
  if (::close(descriptor) != 0 && !failure) failure = cannot_write(file);
  if (failure) throw core::Error(*failure);
}

void require_appendable(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored) || std::filesystem::is_directory(file, ignored)) {
    require_report_place(file, true);
  } else if (::access(file.c_str(), R_OK | W_OK) != 0) {
    throw usage_error("cannot write " + file.string() + ": " + std::strerror(errno));
  }
}

std::string commit_of_repository(const std::filesystem::path& root) {
  const std::filesystem::path git = root / ".git";
  std::string head = first_line(git / "HEAD");
  if (is_hash(head)) return head;
  constexpr std::string_view kReference = "ref: ";
  if (!head.starts_with(kReference)) return {};
  const std::string name = head.substr(kReference.size());
  std::string loose = first_line(git / name);
  if (is_hash(loose)) return loose;
  std::ifstream packed(git / "packed-refs");
  for (std::string line; std::getline(packed, line);) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || line.substr(space + 1) != name) continue;
    std::string hash = line.substr(0, space);
    if (is_hash(hash)) return hash;
  }
  return {};
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
