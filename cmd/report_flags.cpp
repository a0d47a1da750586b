// SPDX-License-Identifier: Apache-2.0
#include "cmd/report_flags.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <limits>

#include "cmd/choice.h"
#include "cmd/output.h"
#include "comparators/compare.h"

namespace repro_check::cmd {

void ReportFlags::define(CLI::App& app) {
  restrict_to(app.add_option("--format", format_, "Format of the report"), {"text", "json"});
  app.add_option("--output", output_, "Write the report to a file, not to stdout")
      ->type_name("FILE");
  html_.define(app);
  app.add_flag("--all", all_, "List every divergent operator");
  app.add_option("--top", top_, "List so many divergent operators (10)")->type_name("N");
}

std::size_t ReportFlags::max_items() const noexcept {
  if (all_) return std::numeric_limits<std::size_t>::max();
  return std::max(comparators::CompareOptions{}.max_items, top_.value_or(0));
}

void ReportFlags::check_output() const {
  if (output_) require_writable(*output_);
  html_.check();
}

ReportStyle ReportFlags::style(const GlobalOptions& globals, const std::string& fallback) const {
  ReportStyle style;
  style.format = format_.value_or(fallback);
  style.options = render_options(globals, !output_ && stdout_is_terminal());
  style.options.all = all_;
  style.options.top = top_.value_or(kDefaultTop);
  return style;
}

void ReportFlags::emit(std::span<const comparators::Report> reports,
                       const ReportStyle& style) const {
  html_.write(reports, style.options);
  const std::string document = render_reports(reports, style);
  if (output_) {
    write_file(*output_, document);
  } else {
    write_stdout(document);
  }
}

}  // namespace repro_check::cmd
