// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "cmd/render/html/html_page.h"
#include "cmd/render/html/html_text.h"
#include "cmd/render/text.h"
#include "cmd/report/trend.h"

namespace repro_check::cmd {
namespace {

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
