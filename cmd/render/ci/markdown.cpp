// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cmd/render/ci/alerts.h"
#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "cmd/words/causes.h"
#include "cmd/words/numbers_words.h"
#include "cmd/words/report_words.h"
#include "comparators/compare.h"

namespace repro_check::cmd {
namespace {

// A step's summary may have 1 MiB and a comment 65,536 characters; beyond it all of it is refused.
constexpr std::size_t kMostBytes = 60'000;
constexpr std::size_t kMostRows = 20;
constexpr std::size_t kMostSettings = 40;
constexpr std::size_t kMostVerdict = 4096;
constexpr std::size_t kMostCell = 200;

std::string cell(std::string_view text) { return markdown_code(fit(escape_name(text), kMostCell)); }

std::string verdict_block(const Report& report) {
  std::string text = shorten_bytes(headline(report), kMostVerdict) + "\n";
  const auto add = [&](const std::string& label, const std::string& line, std::size_t most) {
    if (!line.empty()) text += shorten_bytes(label + escape_name(line), most) + "\n";
  };
  for (const std::string& reason : unsaid_reasons(report)) {
    if (text.size() < kMostVerdict) add("", reason, kMostVerdict / 2);
  }
  if (report.first_divergence)
    add("", sentence_of(report.first_divergence->cause.evidence), kMostVerdict);
  add("returned: ", returned_text(report), kMostVerdict / 2);
  add("random: ", random_text(report), kMostVerdict / 2);
  for (const std::string& note : non_finite_of(report)) add("", note, kMostVerdict / 2);
  add("", mend_of(report), kMostVerdict);
  return markdown_block(text);
}

std::string coverage_line(const Report& report) {
  // Names of classes and modules stand in it.
  if (report.blocks) {
    const std::string text = fit(escape_name(blocks_text(report)), kMostVerdict);
    return fmt::format("Compared {}.\n", markdown_code(text));
  }
  const auto& c = report.coverage;
  const std::string not_judged =
      c.not_judged == 0 ? "" : fmt::format(", {} not judged", format_count(c.not_judged));
  return fmt::format("Compared {} of {}, {}; {} missing, {} skipped{}. Policy {}.\n",
                     format_count(c.compared),
                     format_count(std::max(c.baseline_ops, c.candidate_ops), compared_noun(report)),
                     format_bytes(c.bytes),
                     format_count(c.missing_in_baseline + c.missing_in_candidate),
                     format_count(c.skipped),
                     not_judged,
                     markdown_code(report.policy));
}

/// @param cells  as they stand, of the rows shown
std::string table(std::string_view heads,
                  const std::vector<std::vector<std::string>>& rows,
                  std::uint64_t total) {
  std::string out = fmt::format("{}\n", heads);
  for (const auto& cells : rows) out += fmt::format("| {} |\n", fmt::join(cells, " | "));
  if (total <= rows.size()) return out;
  return out + fmt::format("\n... and {} more.\n", format_count(total - rows.size()));
}

/// Causes in trace order, then what follows from them, as far as there is room.
std::string operator_table(const CiReport& view) {
  std::vector<std::vector<std::string>> rows;
  std::uint64_t total = 0;
  for (const bool consequence : {false, true}) {
    for (const Alert& alert : view.alerts) {
      const bool is_row = alert.subject == Subject::kOperator && !alert.is_excused();
      if (!is_row || alert.consequence != consequence || ++total > kMostRows) continue;
      const core::OpRecord& record = shown_record(*alert.op);
      const SourcePlace place = view.place_of(alert);
      rows.push_back({fmt::format("{}{}", index_owner(*alert.op), shown_index(*alert.op)),
                      cell(operator_text(record)),
                      cell(module_of(record)),
                      cell(place.is_call ? fmt::format("{}:{}", place.file, place.line) : ""),
                      cell(alert.message)});
    }
  }
  if (rows.empty()) return {};
  return table("\n| op | operator | module | source | differs |\n|---:|---|---|---|---|",
               rows,
               std::max(view.report.divergences_total, total));
}

/// What is on the gate's list, and what each entry did: in every case.
std::string expected_table(const GateOutcome* gate) {
  if (gate == nullptr || gate->expected.empty()) return {};
  std::vector<std::vector<std::string>> rows;
  for (const comparators::ExpectedOutcome& entry : gate->expected) {
    if (rows.size() == kMostRows) break;
    std::string operators;
    for (const OpDivergence& op : entry.found) {
      if (operators.size() > kMostCell) break;
      const core::OpRecord& record = shown_record(op);
      const std::string place = core::place_of(record.site.get());
      operators += (operators.empty() ? "" : ", ") + operator_text(record) +
                   (place.empty() ? "" : " (" + place + ")");
    }
    const std::string why = entry.issue.empty() ? entry.reason : entry.reason + ", " + entry.issue;
    rows.push_back({cell(entry.match),
                    cell(word_of(entry.what)),
                    operators.empty() ? "" : cell(operators),
                    cell(entry.expires),
                    cell(entry.owner),
                    cell(why)});
  }
  return table(
      "\n| expected divergence | outcome | operators | until | owner | reason |\n"
      "|---|---|---|---|---|---|",
      rows,
      gate->expected.size());
}

std::string settings_table(const Report& report) {
  std::vector<std::vector<std::string>> rows;
  for (const comparators::Difference& each : report.differences) {
    if (rows.size() == kMostSettings) break;
    rows.push_back({cell(each.pointer), cell(each.baseline), cell(each.candidate)});
  }
  if (rows.empty()) return {};
  const std::size_t total = report.differences.size();
  return fmt::format("\n<details><summary>{} {}</summary>\n\n{}\n</details>\n",
                     comparators::counted(total, "setting"),
                     total == 1 ? "differs" : "differ",
                     table("| setting | baseline | candidate |\n|---|---|---|", rows, total));
}

std::string commands(const Report& report, const DocumentOptions& options) {
  std::string text;
  for (const std::string& command : next_commands(report, options)) text += command + "\n";
  if (text.empty() || text.size() > kMostVerdict) return {};
  return fmt::format("\n{}", markdown_block(text));
}

/// The verdict and what was compared: what stands in every case.
std::string summary(const CiReport& view) {
  std::string out = fmt::format("<!-- repro-check:{}:{} -->\n### {} {}\n\n",
                                view.subject,
                                view.platform,
                                verdict_word(view.report.status),
                                markdown_code(view.subject));
  return out + verdict_block(view.report) + "\n" + coverage_line(view.report) +
         expected_table(view.gate);
}

std::string evidence(const CiReport& view) {
  if (comparators::exit_code_of(view.report) == core::ExitCode::kReproducible) return {};
  return operator_table(view) + settings_table(view.report) + commands(view.report, view.options);
}

}  // namespace

std::string render_markdown(std::span<const Report> reports, const DocumentOptions& options) {
  constexpr std::size_t kMost = kMostBytes - 200;  // for what is said at the end
  std::string out;
  std::size_t left = 0;
  for (const CiReport& view : ci_reports(reports, options)) {
    const std::string head = (out.empty() ? "" : "\n") + summary(view);
    if (out.size() + head.size() > kMost) {
      ++left;
      continue;
    }
    out += head;
    const std::string rest = evidence(view);
    out +=
        out.size() + rest.size() > kMost ? "\nThe operators are left out: too much text.\n" : rest;
  }
  if (left > 0)
    out += fmt::format("\n{} more: see the other reports.\n", format_count(left, "pair"));
  return out;
}

}  // namespace repro_check::cmd
