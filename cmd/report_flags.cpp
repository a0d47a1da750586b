// SPDX-License-Identifier: Apache-2.0
#include "cmd/report_flags.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <limits>

#include "cmd/choice.h"
#include "cmd/logging.h"
#include "cmd/output.h"
#include "comparators/compare.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

/// Where a page opens: at the first operator that is not fine.
std::string place_in_page(const comparators::Report& report) {
  const auto& first = report.first_divergence;
  if (!first) return {};
  return first->baseline_index ? fmt::format("#op-{}", *first->baseline_index)
                               : fmt::format("#op-c{}", first->candidate_index.value_or(0));
}

}  // namespace

void ReportFlags::define(CLI::App& app) {
  restrict_to(app.add_option("--format", format_, "Format of the report"), {"text", "json"});
  app.add_option("--output", output_, "Write the report to a file, not to stdout")
      ->type_name("FILE");
  app.add_option("--report",
                 report_words_,
                 "A further report; repeatable. DEST is a file, +FILE to append, - for stdout")
      ->type_name("FORMAT=DEST")
      ->allow_extra_args(false);
  app.add_option("--source-root",
                 source_root_,
                 "Source files are named from here in CI reports (the repository)")
      ->type_name("DIR");
  restrict_to(app.add_option("--junit-dialect",
                             junit_dialect_,
                             "strict leaves out file and line, for readers with a schema"),
              {"common", "strict"});
  app.add_flag("--all", all_, "List every divergent operator");
  app.add_option("--top", top_, "List so many divergent operators (10)")->type_name("N");
}

std::size_t ReportFlags::max_items() const noexcept {
  if (all_) return std::numeric_limits<std::size_t>::max();
  return std::max(comparators::CompareOptions{}.max_items, top_.value_or(0));
}

bool ReportFlags::wants_trail() const noexcept {
  return std::ranges::any_of(destinations_, [](const ReportDestination& destination) {
    return destination.format->name == "html";
  });
}

bool ReportFlags::stdout_is_taken() const {
  return std::ranges::any_of(destinations_, &ReportDestination::to_stdout);
}

void ReportFlags::check_output() {
  if (output_) require_writable(*output_);
  destinations_.clear();
  for (const std::string& word : report_words_) destinations_.push_back(parse_destination(word));
  check_destinations(destinations_);
  if (format_ && !output_ && stdout_is_taken()) {
    throw core::Error(core::ErrorKind::kUsage,
                      "--format and --report both want stdout",
                      "leave out --format, or send it to a file with --output");
  }
}

std::vector<std::string_view> ReportFlags::formats() const {
  std::vector<std::string_view> names;
  for (const ReportDestination& each : destinations_) names.push_back(each.format->name);
  return names;
}

void ReportFlags::write(std::string_view document) const {
  if (output_) {
    write_file(*output_, document);
  } else {
    write_stdout(document);
  }
}

ReportStyle ReportFlags::style(const GlobalOptions& globals, const std::string& fallback) const {
  ReportStyle style;
  style.format = format_.value_or(fallback);
  style.options = render_options(globals, !output_ && stdout_is_terminal());
  style.options.all = all_;
  style.options.top = top_.value_or(kDefaultTop);
  return style;
}

DocumentOptions ReportFlags::document_options(const RenderOptions& options) const {
  DocumentOptions document{options, "", "", "", junit_dialect_ == "strict"};
  if (!options.config_path.empty()) {
    document.fallback_file =
        std::filesystem::absolute(options.config_path).lexically_normal().string();
  }
  const std::filesystem::path root =
      source_root_.empty() ? repository_root() : std::filesystem::absolute(source_root_);
  document.source_root = root.lexically_normal().string();
  return document;
}

void ReportFlags::emit(std::span<const comparators::Report> reports,
                       const ReportStyle& style) const {
  const DocumentOptions to_terminal = document_options(style.options);
  DocumentOptions in_file = to_terminal;
  in_file.color = false;
  in_file.link_host.clear();
  in_file.pretty_json = false;
  std::optional<core::Error> failure;
  std::string on_stdout;
  for (const ReportDestination& destination : destinations_) {
    const bool is_stdout = destination.to_stdout();
    const std::string document =
        destination.format->render(reports, is_stdout && !output_ ? to_terminal : in_file);
    try {
      if (is_stdout) {
        on_stdout += document;
      } else {
        write_report(destination, document);
        const bool page = destination.format->name == "html" && !reports.empty();
        log_info("report written to " + destination.file.string() +
                 (page ? place_in_page(reports.front()) : ""));
      }
    } catch (const core::Error& error) {
      if (!failure) failure = error;
    }
  }
  if (failure) throw core::Error(*failure);
  if (output_) write_file(*output_, render_reports(reports, style));
  if (!output_ && !stdout_is_taken()) on_stdout = render_reports(reports, style);
  write_stdout(on_stdout);
}

}  // namespace repro_check::cmd
