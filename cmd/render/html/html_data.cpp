// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/html/html_data.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "cmd/render/json/report_json.h"

namespace repro_check::cmd {
namespace {

using comparators::OpErrors;
using comparators::OpRow;
using comparators::OpTrail;

/// Described operators with all samples and histograms, and how many samples the others keep.
constexpr std::size_t kWholeOperators = 200;
constexpr std::size_t kSamplesOfTrimmed = 2;

Json texts(const std::vector<std::string>& values) {
  Json out = Json::array();
  for (const std::string& value : values) out.push_back(json_text(value));
  return out;
}

Json json_places(const OpTrail& trail) {
  Json modules = Json::array();
  Json files = Json::array();
  Json lines = Json::array();
  for (const comparators::OpPlace& place : trail.places) {
    modules.push_back(json_text(place.module_path));
    files.push_back(json_text(place.file));
    lines.push_back(place.line);
  }
  return {{"module", std::move(modules)}, {"file", std::move(files)}, {"line", std::move(lines)}};
}

// The distance of an op index from the row above, which is 1 most of the time; null where a side
// has none.
Json step(std::uint32_t index, std::int64_t& last) {
  if (index == OpRow::kNone) return nullptr;
  const std::int64_t distance = static_cast<std::int64_t>(index) - last;
  last = index;
  return distance;
}

Json json_rows(const OpTrail& trail) {
  Json baseline = Json::array();
  Json candidate = Json::array();
  Json op = Json::array();
  Json place = Json::array();
  Json type = Json::array();
  Json state = Json::array();
  Json phase = Json::array();
  Json producers = Json::array();
  std::int64_t last_baseline = -1;
  std::int64_t last_candidate = -1;
  for (const OpRow& row : trail.rows) {
    baseline.push_back(step(row.baseline, last_baseline));
    candidate.push_back(step(row.candidate, last_candidate));
    op.push_back(row.op);
    place.push_back(row.place);
    type.push_back(row.type);
    state.push_back(static_cast<int>(row.state));
    phase.push_back(static_cast<int>(row.phase));
    // How many, then how far back each of them is.
    producers.push_back(row.producers);
    for (std::uint32_t i = 0; i < row.producers; ++i) {
      producers.push_back(static_cast<std::int64_t>(row.shown()) -
                          static_cast<std::int64_t>(trail.producers[row.first_producer + i]));
    }
  }
  return {{"baseline", std::move(baseline)},
          {"candidate", std::move(candidate)},
          {"op", std::move(op)},
          {"place", std::move(place)},
          {"type", std::move(type)},
          {"state", std::move(state)},
          {"phase", std::move(phase)},
          {"producers", std::move(producers)}};
}

// Shortest text that reads back; null for NaN, which stands for not known here.
Json known(double value) { return std::isnan(value) ? Json(nullptr) : json_number(value); }

Json json_errors(const OpTrail& trail) {
  Json columns;
  for (const char* name : {"row",
                           "abs",
                           "rel",
                           "l2",
                           "ulp",
                           "differing",
                           "elements",
                           "nan_b",
                           "nan_c",
                           "inf_b",
                           "inf_c"}) {
    columns[name] = Json::array();
  }
  for (std::size_t i = 0; i < trail.rows.size(); ++i) {
    if (trail.rows[i].errors == OpRow::kNone) continue;
    const OpErrors& e = trail.errors[trail.rows[i].errors];
    columns["row"].push_back(i);
    columns["abs"].push_back(known(e.max_abs));
    columns["rel"].push_back(known(e.max_rel));
    columns["l2"].push_back(known(e.l2_rel));
    columns["ulp"].push_back(json_integer(e.ulp_max));
    columns["differing"].push_back(json_integer(e.differing));
    columns["elements"].push_back(json_integer(e.elements));
    columns["nan_b"].push_back(json_integer(e.nan_baseline));
    columns["nan_c"].push_back(json_integer(e.nan_candidate));
    columns["inf_b"].push_back(json_integer(e.inf_baseline));
    columns["inf_c"].push_back(json_integer(e.inf_candidate));
  }
  return columns;
}

Json json_generator(const std::optional<core::GeneratorUse>& use) {
  if (!use) return nullptr;
  return Json::array({json_text(use->device),
                      json_integer(use->seed),
                      fmt::format("{:016x}", use->position_before),
                      fmt::format("{:016x}", use->position_after),
                      json_integer(use->drawn)});
}

Json json_index(std::uint32_t index) { return index == OpRow::kNone ? Json(nullptr) : Json(index); }

Json json_draws(const OpTrail& trail) {
  Json items = Json::array();
  for (const comparators::TrailDraw& draw : trail.draws) {
    items.push_back(Json::array({json_index(draw.row_baseline),
                                 json_index(draw.row_candidate),
                                 draw.op,
                                 json_generator(draw.baseline),
                                 json_generator(draw.candidate)}));
  }
  return {{"total", json_integer(trail.draws_total)}, {"items", std::move(items)}};
}

Json json_maps(const OpTrail* trail) {
  Json out = Json::array();
  if (trail == nullptr) return out;
  for (const comparators::DifferenceMap& map : trail->maps) {
    Json counts = Json::array();
    for (const std::uint64_t count : map.differing) counts.push_back(json_integer(count));
    out.push_back(Json{{"op", json_integer(map.op)},
                       {"slot", json_text(map.slot)},
                       {"rows", json_integer(map.rows)},
                       {"columns", json_integer(map.columns)},
                       {"leading", json_integer(map.leading)},
                       {"row_blocks", map.row_blocks},
                       {"column_blocks", map.column_blocks},
                       {"differing", std::move(counts)}});
  }
  return out;
}

Json json_trail(const OpTrail* trail) {
  if (trail == nullptr) return nullptr;
  return {{"operators", texts(trail->operators)},
          {"types", texts(trail->types)},
          {"places", json_places(*trail)},
          {"total", json_integer(trail->rows_total)},
          {"rows", json_rows(*trail)},
          {"errors", json_errors(*trail)},
          {"draws", json_draws(*trail)}};
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

}  // namespace

HtmlData html_data(const comparators::Report& report, const RenderOptions& options) {
  Json whole = json_report(report, options);
  whole.erase("timing");
  whole.erase("missing");
  Json items = std::move(whole["divergences"]["items"]);
  whole["divergences"].erase("items");
  while (items.size() > kDescribedOperators) items.erase(items.size() - 1);
  for (std::size_t i = kWholeOperators; i < items.size(); ++i) trim(items[i]);
  const OpTrail* trail = report.trail.get();
  HtmlData data;
  data.overview = {{"report", std::move(whole)}, {"trail", json_trail(trail)}};
  data.details = {{"items", std::move(items)}, {"maps", json_maps(trail)}};
  return data;
}

}  // namespace repro_check::cmd
