// SPDX-License-Identifier: Apache-2.0
#include "cmd/reports/report_flags.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>

#include "baselines/baseline.h"
#include "cmd/options/choice.h"
#include "cmd/reports/op_lines.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "comparators/compare.h"
#include "core/digest/digest.h"
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

/// What the flags say of a format stands before what the configuration says.
void add_files(const configs::ReportSpec& spec, std::vector<ReportDestination>& destinations) {
  std::vector<std::string_view> given;
  given.reserve(destinations.size());
  for (const ReportDestination& each : destinations) given.push_back(each.format->name);
  for (const auto& [name, file] : spec.files) {
    if (std::ranges::find(given, name) != given.end()) continue;
    destinations.push_back({find_format(name), from_here(file), false});
  }
}

void produce(const ReportFormat& format,
             std::span<const comparators::Report> reports,
             const DocumentOptions& options,
             OpLines* lines,
             const TextSink& sink) {
  if (lines != nullptr && format.name == "jsonl") {
    lines->write(reports.front(), options, sink);
  } else {
    sink(format.render(reports, options));
  }
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

bool ReportFlags::writes(std::string_view format) const noexcept {
  return std::ranges::any_of(destinations_, [&](const ReportDestination& destination) {
    return destination.format->name == format;
  });
}

bool ReportFlags::stdout_is_taken() const {
  return std::ranges::any_of(destinations_, &ReportDestination::to_stdout);
}

void ReportFlags::check_output(const configs::ReportSpec* spec) {
  if (output_) require_report_place(*output_);
  destinations_.clear();
  for (const std::string& word : report_words_) destinations_.push_back(parse_destination(word));
  if (spec != nullptr) add_files(*spec, destinations_);
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
  } else if (!stdout_is_taken()) {
    write_stdout(document);
  }
}

void ReportFlags::write_destinations(std::string_view document) const {
  for (const ReportDestination& destination : destinations_) {
    if (destination.to_stdout()) {
      write_stdout(document);
      continue;
    }
    write_report(destination, [&](const TextSink& sink) { sink(document); });
    log_info("report written to " + destination.file.string());
  }
}

ReportStyle ReportFlags::style(const GlobalOptions& globals, const std::string& fallback) const {
  ReportStyle style;
  style.format = format_.value_or(fallback);
  style.options = render_options(globals, !output_ && stdout_is_terminal());
  if (output_) style.options.columns = 0;
  style.options.all = all_;
  style.options.top = top_.value_or(kDefaultTop);
  return style;
}

DocumentOptions ReportFlags::document_options(const RenderOptions& options) const {
  const GateOutcome* gate = options.gate;
  DocumentOptions document{options, "", "", "", junit_dialect_ == "strict"};
  std::string config = options.config_path;
  if (gate != nullptr) {
    document.subject = gate->gate;
    if (const auto key = core::parse_digest(gate->key)) {
      document.platform = baselines::short_key(*key);
    }
    if (config.empty()) config = gate->config;
  }
  if (!config.empty()) {
    document.fallback_file = std::filesystem::absolute(config).lexically_normal().string();
  }
  const std::filesystem::path root =
      source_root_.empty() ? repository_root() : std::filesystem::absolute(source_root_);
  document.source_root = root.lexically_normal().string();
  return document;
}

void ReportFlags::emit(std::span<const comparators::Report> reports,
                       const ReportStyle& style,
                       OpLines* lines) const {
  const DocumentOptions to_terminal = document_options(style.options);
  DocumentOptions in_file = to_terminal;
  in_file.color = false;
  in_file.link_host.clear();
  in_file.columns = 0;
  in_file.pretty_json = false;
  std::optional<core::Error> failure;
  for (const ReportDestination& destination : destinations_) {
    if (destination.to_stdout()) continue;
    try {
      write_report(destination, [&](const TextSink& sink) {
        produce(*destination.format, reports, in_file, lines, sink);
      });
      const bool page = destination.format->name == "html" && !reports.empty();
      log_info("report written to " + destination.file.string() +
               (page ? place_in_page(reports.front()) : ""));
    } catch (const core::Error& error) {
      if (!failure) failure = error;
    }
  }
  if (failure) throw core::Error(*failure);
  if (output_) write_file(*output_, render_reports(reports, style));
  emit_stdout(reports, style, output_ ? in_file : to_terminal, lines);
}

void ReportFlags::emit_stdout(std::span<const comparators::Report> reports,
                              const ReportStyle& style,
                              const DocumentOptions& options,
                              OpLines* lines) const {
  if (!stdout_is_taken()) {
    if (!output_) write_stdout(render_reports(reports, style));
    return;
  }
  // Text and annotations go out in one piece: what cannot be made leaves stdout empty.
  std::string waiting;
  for (const ReportDestination& destination : destinations_) {
    if (!destination.to_stdout()) continue;
    if (lines != nullptr && destination.format->name == "jsonl") {
      write_stdout_pieces([&](const TextSink& sink) {
        produce(*destination.format, reports, options, lines, sink);
      });
    } else {
      waiting += destination.format->render(reports, options);
    }
  }
  write_stdout(waiting);
}

}  // namespace repro_check::cmd
