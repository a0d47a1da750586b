// SPDX-License-Identifier: Apache-2.0
#include "cmd/gate/history.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "cmd/render/html/html_page.h"
#include "cmd/render/json/json_form.h"
#include "cmd/render/page.h"
#include "cmd/render/text.h"
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
std::vector<std::string> variables(std::string_view names) {
  std::vector<std::string> values;
  for (const std::string_view name : core::split(names, ' ')) {
    const char* value = std::getenv(std::string(name).c_str());
    if (value != nullptr && *value != '\0') values.emplace_back(value);
  }
  return values;
}

std::string commit_now() {
  const auto named = variables("GITHUB_SHA CI_COMMIT_SHA BUILDKITE_COMMIT GIT_COMMIT");
  return named.empty() ? commit_of_repository(repository_root()) : named.front();
}

/// What stays the same from one attempt of a job to the next.
std::string job_of_ci() {
  constexpr std::string_view kNames =
      "GITHUB_WORKFLOW_REF GITHUB_RUN_ID GITHUB_JOB CI_PIPELINE_ID CI_JOB_NAME BUILDKITE_BUILD_ID "
      "BUILDKITE_STEP_ID";
  return fmt::format("{}", fmt::join(variables(kNames), " "));
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
  return core::io_error("cannot write " + file.string() + ": " + std::strerror(errno),
                        "the gate has judged; its verdict is not in the history");
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
  const auto number =
      core::parse_number<std::uint64_t>(std::string_view(attempt).substr(equals + 1));
  const bool counts_retries = attempt.find("RETRY") < equals;
  return number && counts_retries ? *number + 1 : number;
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

namespace {

constexpr std::size_t kShownFirsts = 5;
constexpr std::size_t kShownDamaged = 10;
constexpr std::size_t kShortHash = 8;

void count(Trend& trend, HistoryEntry entry) {
  const bool is_alike = !trend.entries.empty() && trend.entries.back().passed() == entry.passed();
  trend.streak = is_alike ? trend.streak + 1 : 1;
  std::uint64_t& longest = entry.passed() ? trend.longest_passed : trend.longest_not_passed;
  longest = std::max(longest, trend.streak);
  if (entry.passed()) ++trend.passed;
  if (entry.exit_code == core::ExitCode::kDivergence) ++trend.diverged;
  if (entry.first) {
    auto found = std::ranges::find(trend.firsts, *entry.first, &FirstCount::first);
    if (found == trend.firsts.end()) found = trend.firsts.insert(found, {*entry.first, 0});
    ++found->runs;
  }
  trend.entries.push_back(std::move(entry));
}

std::vector<std::string> undecided_commits(const Trend& trend) {
  struct Seen {
    bool passed = false;
    bool diverged = false;
  };
  std::map<std::string_view, Seen> seen;
  for (const HistoryEntry& entry : trend.entries) {
    Seen& commit = seen[entry.commit];
    commit.passed = commit.passed || entry.passed();
    commit.diverged = commit.diverged || entry.exit_code == core::ExitCode::kDivergence;
  }
  std::vector<std::string> commits;
  for (const HistoryEntry& entry : trend.entries) {
    const Seen& commit = seen[entry.commit];
    const bool is_new = std::ranges::find(commits, entry.commit) == commits.end();
    if (!entry.commit.empty() && commit.passed && commit.diverged && is_new) {
      commits.push_back(entry.commit);
    }
  }
  return commits;
}

/// The first characters of a hash; `-` for none.
std::string short_hash(const std::string& hash) {
  return hash.empty() ? std::string("-") : hash.substr(0, kShortHash);
}

/// `aten::addmm (encoder)`
std::string operator_text(const HistoryOperator& op) {
  return op.module.empty() ? op.name : fmt::format("{} ({})", op.name, op.module);
}

/// The newest runs, at most so many; the last one last. Borrowed.
std::span<const HistoryEntry> newest(const Trend& trend, std::size_t last) {
  const std::span<const HistoryEntry> all(trend.entries);
  return all.last(std::min(last, all.size()));
}

/// `gate.jsonl: 3 of 8 gate runs passed (38 %)`
std::string passed_text(const TrendView& view) {
  std::uint64_t runs = 0;
  std::uint64_t passed = 0;
  for (const Trend& trend : view.trends) {
    runs += trend.entries.size();
    passed += trend.passed;
  }
  return fmt::format("{}: {} of {} passed ({})",
                     view.file,
                     format_count(passed),
                     format_count(runs, "gate run"),
                     format_percent(passed, runs));
}

/// `, 1 line unreadable`; empty where all could be read.
std::string unreadable_text(const std::vector<DamagedLine>& damaged) {
  if (damaged.empty()) return {};
  return fmt::format(", {} unreadable", format_count(damaged.size(), "line"));
}

std::string runs_text(const Trend& trend) {
  const std::size_t runs = trend.entries.size();
  return fmt::format("{} from {} to {}: {} passed ({}), {} diverged, {} not judged",
                     format_count(runs),
                     trend.entries.front().time,
                     trend.entries.back().time,
                     format_count(trend.passed),
                     format_percent(trend.passed, runs),
                     format_count(trend.diverged),
                     format_count(runs - trend.passed - trend.diverged));
}

std::string streak_text(const Trend& trend) {
  return fmt::format("{} {} in a row until now; at most {} passed and {} not",
                     format_count(trend.streak),
                     trend.entries.back().passed() ? "passed" : "not passed",
                     format_count(trend.longest_passed),
                     format_count(trend.longest_not_passed));
}

std::string entry_text(const HistoryEntry& entry) {
  std::string text = fmt::format("{}  {:<8}  {:<16} {} compared",
                                 entry.time,
                                 short_hash(entry.commit),
                                 entry.status,
                                 format_count(entry.compared));
  if (entry.origins > 0) text += fmt::format(", {}", format_count(entry.origins, "origin"));
  if (entry.ulp_max) text += fmt::format(", max {} ULP", format_ulp(*entry.ulp_max));
  if (!entry.attempt.empty()) text += ", " + entry.attempt;
  if (entry.first) text += ", " + operator_text(*entry.first);
  return text;
}

std::string name_of(const Trend& trend) {
  return trend.platform.empty() ? trend.gate + ", of no platform"
                                : trend.gate + " on " + short_hash(trend.platform);
}

/// The first so many, and how many are left.
std::vector<std::string> cut(std::vector<std::string> texts,
                             std::size_t most,
                             std::string_view how = "") {
  if (texts.size() <= most) return texts;
  const std::string left = fmt::format("... and {} more{}", texts.size() - most, how);
  texts.resize(most);
  texts.push_back(left);
  return texts;
}

std::vector<std::string> damaged_texts(const TrendView& view) {
  std::vector<std::string> texts;
  for (const auto& [number, why] : view.damaged) {
    texts.push_back(fmt::format("line {}: {}", number, why));
  }
  return texts;
}

std::uint64_t not_judged(const Trend& trend) {
  return trend.entries.size() - trend.passed - trend.diverged;
}

void add_trend(Page& page, const Trend& trend, std::size_t last, bool all) {
  page.prose("gate", name_of(trend));
  page.prose("runs", runs_text(trend));
  page.prose("streak", streak_text(trend));
  std::vector<std::string> texts;
  for (const auto& [first, runs] : trend.firsts) {
    texts.push_back(fmt::format("in {}: {}", format_count(runs, "run"), operator_text(first)));
  }
  page.list("first", cut(std::move(texts), all ? SIZE_MAX : kShownFirsts, ": --all"));
  texts.clear();
  for (const std::string& commit : trend.undecided) {
    texts.push_back(short_hash(commit) + " passed in one run and diverged in another");
  }
  page.list("undecided", texts);
  texts.clear();
  for (const HistoryEntry& entry : newest(trend, last)) texts.push_back(entry_text(entry));
  page.list("last", texts);
}

Line trend_headline(const TrendView& view) {
  Line line("HISTORY");
  line.put(" " + passed_text(view));
  if (!view.damaged.empty()) line.put(unreadable_text(view.damaged), Role::kTrouble);
  return line;
}

Json json_trend(const Trend& it, std::size_t last) {
  const std::span<const HistoryEntry> shown = newest(it, last);
  Json out;
  const JsonWriter f(out);
  f MEMBER(gate) NAMED_TEXT("platform_key", platform)("runs", it.entries.size()) MEMBER(passed);
  f MEMBER(diverged)("not_judged", not_judged(it));
  f.at("streak")("passed", it.entries.back().passed()) NAMED("runs", streak) MEMBER(longest_passed)
      MEMBER(longest_not_passed);
  f.at("first_divergences").items(it.firsts, [](JsonWriter item, const FirstCount& each) {
    describe(item, each.first);
    item("runs", each.runs);
  });
  f NAMED("undecided_commits", undecided)("last", std::vector(shown.begin(), shown.end()));
  return out;
}

constexpr std::size_t kFirsts = 50;
constexpr std::size_t kDamaged = 100;
constexpr std::string_view kWord = "HISTORY";

int outcome_of(const HistoryEntry& entry) {
  if (entry.passed()) return 0;
  return entry.exit_code == core::ExitCode::kDivergence ? 1 : 2;
}

/// Good when the last run of every gate passed, bad when one diverged.
std::string_view tone(const std::vector<Trend>& trends) {
  int worst = 0;
  for (const Trend& trend : trends) {
    const int outcome = outcome_of(trend.entries.back());
    if (outcome != 0 && worst != 1) worst = outcome;
  }
  return worst == 0 ? "good" : (worst == 1 ? "bad" : "trouble");
}

/// Columns, by run.
Json plot_data(const Trend& trend) {
  Json columns;
  for (const HistoryEntry& entry : trend.entries) {
    columns["time"].push_back(json_text(entry.time));
    columns["commit"].push_back(json_text(entry.commit));
    columns["status"].push_back(json_text(entry.status));
    columns["outcome"].push_back(outcome_of(entry));
    columns["ulp"].push_back(json_of(entry.ulp_max));
    columns["first"].push_back(json_text(entry.first ? operator_text(*entry.first) : ""));
  }
  return columns;
}

std::string firsts(const Trend& trend) {
  if (trend.firsts.empty()) return {};
  const std::span shown = std::span(trend.firsts).first(std::min(kFirsts, trend.firsts.size()));
  const std::string rows = joined(shown, "", [](const FirstCount& each) {
    return html_row(
        {format_count(each.runs), each.first.name, each.first.module, each.first.phase});
  });
  return "<h3>What diverged first</h3>\n" +
         html_table({"runs", "operator", "module", "phase"}, rows) +
         (shown.size() == trend.firsts.size()
              ? ""
              : fmt::format("<p class=\"note\">... and {} more</p>\n",
                            trend.firsts.size() - shown.size()));
}

std::string newest_runs(const Trend& trend, std::size_t last) {
  const std::span<const HistoryEntry> shown = newest(trend, last);
  std::string rows;
  for (std::size_t i = shown.size(); i-- > 0;) {
    const HistoryEntry& entry = shown[i];
    rows += html_row({entry.time,
                      short_hash(entry.commit),
                      entry.status,
                      format_count(entry.compared),
                      format_count(entry.origins),
                      entry.ulp_max ? format_ulp(*entry.ulp_max) : "",
                      entry.first ? operator_text(*entry.first) : "",
                      entry.attempt});
  }
  const std::string_view heads =
      "time|commit|status|compared|origins|max ULP|first divergence|attempt";
  std::vector<std::string> names;
  for (std::size_t i = 0; i < word_count(heads); ++i) names.emplace_back(word_at(heads, i));
  std::string out = "<h3>Newest runs</h3>\n" + html_table(names, rows);
  if (shown.size() < trend.entries.size()) {
    out += fmt::format("<p class=\"note\">{} of {} runs; --last N lists more</p>\n",
                       format_count(shown.size()),
                       format_count(trend.entries.size()));
  }
  return out;
}

std::string section(const Trend& trend, std::size_t number, std::size_t last) {
  return fmt::format("<section class=\"card trend\"><h2>{}</h2>\n", html_text(name_of(trend))) +
         html_facts({{"runs", runs_text(trend)}, {"streak", streak_text(trend)}}) +
         fmt::format("<div class=\"trend-plot\" id=\"plot-{}\"></div>\n", number) +
         html_list("<h3>Commits that passed in one run and diverged in another</h3>\n<ul>",
                   trend.undecided,
                   "</ul>\n") +
         firsts(trend) + newest_runs(trend, last) + "</section>\n";
}

}  // namespace

std::vector<Trend> trends_of(const History& history, const std::optional<std::string>& gate) {
  std::vector<Trend> trends;
  for (const HistoryEntry& entry : history.entries) {
    if (gate && entry.gate != *gate) continue;
    auto found = std::ranges::find_if(trends, [&](const Trend& trend) {
      return trend.gate == entry.gate && trend.platform == entry.platform;
    });
    if (found == trends.end()) {
      found = trends.insert(found, Trend{});
      found->gate = entry.gate;
      found->platform = entry.platform;
    }
    count(*found, entry);
  }
  for (Trend& trend : trends) {
    std::ranges::stable_sort(trend.firsts, std::ranges::greater{}, &FirstCount::runs);
    trend.undecided = undecided_commits(trend);
  }
  return trends;
}

std::string trend_text(const TrendView& view, const RenderOptions& options) {
  std::string text = trend_headline(view).str(options.color) + "\n";
  if (options.verbosity < 0) return text;
  for (const Trend& trend : view.trends) {
    Page page;
    add_trend(page, trend, view.last, options.all);
    if (view.trends.size() > 1) text += "\n";
    text += page.str(options.color, {}, options.columns);
  }
  Page page;
  page.list("unreadable",
            cut(damaged_texts(view), options.all ? SIZE_MAX : kShownDamaged, ": --all"));
  return text + page.str(options.color, {}, options.columns);
}

std::string trend_json(const TrendView& view, const RenderOptions& options) {
  Json gates = Json::array();
  for (const Trend& trend : view.trends) gates.push_back(json_trend(trend, view.last));
  Json lines = Json::array();
  for (const DamagedLine& each : view.damaged) {
    lines.push_back(Json{{"line", each.number}, {"why", json_text(each.why)}});
  }
  return to_document({{"format", "repro-check-trend"},
                      {"version", "1.0"},
                      {"file", json_text(view.file)},
                      {"headline", json_text(trend_headline(view).raw())},
                      {"gates", std::move(gates)},
                      {"unreadable", std::move(lines)}},
                     options.pretty_json);
}

std::string trend_html(const TrendView& view) {
  const std::string rest = passed_text(view) + unreadable_text(view.damaged);
  HtmlPage page{fmt::format("{} {}", kWord, rest), "", "", html_history_scripts()};
  page.main = fmt::format(
      "<article class=\"{}\"><header>{}</header>\n", tone(view.trends), html_heading(kWord, rest));
  Json data = Json::array();
  for (const Trend& trend : view.trends) {
    page.main += section(trend, data.size(), view.last);
    data.push_back(plot_data(trend));
  }
  page.main += html_list("<section class=\"card\"><h2>Unreadable lines</h2>\n<ul>",
                         cut(damaged_texts(view), kDamaged),
                         "</ul></section>\n");
  page.main += kHtmlEnd;
  page.data = html_data_element("data", data);
  return html_page(page);
}

}  // namespace repro_check::cmd
