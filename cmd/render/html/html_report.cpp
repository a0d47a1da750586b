// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cmd/render/html/html_assets.h"
#include "cmd/render/html/html_page.h"
#include "cmd/render/html/html_static.h"
#include "cmd/render/json/op_json.h"
#include "cmd/render/json/report_json.h"
#include "cmd/render/render.h"

namespace repro_check::cmd {
namespace {

using comparators::OpErrors;
using comparators::OpRow;
using comparators::OpTrail;
using comparators::Report;

/// Operators that a page describes in full; the others have their row alone.
constexpr std::size_t kDescribedOperators = 1000;
/// Of those the ones with all samples and histograms, and how many samples the others keep.
constexpr std::size_t kWholeOperators = 200;
constexpr std::size_t kSamplesOfTrimmed = 2;

/// Takes what `describe` says of each of many items, a column a member: so a long table is small.
class ColumnWriter {
 public:
  static constexpr bool kReads = false;

  explicit ColumnWriter(Json& out) : out_(&out) {}
  template <typename T>
  void operator()(const char* key, const T& value) const {
    describe(JsonWriter((*out_)[key].emplace_back()), value);
  }

 private:
  Json* out_;
};

/// An op index or a place in another table; null for OpRow::kNone.
std::optional<std::uint32_t> known(std::uint32_t number) {
  return number == OpRow::kNone ? std::nullopt : std::optional(number);
}

/// Null for NaN, which stands for not known here.
std::optional<double> known(double value) {
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

void describe(ColumnWriter f, const comparators::OpPlace& place) {
  f("module", place.module_path);
  f("file", place.file);
  f("line", place.line);
}

void describe(ColumnWriter f, const OpRow& row) {
  f("baseline", known(row.baseline));
  f("candidate", known(row.candidate));
  f("op", row.op);
  f("place", row.place);
  f("type", row.type);
  f("errors", known(row.errors));
  f("producers", row.producers);
  f("first_producer", row.first_producer);
  f("state", static_cast<int>(row.state));
  f("phase", static_cast<int>(row.phase));
}

void describe(ColumnWriter f, const OpErrors& e) {
  f("abs", known(e.max_abs));
  f("rel", known(e.max_rel));
  f("l2", known(e.l2_rel));
  f("ulp", e.ulp_max);
  f("differing", e.differing);
  f("elements", e.elements);
  f("nan_baseline", e.nan_baseline);
  f("nan_candidate", e.nan_candidate);
  f("inf_baseline", e.inf_baseline);
  f("inf_candidate", e.inf_candidate);
}

void describe(ColumnWriter f, const comparators::TrailDraw& draw) {
  f("row_baseline", known(draw.row_baseline));
  f("row_candidate", known(draw.row_candidate));
  f("op", draw.op);
  f("baseline", draw.baseline);
  f("candidate", draw.candidate);
}

void describe(ColumnWriter f, const comparators::DifferenceMap& map) {
  f("op", map.op);
  f("slot", map.slot);
  f("rows", map.rows);
  f("columns", map.columns);
  f("leading", map.leading);
  f("row_blocks", map.row_blocks);
  f("column_blocks", map.column_blocks);
  f("differing", map.differing);
}

template <typename Item>
Json columns(const std::vector<Item>& items) {
  Json out;
  // Of no item there are the columns all the same.
  describe(ColumnWriter(out), Item{});
  for (Json& column : out) column.clear();
  for (const Item& item : items) describe(ColumnWriter(out), item);
  return out;
}

Json json_trail(const OpTrail& trail) {
  return {{"operators", json_of(trail.operators)},
          {"types", json_of(trail.types)},
          {"places", columns(trail.places)},
          {"rows", columns(trail.rows)},
          {"errors", columns(trail.errors)},
          {"producers", json_of(trail.producers)},
          {"draws", columns(trail.draws)},
          {"rows_total", json_integer(trail.rows_total)},
          {"draws_total", json_integer(trail.draws_total)}};
}

// What takes most room, of operators that hardly anybody will look at.
void trim(Json& item) {
  for (const char* role : {"outputs", "inputs"}) {
    for (Json& tensor : item[role]) {
      while (tensor["samples"].size() > kSamplesOfTrimmed) {
        tensor["samples"].erase(tensor["samples"].size() - 1);
      }
      if (tensor["metrics"].is_null()) continue;
      tensor["metrics"]["rel_hist"] = nullptr;
      tensor["metrics"]["rel_percentiles"] = nullptr;
    }
  }
}

/// What the scripts of a page are given of reports. The overview stands in front: a page shows it
/// before it has read the rest.
std::string data_elements(std::span<const Report> reports, const RenderOptions& options) {
  Json overviews = Json::array();
  Json details = Json::array();
  for (const Report& report : reports) {
    Json whole = json_report(report, options);
    // What changes from one rendering to the next, and what the page does not show.
    whole.erase("timing");
    whole.erase("missing");
    Json items = std::move(whole["divergences"]["items"]);
    whole["divergences"].erase("items");
    while (items.size() > kDescribedOperators) items.erase(items.size() - 1);
    for (std::size_t i = kWholeOperators; i < items.size(); ++i) trim(items[i]);
    const OpTrail* trail = report.trail.get();
    overviews.push_back(
        {{"report", std::move(whole)}, {"trail", trail ? json_trail(*trail) : Json()}});
    details.push_back(
        {{"items", std::move(items)}, {"maps", trail ? columns(trail->maps) : Json()}});
  }
  return html_data_element("data", overviews) + html_data_element("details", details);
}

}  // namespace

std::string render_html(std::span<const Report> reports, const RenderOptions& options) {
  HtmlPage page{headline(reports.front()), "", data_elements(reports, options), html_scripts()};
  for (std::size_t i = 0; i < reports.size(); ++i) {
    page.main += html_static(reports[i], i, options);
  }
  page.main += html_frame();
  return html_page(page);
}

}  // namespace repro_check::cmd
