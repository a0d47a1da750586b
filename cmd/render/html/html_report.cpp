// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/render/html/html_page.h"
#include "cmd/render/json/report_json.h"
#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "cmd/words/causes.h"
#include "cmd/words/finding_words.h"
#include "cmd/words/numbers_words.h"
#include "cmd/words/report_words.h"
#include "comparators/compare.h"
#include "core/trace/given_seed.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {
namespace {

using comparators::OpTrail;
using comparators::TrailRow;

/// Operators that a page lists for browsers that run no script in it.
constexpr std::size_t kStaticOperators = 50;

std::string_view tone(const Report& report) {
  const Role role = verdict_role(report.status);
  return role == Role::kGood ? "good" : (role == Role::kBad ? "bad" : "trouble");
}

// The first word of the line apart, so that it can be a badge.
std::string verdict_heading(const Report& report) {
  const std::string line = headline(report);
  const std::string word = verdict_word(report.status);
  if (!line.starts_with(word)) return "<h1>" + html_text(line) + "</h1>\n";
  std::string_view rest = std::string_view(line).substr(word.size());
  if (rest.starts_with(": ")) rest.remove_prefix(2);
  return html_heading(word, rest) + "\n";
}

std::string facts(const Report& report) {
  const comparators::Coverage& c = report.coverage;
  const std::string all =
      format_count(std::max(c.baseline_ops, c.candidate_ops), compared_noun(report));
  return html_facts(
      {{"compared", report.blocks ? blocks_text(report) : format_count(c.compared) + " of " + all},
       {"missing", format_count(c.missing_in_baseline + c.missing_in_candidate)},
       {"skipped", format_count(c.skipped)},
       {"not judged", c.not_judged > 0 ? format_count(c.not_judged) : ""},
       {"tensors", format_count(c.tensors) + ", " + format_bytes(c.bytes)},
       {"policy", report.policy},
       {"exit code", fmt::format("{}", static_cast<int>(comparators::exit_code_of(report)))}});
}

/// What takes a sentence to say.
std::string sentences(const Report& report) {
  const std::string changed = report.numbers ? changed_text(*report.numbers) : "";
  const std::string said = html_facts({{"operators", changed},
                                       {"returned", returned_text(report)},
                                       {"ranks", ranks_text(report)},
                                       {"training", training_text(report)},
                                       {"data", data_text(report)},
                                       {"program", program_text(report)},
                                       {"random", random_text(report)}});
  return said.empty() ? said : "<section class=\"card said\">" + said + "</section>\n";
}

/// The first elements that differ of the tensor that the verdict is about.
std::string values(const Report& report) {
  constexpr std::size_t kShown = 5;
  std::string of;
  std::vector<std::vector<std::string>> rows;
  if (is_from_named(report) && !report.named_tensors.empty()) {
    of = report.named_tensors.front().name;
    rows = sample_rows(report.named_tensors.front().samples, kShown);
  } else if (report.first_divergence) {
    if (const auto* output = leading_output(*report.first_divergence)) {
      const core::TensorRecord& tensor = output->baseline;
      of = "output " + tensor.slot + ", " + format_tensor_type(tensor.dtype, tensor.shape);
      rows = sample_rows(output->samples, kShown);
    }
  }
  const std::optional<Line> parting = parting_line(report);
  if (rows.empty() && !parting) return {};
  std::string out = "<section class=\"card values\"><h2>First divergence</h2>";
  if (parting) out += "<p>" + html_text(parting->raw()) + "</p>";
  if (!rows.empty()) {
    const std::string body =
        joined(std::span(rows).subspan(1), "", [](const auto& row) { return html_row(row); });
    out += "<h3>" + html_text(of) + "</h3>" + html_table(rows.front(), body);
  }
  return out + "</section>\n";
}

std::string answers(const Report& report, const RenderOptions& options) {
  HtmlAnswers answers;
  if (report.first_divergence &&
      report.first_divergence->cause.kind != comparators::CauseKind::kNone) {
    const FindingText text = words_of(report.first_divergence->cause);
    answers.title = text.title;
    answers.why = text.evidence;
    answers.code = code_text(report);
  }
  answers.reasons = texts_of(report.reasons);
  answers.fix = fix_of(report);
  answers.commands = next_commands(report, options);
  return html_answers(answers, values(report));
}

bool is_manifest_known(const RunSummary& run) {
  return run.manifest.trace.operators > 0 || !run.manifest.settings.empty();
}

/// What hardly anybody looks for, to be opened.
std::string html_folded(const std::string& summary,
                        const std::vector<std::string>& heads,
                        const std::string& rows) {
  if (rows.empty()) return {};
  return "<details><summary>" + summary + "</summary>" + html_table(heads, rows) + "</details>";
}

// Those that are expected to differ, and change no numbers, are folded.
std::string differences(const Report& report) {
  const std::vector<std::string> heads{"setting", "baseline", "candidate"};
  std::string rows;
  std::string mild;
  for (const comparators::Difference& d : report.differences) {
    (d.affects_numbers ? rows : mild) += html_row({d.pointer, d.baseline, d.candidate}, true);
  }
  for (const comparators::NamedTensorDifference& tensor : report.named_tensors) {
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td colspan=\"2\">{}</td></tr>\n",
                        html_text(tensor.name),
                        html_text(amount_text(tensor)));
  }
  const bool is_known = !report.runs.empty() && std::ranges::all_of(report.runs, is_manifest_known);
  const std::string_view none = !is_known ? "Not known: a run has left no record of its settings."
                                : mild.empty() ? "None: the runs were set up alike."
                                               : "None that changes numbers.";
  return "<section class=\"card\"><h2>Differing settings</h2>" +
         (rows.empty() ? fmt::format("<p>{}</p>", none) : html_table(heads, rows)) +
         html_folded(fmt::format("{} that change no numbers", std::ranges::count(mild, '\n')),
                     heads,
                     mild) +
         "</section>\n";
}

std::vector<std::pair<std::string_view, std::string>> run_facts(const RunSummary& run) {
  const core::RunManifest& m = run.manifest;
  const bool is_known = is_manifest_known(run);
  const auto known = [&](const std::string& text) { return is_known ? text : ""; };
  return {{"dump", run.location},
          {"status", run.status},
          {"message", run.message},
          {"operators", known(format_count(m.trace.operator_calls()))},
          {"device", known(m.device)},
          {"threads", core::text_or_empty(core::used_setting(m, "threads.intra_op"))},
          {"seed", known(core::given_seed_text(m))},
          {"determinism", known(m.determinism)},
          {"level", known(m.trace.level)},
          {"LibTorch", core::text_or_empty(core::environment_fact(m, "libtorch.version"))},
          {"CPU", core::text_or_empty(core::environment_fact(m, "cpu.model"))}};
}

// Rows of facts, columns of runs; those that are alike are folded.
std::string runs(const Report& report) {
  if (report.runs.empty()) return {};
  std::vector<std::vector<std::pair<std::string_view, std::string>>> sides;
  std::vector<std::string> heads{""};
  for (const RunSummary& run : report.runs) {
    sides.push_back(run_facts(run));
    heads.push_back(html_text(run.name));
  }
  std::string apart;
  std::string alike;
  std::vector<std::string> alike_ones;
  for (std::size_t i = 0; i < sides.front().size(); ++i) {
    const std::string name(sides.front()[i].first);
    std::vector<std::string> cells{name};
    for (const auto& side : sides) cells.push_back(side[i].second);
    const auto is_first = [&](const std::string& cell) { return cell == cells[1]; };
    const bool is_alike = std::all_of(cells.begin() + 1, cells.end(), is_first);
    if (is_alike && cells[1].empty()) continue;
    (is_alike ? alike : apart) += html_row(cells, true);
    if (is_alike) alike_ones.push_back(name);
  }
  return "<section class=\"card\"><h2>Runs</h2>" + (apart.empty() ? "" : html_table(heads, apart)) +
         html_folded("alike: " + joined(alike_ones, ", "), heads, alike) + "</section>\n";
}

std::string operators(const Report& report) {
  std::vector<const OpDivergence*> listed = every_divergence(report);
  listed.resize(std::min(listed.size(), kStaticOperators));
  const std::string rows = joined(listed, "", [](const OpDivergence* op) {
    const core::OpRecord& record = shown_record(*op);
    const auto* output = leading_output(*op);
    return html_row({fmt::format("{}{}", index_owner(*op), shown_index(*op)),
                     std::string(word_of(op->relation)),
                     operator_text(record),
                     core::place_of(record.site.get()),
                     output == nullptr ? "" : amount_text(*output)});
  });
  const std::uint64_t total = std::max<std::uint64_t>(report.divergences_total, listed.size());
  const std::string left = format_count(total - listed.size());
  return "<div class=\"fallback\"><p>No script has run in this page: download the file and open it "
         "from disk to see the timeline, the module tree and every operator.</p>\n" +
         (rows.empty() ? ""
                       : html_table({"op", "state", "operator", "place", "by how much"}, rows)) +
         (total > listed.size() ? "<p>and " + left + " more</p>\n" : "") + "</div>\n";
}

std::string full_text(const Report& report, const RenderOptions& options) {
  RenderOptions plain = options;
  plain.verbosity = 1;
  plain.color = false;
  plain.all = false;
  plain.top = kDefaultTop;
  plain.name_pair = false;
  return html_full_text(render_text(report, plain));
}

std::string warnings(const Report& report) {
  std::vector<std::string> listed = warnings_of(report);
  const std::size_t total = listed.size();
  listed.resize(std::min(listed.size(), kMostWarnings));
  const std::size_t left = total - listed.size();
  if (left > 0) {
    listed.push_back("... and " + format_count(left) + " more: the JSON report holds them");
  }
  return html_list(
      "<section class=\"card warnings\"><h2>Warnings</h2><ul>", listed, "</ul></section>\n");
}

/// Operators that a page describes in full; the others have their row alone.
constexpr std::size_t kDescribedOperators = 1000;
/// Of those the ones with all samples and histograms, and how many samples the others keep.
constexpr std::size_t kWholeOperators = 200;
constexpr std::size_t kSamplesOfTrimmed = 2;

/// An op index or a place in another table; null for TrailRow::kNone.
std::optional<std::uint32_t> known(std::uint32_t number) {
  return number == TrailRow::kNone ? std::nullopt : std::optional(number);
}

/// Null for NaN, which stands for not known here.
std::optional<double> known(double value) {
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

}  // namespace

// Looked up by what they describe, and so in no anonymous namespace.

void describe(ColumnWriter f, const comparators::OpPlace& it) {
  f NAMED("module", module_path) MEMBER(file) MEMBER(line);
}

void describe(ColumnWriter f, const TrailRow& it) {
  f("baseline", known(it.baseline));
  f("candidate", known(it.candidate));
  f MEMBER(op) MEMBER(place) MEMBER(type);
  f("errors", known(it.errors));
  f MEMBER(producers) MEMBER(first_producer);
  f("state", static_cast<int>(it.state));
  f MEMBER(step);
  f("phase", static_cast<int>(it.phase));
}

void describe(ColumnWriter f, const comparators::OpErrors& it) {
  f("abs", known(it.max_abs));
  f("rel", known(it.max_rel));
  f("l2", known(it.l2_rel));
  f NAMED("ulp", ulp_max) MEMBER(differing) MEMBER(elements) MEMBER(nan_baseline)
      MEMBER(nan_candidate) MEMBER(inf_baseline) MEMBER(inf_candidate);
}

void describe(ColumnWriter f, const comparators::TrailDraw& it) {
  f("row_baseline", known(it.row_baseline));
  f("row_candidate", known(it.row_candidate));
  f MEMBER(op) MEMBER(baseline) MEMBER(candidate);
}

void describe(ColumnWriter f, const comparators::DifferenceMap& it) {
  f MEMBER(op) MEMBER(slot) MEMBER(rows) MEMBER(columns) MEMBER(leading) MEMBER(row_blocks)
      MEMBER(column_blocks) MEMBER(differing);
}

namespace {

Json json_trail(const OpTrail& trail) {
  return {{"operators", json_of(trail.operators)},
          {"types", json_of(trail.types)},
          {"places", json_of(Columns{trail.places})},
          {"rows", json_of(Columns{trail.rows})},
          {"errors", json_of(Columns{trail.errors})},
          {"producers", json_of(trail.producers)},
          {"draws", json_of(Columns{trail.draws})},
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
    whole.erase("warnings");
    whole.erase("findings");
    Json items = std::move(whole["divergences"]["items"]);
    whole["divergences"].erase("items");
    while (items.size() > kDescribedOperators) items.erase(items.size() - 1);
    for (std::size_t i = kWholeOperators; i < items.size(); ++i) trim(items[i]);
    const OpTrail* trail = report.trail.get();
    overviews.push_back(
        {{"report", std::move(whole)}, {"trail", trail ? json_trail(*trail) : Json()}});
    details.push_back(
        {{"items", std::move(items)}, {"maps", trail ? json_of(Columns{trail->maps}) : Json()}});
  }
  return html_data_element("data", overviews) + html_data_element("details", details);
}

std::string resumed(const Report& report) {
  if (!report.resume) return {};
  std::string rows;
  for (const comparators::RestoredState& state : report.resume->states) {
    const bool is_right = state.outcome == comparators::Restored::kRight;
    rows += html_row({std::string(comparators::state_name(state.kind)),
                      std::string(comparators::restored_name(state.outcome)),
                      is_right ? format_count(state.items, "item") : restored_text(state)},
                     true);
  }
  return fmt::format("<section class=\"card\"><h2>Resumed at step {}</h2><p>{}</p>{}</section>\n",
                     report.resume->step,
                     html_text(checkpoint_text(*report.resume)),
                     html_table({"state", "restored", "at its first use"}, rows));
}

/// What a page says of a report before any script has run.
/// @param number  of the report in its page, from 0
std::string html_static(const Report& report, std::size_t number, const RenderOptions& options) {
  std::string out = fmt::format(
      "<article class=\"report {}\" id=\"report-{}\">\n<header>\n", tone(report), number);
  out += verdict_heading(report) + "</header>\n";
  out += answers(report, options) + facts(report);
  out += "<div class=\"settings\">\n" + sentences(report) + resumed(report) + differences(report) +
         runs(report) + "</div>\n";
  out += warnings(report) + operators(report) + full_text(report, options);
  return out + "</article>\n";
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
