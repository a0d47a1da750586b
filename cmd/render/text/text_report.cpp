// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "cmd/render/next_commands.h"
#include "cmd/render/page.h"
#include "cmd/render/render.h"
#include "cmd/render/text/list_section.h"
#include "cmd/render/text/report_sections.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

constexpr std::size_t kNoLimit = 1000000;
constexpr std::size_t kLeastListRoom = 3;

bool has_line_limit(const RenderOptions& options) {
  return !options.all && options.verbosity <= 0 && options.top == kDefaultTop;
}

struct Draft {
  Page front;
  Page back;
  std::size_t lines = 0;
};

Draft draft_with(const comparators::Report& report,
                 const RenderOptions& options,
                 const Detail& detail) {
  Draft draft;
  if (options.name_pair) {
    draft.front.prose("pair", dumps_text(report), 2);
  }
  draft.front.append(returned_section(report, detail));
  draft.front.append(why_section(report, detail));
  draft.front.append(passes_section(report, detail));
  draft.front.append(evidence_section(report, detail));
  draft.front.append(spread_section(report, detail, options.all));
  draft.front.append(runs_section(report, options.logs, detail));
  draft.back = gate_section(options.gate, detail);
  draft.back.append(coverage_section(report, detail));
  draft.back.append(repeat_section(report, detail));
  if (detail.everything) {
    draft.back.append(verbose_section(report));
  }
  draft.lines = 1 + draft.front.size() + draft.back.size();
  return draft;
}

// The richest draft that leaves `lines` free for the rest of the report.
Draft fitting_draft(const comparators::Report& report,
                    const RenderOptions& options,
                    std::size_t lines) {
  constexpr std::array<Detail, 5> kLevels = {{
      {false, 3, 3, 2},
      {false, 3, 2, 2},
      {false, 2, 2, 1},
      {false, 1, 2, 1},
      {false, 0, 1, 1},
  }};
  Draft draft;
  for (const Detail& detail : kLevels) {
    draft = draft_with(report, options, detail);
    if (draft.lines + lines <= kDefaultReportLines) {
      return draft;
    }
  }
  const std::size_t others = draft.lines - draft.front.size() + lines;
  draft.front.shorten(kDefaultReportLines - std::min(kDefaultReportLines - 1, others));
  draft.lines = 1 + draft.front.size() + draft.back.size();
  return draft;
}

}  // namespace

std::string render_text(const comparators::Report& report, const RenderOptions& options) {
  std::string first = verdict_line(report).str(options.color, options.link_host) + "\n";
  if (options.verbosity < 0) {
    return first;
  }
  const std::vector<std::string> commands = next_commands(report, options);
  const bool has_list = report.divergences_total > 1 || !report.divergences.empty();
  const std::size_t least = commands.size() + (has_list ? kLeastListRoom : 0);
  Draft draft = options.verbosity > 0 ? draft_with(report, options, {true})
                                      : fitting_draft(report, options, least);
  std::size_t room = kNoLimit;
  if (has_line_limit(options)) {
    const std::size_t taken = draft.lines + commands.size();
    room = kDefaultReportLines - std::min(kDefaultReportLines - kLeastListRoom, taken);
  }
  draft.front.append(list_section(report, options, room));
  draft.front.append(draft.back);
  std::string out = first + draft.front.str(options.color, options.link_host);
  for (const std::string& command : commands) {
    out += Line("next: " + command, Role::kHint).str(options.color) + "\n";
  }
  return out;
}

}  // namespace repro_check::cmd
