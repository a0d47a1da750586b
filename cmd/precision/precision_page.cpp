// SPDX-License-Identifier: Apache-2.0
// Where digits are lost, as a page.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/precision/precision_view.h"
#include "cmd/render/html/html_page.h"
#include "cmd/render/say.h"
#include "cmd/render/text.h"
#include "cmd/words/catalogue.h"

namespace repro_check::cmd {
namespace {

/// Of the columns of a map of digits.
struct Cell {
  std::string name;
  double digits = 0;
};

/// More digits are drawn like these: float32 has 7.
constexpr int kMostShades = 8;

int shade_of(double digits) { return std::min(static_cast<int>(digits), kMostShades); }

/// One row of a map, with neighbours of one shade as one piece.
std::string strip(const std::vector<Cell>& cells) {
  std::string pieces;
  for (std::size_t first = 0; first < cells.size();) {
    std::size_t end = first + 1;
    double least = cells[first].digits;
    const int shade = shade_of(least);
    while (end < cells.size() && shade_of(cells[end].digits) == shade) {
      least = std::min(least, cells[end++].digits);
    }
    const std::string range =
        end == first + 1 ? cells[first].name : cells[first].name + " to " + cells[end - 1].name;
    pieces += fmt::format(
        "<rect class=\"shade-{}\" x=\"{}\" width=\"{}\" height=\"1\"><title>{}: {:.1f} "
        "digits</title></rect>",
        shade,
        first,
        end - first,
        range,
        least);
    first = end;
  }
  return fmt::format(
      "<svg class=\"strip\" role=\"img\" viewBox=\"0 0 {} 1\" "
      "preserveAspectRatio=\"none\">{}</svg>",
      cells.size(),
      pieces);
}

std::string map_row(const Json& module, const std::vector<Cell>& cells, const std::string& counts) {
  double least = cells.front().digits;
  for (const Cell& cell : cells) least = std::min(least, cell.digits);
  return fmt::format(
      "<tr><th scope=\"row\">{}</th><td class=\"number\">{:.1f}</td><td>{}</td><td "
      "class=\"number\">{}</td></tr>\n",
      html_text(module["module"].get<std::string>()),
      least,
      strip(cells),
      counts);
}

std::string legend() {
  std::string pieces;
  for (int shade = 0; shade <= kMostShades; ++shade) {
    pieces += fmt::format(
        "<span><svg class=\"key\" viewBox=\"0 0 1 1\"><rect class=\"shade-{}\" width=\"1\" "
        "height=\"1\"/></svg>{}{}</span>",
        shade,
        shade,
        shade == kMostShades ? " or more" : "");
  }
  return "<p class=\"hint shades\">digits left: " + pieces + "</p>\n";
}

std::string map_card(std::string_view title,
                     std::string_view columns,
                     std::string_view counts,
                     const std::string& rows) {
  if (rows.empty()) return {};
  return fmt::format(
      "<section class=\"card text digits-map\"><h2>{}</h2>\n{}{}</section>\n",
      title,
      legend(),
      html_table({"module", "least digits", std::string(columns), std::string(counts)}, rows));
}

/// Modules by steps, where there are several.
std::string map_of_steps(const Json& document) {
  std::set<std::uint32_t> steps;
  std::string rows;
  for (const Json& module : document["modules"]) {
    std::vector<Cell> cells;
    for (const Json& step : module["steps"]) {
      steps.insert(step["step"].get<std::uint32_t>());
      cells.push_back({fmt::format("step {}", step["step"].get<std::uint32_t>()), step["digits"]});
    }
    if (!cells.empty()) rows += map_row(module, cells, std::to_string(cells.size()));
  }
  if (steps.size() < 2) return {};
  return map_card("Modules by steps",
                  fmt::format("steps {} to {}", *steps.begin(), *steps.rbegin()),
                  "steps",
                  rows);
}

/// Modules by rows of their last output.
std::string map_of_rows(const Json& document) {
  std::string rows;
  for (const Json& module : document["modules"]) {
    const Json& digits = module["row_digits"];
    const auto count = module["rows"].get<std::uint64_t>();
    std::vector<Cell> cells;
    for (std::size_t i = 0; i < digits.size(); ++i) {
      cells.push_back({fmt::format("row {}", i * count / digits.size()), digits[i]});
    }
    if (!cells.empty()) rows += map_row(module, cells, format_count(count));
  }
  return map_card("Modules by rows of their output (tokens, samples)", "rows", "rows", rows);
}

std::string cell_text(const Json& value) {
  return value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump();
}

std::string places_card(const Json& document) {
  std::string rows;
  for (const Json& place : document["places"]) {
    rows += html_row({cell_text(place["share_text"]),
                      cell_text(place["at"]),
                      cell_text(place.value("source", Json())),
                      cell_text(place["operator"]),
                      cell_text(place["dtype"]),
                      place.contains("terms") ? cell_text(place["terms"]) : "",
                      cell_text(place["own_digits"])});
  }
  if (rows.empty()) return {};
  return "<section class=\"card text\"><h2>Where the error enters</h2>\n" +
         html_table({"share", "at", "line", "operator", "dtype", "terms", "digits of its rounding"},
                    rows) +
         "</section>\n";
}

std::string cuts_card(const Json& document) {
  std::string rows;
  for (const Json& cut : document["cuts"]) {
    rows += html_row(
        {cell_text(cut["op"]), cell_text(cut["operator"]), cell_text(cut["at"]), cut["why"]});
  }
  if (rows.empty()) return {};
  return "<section class=\"card text\"><h2>Where recorded values stand in</h2>\n" +
         html_table({"op", "operator", "at", "why"}, rows) + "</section>\n";
}

/// What the text says of the result and of the shadow.
std::string measured_card(const Json& document) {
  std::vector<std::pair<std::string_view, std::string>> facts;
  const std::vector<SaidLine> said = said_lines(view_lines("precision"), document);
  for (const SaidLine& line : said) {
    for (const std::string_view label : {"result", "farthest", "missing", "executed"}) {
      if (line.label == label) facts.emplace_back(line.label, line.body);
    }
  }
  return "<section class=\"card values\"><h2>What was measured</h2>" + html_facts(facts) +
         "</section>\n";
}

}  // namespace

std::string precision_page(const Json& document, const std::string& text) {
  const auto headline = document["headline"].get<std::string>();
  const std::size_t end = headline.find(' ');
  HtmlPage page{headline, "", "", {}};
  const bool is_fine = document["findings"].empty();
  page.main = fmt::format("<article class=\"{}\"><header>{}</header>\n",
                          document["exit_code"] != 0 ? "bad"
                          : is_fine                  ? "good"
                                                     : "trouble",
                          html_heading(headline.substr(0, end), headline.substr(end + 1)));
  std::string beside = measured_card(document);
  for (const Json& finding : document["findings"]) {
    HtmlAnswers answers;
    answers.title = finding["id"];
    answers.why = finding["text"];
    answers.fix = finding["fix"];
    page.main += html_answers(answers, std::exchange(beside, ""));
  }
  if (!beside.empty()) page.main += html_answers({}, beside);
  page.main += map_of_steps(document) + map_of_rows(document) + places_card(document) +
               cuts_card(document) + html_full_text(escape_lines(text)) + std::string(kHtmlEnd);
  return html_page(page);
}

}  // namespace repro_check::cmd
