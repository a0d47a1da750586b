// SPDX-License-Identifier: Apache-2.0
#include "cmd/dumps/pack_summary.h"

#include <fmt/format.h>

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

std::string json_summary(const Packing& packing, const store::PackSummary& summary) {
  Json document;
  document["format"] = "repro-check-pack";
  document["version"] = "1.0";
  document["pack"] = clean_utf8(packing.pack);
  document["dump"] = clean_utf8(packing.dump);
  document["operators"] = summary.trace.operator_calls();
  document["bytes"] = summary.plain_bytes;
  document["packed_bytes"] = summary.packed_bytes;
  document["partial"] = nullptr;
  if (summary.trace.partial) document["partial"] = clean_utf8(summary.trace.partial->reason);
  return to_document(document, false);
}

std::string text_summary(const Packing& packing, const store::PackSummary& summary) {
  const bool to_pack = packing.from == packing.dump;
  std::string text = fmt::format("{} {}, {}, {} to {}: {}\n",
                                 packing.word,
                                 escape_name(packing.from),
                                 format_count(summary.trace.operator_calls(), "operator"),
                                 format_bytes(to_pack ? summary.plain_bytes : summary.packed_bytes),
                                 format_bytes(to_pack ? summary.packed_bytes : summary.plain_bytes),
                                 escape_name(to_pack ? packing.pack : packing.dump));
  if (summary.trace.partial) {
    text += fmt::format("  partial    {}\n", escape_name(summary.trace.partial->reason));
  }
  return text;
}

}  // namespace

core::ExitCode carry_out(
    const GlobalOptions& globals,
    const Packing& packing,
    const std::function<store::PackSummary(const store::PackProgress&)>& make) {
  Progress progress(progress_style(globals, stderr_is_terminal(), &std::getenv), stderr);
  progress.begin(1, 0, "");
  try {
    const store::PackSummary summary = make(packing_on(progress));
    progress.clear();
    write_stdout(packing.format == "json" ? json_summary(packing, summary)
                                          : text_summary(packing, summary));
    return core::ExitCode::kReproducible;
  } catch (const core::Error& error) {
    const auto report = unreadable_dump(packing.from, error);
    if (!report) throw;
    progress.clear();
    const std::vector<comparators::Report> reports{*report};
    write_stdout(render_reports(
        reports, ReportStyle{packing.format, render_options(globals, stdout_is_terminal())}));
    return worst_exit(reports);
  }
}

}  // namespace repro_check::cmd
