// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "cmd/gate/history.h"
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

/// @param most  so many of them, unless `all`
void add_list(Page& page,
              std::string_view label,
              std::vector<std::string> texts,
              std::size_t most,
              bool all) {
  const std::size_t left = all || texts.size() <= most ? 0 : texts.size() - most;
  texts.resize(texts.size() - left);
  if (left != 0) texts.push_back(fmt::format("... and {} more: --all", left));
  page.list(label, texts);
}

void add_trend(Page& page, const Trend& trend, std::size_t last, bool all) {
  page.prose("gate", name_of(trend));
  page.prose("runs", runs_text(trend));
  page.prose("streak", streak_text(trend));
  std::vector<std::string> texts;
  for (const auto& [first, runs] : trend.firsts) {
    texts.push_back(fmt::format("in {}: {}", format_count(runs, "run"), operator_text(first)));
  }
  add_list(page, "first", std::move(texts), kShownFirsts, all);
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

Json json_trend(const Trend& trend, std::size_t last) {
  Json firsts = Json::array();
  for (const auto& [first, runs] : trend.firsts) {
    firsts.push_back(json_of(first));
    firsts.back()["runs"] = json_integer(runs);
  }
  const std::span<const HistoryEntry> shown = newest(trend, last);
  return {{"gate", json_text(trend.gate)},
          {"platform_key", json_text_or_null(trend.platform)},
          {"runs", trend.entries.size()},
          {"passed", json_integer(trend.passed)},
          {"diverged", json_integer(trend.diverged)},
          {"not_judged", json_integer(trend.entries.size() - trend.passed - trend.diverged)},
          {"streak",
           {{"passed", trend.entries.back().passed()},
            {"runs", json_integer(trend.streak)},
            {"longest_passed", json_integer(trend.longest_passed)},
            {"longest_not_passed", json_integer(trend.longest_not_passed)}}},
          {"first_divergences", std::move(firsts)},
          {"undecided_commits", json_of(trend.undecided)},
          {"last", json_of(std::vector(shown.begin(), shown.end()))}};
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
    columns["ulp"].push_back(json_integer(entry.ulp_max));
    columns["first"].push_back(json_text(entry.first ? operator_text(*entry.first) : ""));
  }
  return columns;
}

std::string facts(const Trend& trend) {
  const std::size_t runs = trend.entries.size();
  std::string out = "<dl class=\"facts\">\n";
  out += html_fact("runs", format_count(runs));
  out += html_fact(
      "passed",
      fmt::format("{} ({})", format_count(trend.passed), format_percent(trend.passed, runs)));
  out += html_fact("diverged", format_count(trend.diverged));
  out += html_fact("not judged", format_count(runs - trend.passed - trend.diverged));
  out += html_fact(
      trend.entries.back().passed() ? "passed in a row until now" : "not passed in a row until now",
      format_count(trend.streak));
  out += html_fact("most in a row",
                   fmt::format("{} passed, {} not",
                               format_count(trend.longest_passed),
                               format_count(trend.longest_not_passed)));
  out += html_fact("from", trend.entries.front().time);
  out += html_fact("to", trend.entries.back().time);
  return out + "</dl>\n";
}

std::string table(std::string_view heads, const std::string& rows) {
  return fmt::format(
      "<div class=\"scroll\"><table><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div>\n",
      heads,
      rows);
}

std::string row(std::initializer_list<std::string> cells) {
  std::string out = "<tr>";
  for (const std::string& cell : cells) out += "<td>" + html_text(cell) + "</td>";
  return out + "</tr>\n";
}

std::string firsts(const Trend& trend) {
  if (trend.firsts.empty()) return {};
  std::string rows;
  const std::size_t shown = std::min(kFirsts, trend.firsts.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [first, runs] = trend.firsts[i];
    rows += row({format_count(runs), first.name, first.module, first.phase});
  }
  std::string out = "<h3>What diverged first</h3>\n" +
                    table(html_heads({"runs", "operator", "module", "phase"}), rows);
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
    rows += row({entry.time,
                 short_hash(entry.commit),
                 entry.status,
                 format_count(entry.compared),
                 format_count(entry.origins),
                 entry.ulp_max ? format_ulp(*entry.ulp_max) : "",
                 entry.first ? operator_text(*entry.first) : "",
                 entry.attempt});
  }
  const std::string heads = html_heads({"time",
                                        "commit",
                                        "status",
                                        "compared",
                                        "origins",
                                        "max ULP",
                                        "first divergence",
                                        "attempt"});
  std::string out = "<h3>Newest runs</h3>\n" + table(heads, rows);
  if (shown.size() < trend.entries.size()) {
    out += fmt::format("<p class=\"note\">{} of {} runs; --last N lists more</p>\n",
                       format_count(shown.size()),
                       format_count(trend.entries.size()));
  }
  return out;
}

std::string section(const Trend& trend, std::size_t number, std::size_t last) {
  return fmt::format("<section class=\"card trend\"><h2>{}</h2>\n", html_text(name_of(trend))) +
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
  std::vector<std::string> texts;
  for (const auto& [number, why] : view.damaged) {
    texts.push_back(fmt::format("line {}: {}", number, why));
  }
  add_list(page, "unreadable", std::move(texts), kShownDamaged, options.all);
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
  page.main +=
      unreadable(view.damaged) +
      "</article>\n<footer>Made by repro-check. This page loads nothing and sends nothing. "
      "It is no stable interface: programs read `--format json`.</footer>\n";
  page.data = html_data_element("data", data);
  return html_page(page);
}

}  // namespace repro_check::cmd
