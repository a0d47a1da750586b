// SPDX-License-Identifier: Apache-2.0
#include "cmd/report/trend.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "cmd/render/html/html_page.h"
#include "cmd/render/json/json_form.h"
#include "cmd/render/page.h"
#include "cmd/render/text.h"

namespace repro_check::cmd {
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
    if (found == trend.firsts.end()) {
      found = trend.firsts.insert(found, FirstCount{*entry.first, 0});
    }
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

void add_trend(Page& page, const Trend& trend, std::size_t last, bool all) {
  page.prose("gate",
             trend.platform.empty()
                 ? fmt::format("{}, of no platform", trend.gate)
                 : fmt::format("{} on {}", trend.gate, short_hash(trend.platform)),
             2);
  page.prose("runs", runs_text(trend), 3);
  page.prose("streak", streak_text(trend), 2);
  const std::size_t shown = all ? trend.firsts.size() : std::min(kShownFirsts, trend.firsts.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const FirstCount& each = trend.firsts[i];
    page.prose(i == 0 ? "first" : "",
               fmt::format("in {}: {}", format_count(each.runs, "run"), operator_text(each.first)),
               2);
  }
  if (shown < trend.firsts.size()) {
    page.prose("", fmt::format("... and {} more: --all", trend.firsts.size() - shown), 1);
  }
  for (const std::string& commit : trend.undecided) {
    page.prose(commit == trend.undecided.front() ? "undecided" : "",
               fmt::format("{} passed in one run and diverged in another", short_hash(commit)),
               2);
  }
  bool is_first = true;
  for (const HistoryEntry& entry : newest(trend, last)) {
    page.prose(is_first ? "last" : "", entry_text(entry), 2);
    is_first = false;
  }
}

Line headline(const std::string& file,
              const std::vector<Trend>& trends,
              const std::vector<DamagedLine>& damaged) {
  Line line("HISTORY");
  line.put(" " + passed_text(file, trends));
  if (!damaged.empty()) line.put(unreadable_text(damaged), Role::kTrouble);
  return line;
}

Json json_operator(const HistoryOperator& op) {
  return {{"phase", json_text(op.phase)},
          {"operator", json_text(op.name)},
          {"module", json_text(op.module)},
          {"occurrence", json_integer(op.occurrence)}};
}

Json json_trend(const Trend& trend, std::size_t last) {
  Json firsts = Json::array();
  for (const FirstCount& each : trend.firsts) {
    Json item = json_operator(each.first);
    item["runs"] = json_integer(each.runs);
    firsts.push_back(std::move(item));
  }
  Json undecided = Json::array();
  for (const std::string& commit : trend.undecided) undecided.push_back(json_text(commit));
  Json entries = Json::array();
  for (const HistoryEntry& entry : newest(trend, last)) {
    entries.push_back(Json::parse(to_line(entry)));
  }
  Json out;
  out["gate"] = json_text(trend.gate);
  out["platform_key"] = json_text_or_null(trend.platform);
  out["runs"] = trend.entries.size();
  out["passed"] = json_integer(trend.passed);
  out["diverged"] = json_integer(trend.diverged);
  out["not_judged"] = json_integer(trend.entries.size() - trend.passed - trend.diverged);
  out["streak"] = Json{{"passed", trend.entries.back().passed()},
                       {"runs", json_integer(trend.streak)},
                       {"longest_passed", json_integer(trend.longest_passed)},
                       {"longest_not_passed", json_integer(trend.longest_not_passed)}};
  out["first_divergences"] = std::move(firsts);
  out["undecided_commits"] = std::move(undecided);
  out["last"] = std::move(entries);
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
  Json time = Json::array();
  Json commit = Json::array();
  Json status = Json::array();
  Json outcome = Json::array();
  Json ulp = Json::array();
  Json first = Json::array();
  for (const HistoryEntry& entry : trend.entries) {
    time.push_back(json_text(entry.time));
    commit.push_back(json_text(entry.commit));
    status.push_back(json_text(entry.status));
    outcome.push_back(outcome_of(entry));
    ulp.push_back(json_integer(entry.ulp_max));
    first.push_back(json_text(entry.first ? operator_text(*entry.first) : ""));
  }
  return {{"time", std::move(time)},
          {"commit", std::move(commit)},
          {"status", std::move(status)},
          {"outcome", std::move(outcome)},
          {"ulp", std::move(ulp)},
          {"first", std::move(first)}};
}

std::string fact(std::string_view name, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, html_text(value));
}

std::string facts(const Trend& trend) {
  const std::size_t runs = trend.entries.size();
  std::string out = "<dl class=\"facts\">\n";
  out += fact("runs", format_count(runs));
  out +=
      fact("passed",
           fmt::format("{} ({})", format_count(trend.passed), format_percent(trend.passed, runs)));
  out += fact("diverged", format_count(trend.diverged));
  out += fact("not judged", format_count(runs - trend.passed - trend.diverged));
  out += fact(
      trend.entries.back().passed() ? "passed in a row until now" : "not passed in a row until now",
      format_count(trend.streak));
  out += fact("most in a row",
              fmt::format("{} passed, {} not",
                          format_count(trend.longest_passed),
                          format_count(trend.longest_not_passed)));
  out += fact("from", trend.entries.front().time);
  out += fact("to", trend.entries.back().time);
  return out + "</dl>\n";
}

std::string table(std::string_view heads, const std::string& rows) {
  return fmt::format(
      "<div class=\"scroll\"><table><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div>\n",
      heads,
      rows);
}

std::string head(std::string_view name) { return fmt::format("<th scope=\"col\">{}</th>", name); }

std::string cell(const std::string& text) { return "<td>" + html_text(text) + "</td>"; }

std::string firsts(const Trend& trend) {
  if (trend.firsts.empty()) return {};
  std::string rows;
  const std::size_t shown = std::min(kFirsts, trend.firsts.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const FirstCount& each = trend.firsts[i];
    rows += "<tr>" + cell(format_count(each.runs)) + cell(each.first.name) +
            cell(each.first.module) + cell(each.first.phase) + "</tr>\n";
  }
  std::string out = "<h3>What diverged first</h3>\n" +
                    table(head("runs") + head("operator") + head("module") + head("phase"), rows);
  if (shown < trend.firsts.size()) {
    out += fmt::format("<p class=\"note\">... and {} more</p>\n", trend.firsts.size() - shown);
  }
  return out;
}

std::string undecided(const Trend& trend) {
  if (trend.undecided.empty()) return {};
  std::string items;
  for (const std::string& commit : trend.undecided) {
    items += "<li><code>" + html_text(commit) + "</code></li>\n";
  }
  return "<h3>Commits that passed in one run and diverged in another</h3>\n<ul>" + items +
         "</ul>\n";
}

std::string newest_runs(const Trend& trend, std::size_t last) {
  const std::span<const HistoryEntry> shown = newest(trend, last);
  std::string rows;
  for (std::size_t i = shown.size(); i-- > 0;) {
    const HistoryEntry& entry = shown[i];
    rows += "<tr>" + cell(entry.time) + cell(short_hash(entry.commit)) + cell(entry.status) +
            cell(format_count(entry.compared)) + cell(format_count(entry.origins)) +
            cell(entry.ulp_max ? format_ulp(*entry.ulp_max) : "") +
            cell(entry.first ? operator_text(*entry.first) : "") + cell(entry.attempt) + "</tr>\n";
  }
  std::string heads;
  for (const char* name : {"time",
                           "commit",
                           "status",
                           "compared",
                           "origins",
                           "max ULP",
                           "first divergence",
                           "attempt"}) {
    heads += head(name);
  }
  std::string out = "<h3>Newest runs</h3>\n" + table(heads, rows);
  if (shown.size() < trend.entries.size()) {
    out += fmt::format("<p class=\"note\">{} of {} runs; --last N lists more</p>\n",
                       format_count(shown.size()),
                       format_count(trend.entries.size()));
  }
  return out;
}

std::string section(const Trend& trend, std::size_t number, std::size_t last) {
  const std::string name = trend.platform.empty()
                               ? trend.gate + ", of no platform"
                               : trend.gate + " on " + short_hash(trend.platform);
  return fmt::format("<section class=\"card trend\"><h2>{}</h2>\n", html_text(name)) +
         facts(trend) + fmt::format("<div class=\"trend-plot\" id=\"plot-{}\"></div>\n", number) +
         undecided(trend) + firsts(trend) + newest_runs(trend, last) + "</section>\n";
}

std::string unreadable(const std::vector<DamagedLine>& damaged) {
  if (damaged.empty()) return {};
  std::string items;
  const std::size_t shown = std::min(kDamaged, damaged.size());
  for (std::size_t i = 0; i < shown; ++i) {
    items += fmt::format("<li>line {}: {}</li>\n", damaged[i].number, html_text(damaged[i].why));
  }
  if (shown < damaged.size()) {
    items += fmt::format("<li>... and {} more</li>\n", damaged.size() - shown);
  }
  return "<section class=\"card\"><h2>Unreadable lines</h2>\n<ul>" + items + "</ul></section>\n";
}

}  // namespace

std::string short_hash(const std::string& hash) {
  return hash.empty() ? std::string("-") : hash.substr(0, kShortHash);
}

std::string operator_text(const HistoryOperator& op) {
  return op.module.empty() ? op.name : fmt::format("{} ({})", op.name, op.module);
}

std::span<const HistoryEntry> newest(const Trend& trend, std::size_t last) {
  const std::span<const HistoryEntry> all(trend.entries);
  return all.last(std::min(last, all.size()));
}

std::string passed_text(const std::string& file, const std::vector<Trend>& trends) {
  std::uint64_t runs = 0;
  std::uint64_t passed = 0;
  for (const Trend& trend : trends) {
    runs += trend.entries.size();
    passed += trend.passed;
  }
  return fmt::format("{}: {} of {} passed ({})",
                     file,
                     format_count(passed),
                     format_count(runs, "gate run"),
                     format_percent(passed, runs));
}

std::string unreadable_text(const std::vector<DamagedLine>& damaged) {
  if (damaged.empty()) return {};
  return fmt::format(", {} unreadable", format_count(damaged.size(), "line"));
}

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

std::string trend_text(const std::string& file,
                       const std::vector<Trend>& trends,
                       const std::vector<DamagedLine>& damaged,
                       std::size_t last,
                       const RenderOptions& options) {
  std::string text = headline(file, trends, damaged).str(options.color) + "\n";
  if (options.verbosity < 0) return text;
  for (const Trend& trend : trends) {
    Page page;
    add_trend(page, trend, last, options.all);
    if (trends.size() > 1) text += "\n";
    text += page.str(options.color, {}, options.columns);
  }
  Page page;
  const std::size_t shown = options.all ? damaged.size() : std::min(kShownDamaged, damaged.size());
  for (std::size_t i = 0; i < shown; ++i) {
    page.prose(i == 0 ? "unreadable" : "",
               fmt::format("line {}: {}", damaged[i].number, damaged[i].why),
               2);
  }
  if (shown < damaged.size()) {
    page.prose("", fmt::format("... and {} more: --all", damaged.size() - shown), 1);
  }
  return text + page.str(options.color, {}, options.columns);
}

std::string trend_json(const std::string& file,
                       const std::vector<Trend>& trends,
                       const std::vector<DamagedLine>& damaged,
                       std::size_t last,
                       const RenderOptions& options) {
  Json gates = Json::array();
  for (const Trend& trend : trends) gates.push_back(json_trend(trend, last));
  Json lines = Json::array();
  for (const DamagedLine& each : damaged) {
    lines.push_back(Json{{"line", each.number}, {"why", json_text(each.why)}});
  }
  Json out;
  out["format"] = "repro-check-trend";
  out["version"] = "1.0";
  out["file"] = json_text(file);
  out["headline"] = json_text(headline(file, trends, damaged).raw());
  out["gates"] = std::move(gates);
  out["unreadable"] = std::move(lines);
  return to_document(out, options.pretty_json);
}

std::string trend_html(const std::string& file,
                       const std::vector<Trend>& trends,
                       const std::vector<DamagedLine>& damaged,
                       std::size_t last) {
  const std::string rest = passed_text(file, trends) + unreadable_text(damaged);
  HtmlPage page{fmt::format("{} {}", kWord, rest), "", "", html_history_scripts()};
  page.main = fmt::format(
      "<article class=\"{}\"><header><h1><span class=\"word\">{}</span> <span "
      "class=\"rest\">{}</span></h1></header>\n",
      tone(trends),
      kWord,
      html_text(rest));
  Json data = Json::array();
  for (const Trend& trend : trends) {
    page.main += section(trend, data.size(), last);
    data.push_back(plot_data(trend));
  }
  page.main +=
      unreadable(damaged) +
      "</article>\n<footer>Made by repro-check. This page loads nothing and sends nothing. "
      "It is no stable interface: programs read `--format json`.</footer>\n";
  page.data = html_data_element("data", data);
  return html_page(page);
}

}  // namespace repro_check::cmd
