// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/ranks/ranks_view.h"
#include "cmd/render/html/html_page.h"
#include "cmd/render/say.h"
#include "cmd/render/text.h"
#include "comparators/ranks/rank_reads.h"
#include "comparators/ranks/rank_roots.h"
#include "comparators/ranks/ranks.h"

namespace repro_check::cmd {
namespace {

using comparators::PartingRun;
using comparators::RankPartings;

/// Rows of the table, for readers without a script.
constexpr std::size_t kMostRows = 50;
/// Runs that a page holds of all ranks together: of a rank that has more, the later ones are told
/// as one.
constexpr std::size_t kMostPartings = 1'000'000;

/// Five numbers a run, of which the first counts from the end of the run before.
Json runs_json(std::span<const PartingRun> runs, std::size_t most) {
  Json list = Json::array();
  std::uint32_t end = 0;
  for (std::size_t i = 0; i < std::min(runs.size(), most); ++i) {
    const PartingRun& run = runs[i];
    const bool is_rest = i + 1 == most && runs.size() > most;
    const std::uint32_t steps =
        is_rest ? runs.back().first + runs.back().steps - run.first : run.steps;
    for (const std::uint64_t number : {std::uint64_t{run.first - end},
                                       std::uint64_t{steps},
                                       static_cast<std::uint64_t>(run.kind),
                                       run.op,
                                       is_rest ? 0 : run.stride}) {
      list.push_back(number);
    }
    end = run.first + steps;
  }
  return list;
}

Json kinds_json() {
  Json kinds = Json::array();
  for (std::size_t k = 0; k < comparators::kReplicaKinds; ++k) {
    const auto kind = static_cast<comparators::ReplicaKind>(k);
    kinds.push_back({{"name", comparators::replica_kind_name(kind)},
                     {"operator", comparators::record_of(kind)}});
  }
  return kinds;
}

Json map_json(const comparators::RankReads& reads,
              const std::vector<RankPartings>& partings,
              const Json& document) {
  std::map<std::uint32_t, const RankPartings*> parted;
  for (const RankPartings& each : partings) parted[each.rank] = &each;
  const std::size_t most = kMostPartings / std::max<std::size_t>(partings.size(), 1);
  std::size_t steps = 0;
  std::map<std::uint32_t, Json> rows;
  for (const comparators::RankRead& rank : reads.ranks) {
    const std::uint32_t number = rank.state.recording.rank;
    steps = std::max<std::size_t>(steps, rank.state.steps);
    const bool parts = parted.contains(number);
    const std::span<const PartingRun> runs =
        parts ? std::span<const PartingRun>(parted.at(number)->runs)
              : std::span<const PartingRun>();
    const char* state = !rank.state.is_read()               ? "cannot be read"
                        : !rank.state.last_operator.empty() ? "was cut short"
                        : !rank.state.raised.empty()        ? "ended by an exception"
                                                            : "";
    rows[number] = {{"rank", number},
                    {"dump", json_text(rank.state.recording.location)},
                    {"steps", rank.state.steps},
                    {"state", state},
                    {"whole", runs.size() <= most},
                    {"runs", runs_json(runs, most)}};
  }
  for (const std::uint32_t rank : document["absent"].get<std::vector<std::uint32_t>>()) {
    rows[rank] = {{"rank", rank},
                  {"dump", ""},
                  {"steps", 0},
                  {"state", "is absent"},
                  {"whole", true},
                  {"runs", Json::array()}};
  }
  Json ranks = Json::array();
  for (auto& [rank, row] : rows) ranks.push_back(std::move(row));
  return {{"steps", steps},
          {"kinds", kinds_json()},
          {"firsts", document["kinds"]},
          {"ranks", std::move(ranks)}};
}

std::string table(const std::vector<RankPartings>& partings) {
  if (partings.empty()) return {};
  std::string rows;
  for (const RankPartings& each : std::span(partings).first(std::min(partings.size(), kMostRows))) {
    const PartingRun& first = each.runs.front();
    std::size_t steps = 0;
    for (const PartingRun& run : each.runs) steps += run.steps;
    rows += html_row({std::to_string(each.rank),
                      std::to_string(first.first),
                      std::string(comparators::replica_kind_name(first.kind)),
                      std::to_string(first.op),
                      format_count(steps)});
  }
  std::string out = "<section class=\"card text\"><h2>Ranks that part</h2>\n" +
                    html_table({"rank", "first step", "what parts first", "op", "steps"}, rows);
  if (partings.size() > kMostRows) {
    out += fmt::format("<p class=\"hint\">and {} more</p>\n", partings.size() - kMostRows);
  }
  return out + "</section>\n";
}

std::string_view tone(const Json& document) {
  const int code = document["verdict"]["exit_code"];
  return code == 0 ? "good" : code == 1 ? "bad" : "trouble";
}

/// The cards of the page of a run, of what the text says.
std::string cards(const RanksBody& body, const Json& document) {
  HtmlAnswers answers;
  answers.commands = body.next;
  std::vector<std::pair<std::string_view, std::string>> others;
  for (const SaidLine& line : body.said) {
    if (line.label == "cause") {
      answers.title = document["cause"]["title"];
      answers.why = line.body;
    } else if (line.label == "code") {
      answers.code = line.body;
    } else if (line.label == "fix" && answers.fix.empty() &&
               (answers.title.empty() || others.empty())) {
      answers.fix = line.body;
    } else {
      others.emplace_back(line.label, line.body);
    }
  }
  return html_answers(answers,
                      "<section class=\"card values\"><h2>What was found</h2>" +
                          html_facts(others) + "</section>\n");
}

}  // namespace

std::string ranks_page(const comparators::RankReads& reads,
                       const RanksHeadline& headline,
                       const RanksBody& body,
                       const Json& document) {
  const std::vector<RankPartings> partings = partings_of(reads);
  HtmlPage page{headline.verdict + ": " + headline.text, "", "", html_rank_scripts()};
  page.main = fmt::format("<article class=\"{}\"><header>{}</header>\n",
                          tone(document),
                          html_heading(html_text(headline.verdict), headline.text));
  page.main += cards(body, document);
  page.main +=
      "<section class=\"card text\"><h2>Ranks by steps</h2>\n<div id=\"map\"><p class=\"hint\">The "
      "map is drawn by a script. Download the page and open it.</p></div>\n<div id=\"detail\" "
      "aria-live=\"polite\"></div></section>\n";
  page.main += table(partings) + html_full_text(escape_lines(headline.line() + body.text())) +
               std::string(kHtmlEnd);
  page.data = html_data_element("data", map_json(reads, partings, document));
  return html_page(page);
}

}  // namespace repro_check::cmd
