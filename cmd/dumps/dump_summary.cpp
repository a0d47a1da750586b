// SPDX-License-Identifier: Apache-2.0
#include "cmd/dumps/dump_summary.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cmd/recording/progress.h"
#include "cmd/render/json/json_text.h"
#include "cmd/render/text.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/output.h"
#include "core/error.h"

namespace repro_check::cmd {

namespace {

std::string dump_summary(const DumpMaking& making, const core::TraceSummary& trace) {
  if (making.format == "json") {
    Json document;
    document["format"] = "repro-check-recording";
    document["version"] = "1.0";
    document["dump"] = clean_utf8(making.dump);
    document["operators"] = trace.operator_calls();
    document["tensors"] = trace.tensors;
    document["bytes"] = trace.stored_bytes;
    document["partial"] = nullptr;
    if (trace.partial) {
      document["partial"] = {{"reason", clean_utf8(trace.partial->reason)},
                             {"last", trace.partial->last},
                             {"unfinished", trace.partial->unfinished.size()},
                             {"lost_contents", trace.partial->lost_contents}};
    }
    return to_document(document, false);
  }
  std::string text = fmt::format("{} {}, {}, {}: {}\n",
                                 making.word,
                                 format_count(trace.operator_calls(), "operator"),
                                 format_count(trace.tensors, "tensor"),
                                 format_bytes(trace.stored_bytes),
                                 escape_name(making.dump));
  if (!trace.partial) return text;
  text += fmt::format("  partial    {}\n", escape_name(trace.partial->reason));
  if (!trace.partial->unfinished.empty()) {
    text += fmt::format("  unfinished {}\n",
                        format_count(trace.partial->unfinished.size(), "operator"));
  }
  if (trace.partial->lost_contents != 0) {
    text += fmt::format("  lost       the bytes of {}\n",
                        format_count(trace.partial->lost_contents, "content"));
  }
  return text;
}

}  // namespace

core::ExitCode make_dump(const GlobalOptions& globals,
                         const DumpMaking& making,
                         const MakeDump& make) {
  Progress progress(progress_style(globals, stderr_is_terminal(), &std::getenv), stderr);
  progress.begin(1, 0, "");
  try {
    const core::TraceSummary trace = make([&](std::uint64_t done, std::uint64_t total) {
      progress.share(
          making.phase, done, total, [](std::uint64_t count) { return format_count(count); });
    });
    progress.clear();
    write_stdout(dump_summary(making, trace));
    return core::ExitCode::kReproducible;
  } catch (const core::Error& error) {
    const auto report = unreadable_dump(making.recording, error);
    if (!report) throw;
    progress.clear();
    const std::vector<comparators::Report> reports{*report};
    write_stdout(render_reports(
        reports, ReportStyle{making.format, render_options(globals, stdout_is_terminal())}));
    return worst_exit(reports);
  }
}

}  // namespace repro_check::cmd
