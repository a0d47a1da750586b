// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>

#include "cmd/render/next_commands.h"
#include "cmd/render/page.h"
#include "cmd/render/render.h"
#include "cmd/render/text/report_sections.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

/// What a terminal shows at once, richest first.
constexpr auto kLevels = std::to_array<Detail>(
    {{}, {false, 3, 3, 5}, {false, 3, 2, 3}, {false, 2, 2, 2}, {false, 1, 2, 1}, {false, 0, 1, 1}});
constexpr Detail kEverything{true, 10, SIZE_MAX, SIZE_MAX};

Page page_with(const comparators::Report& report,
               const RenderOptions& options,
               const Detail& detail) {
  Page page;
  if (options.name_pair) page.prose("pair", dumps_text(report));
  page.append(returned_section(report));
  page.append(why_section(report, detail));
  page.append(passes_section(report));
  page.append(evidence_section(report, detail));
  page.append(spread_section(report, detail, options.all));
  page.append(runs_section(report, options.logs));
  page.append(list_section(report, options, detail));
  page.append(gate_section(options.gate, detail));
  page.append(coverage_section(report, detail));
  page.append(repeat_section(report, detail));
  if (detail.everything) page.append(verbose_section(report));
  return page;
}

/// Under its verdict; on a terminal the richest that fits its lines, where nobody asked for more.
std::string body_of(const comparators::Report& report,
                    const RenderOptions& options,
                    std::size_t lines) {
  const auto at = [&](const Detail& detail) {
    return page_with(report, options, detail)
        .str(options.color, options.link_host, options.columns);
  };
  if (options.verbosity > 0) return at(kEverything);
  if (options.all || options.top != kDefaultTop) {
    Detail detail;
    detail.listed = SIZE_MAX;
    return at(detail);
  }
  if (options.columns == 0) return at(kLevels.front());
  std::string text;
  for (const Detail& detail : kLevels) {
    text = at(detail);
    const auto taken = static_cast<std::size_t>(std::ranges::count(text, '\n'));
    if (taken + lines <= kDefaultReportLines) break;
  }
  return text;
}

}  // namespace

std::string render_text(const comparators::Report& report, const RenderOptions& options) {
  std::string out = verdict_line(report).str(options.color, options.link_host) + "\n";
  if (options.verbosity < 0) return out;
  const std::vector<std::string> commands = next_commands(report, options);
  out += body_of(report, options, 1 + commands.size());
  for (const std::string& command : commands) {
    out += Line("next: " + command, Role::kHint).str(options.color) + "\n";
  }
  return out;
}

}  // namespace repro_check::cmd
