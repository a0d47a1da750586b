// SPDX-License-Identifier: Apache-2.0
#include "cmd/reports/report_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <set>
#include <system_error>

#include "baselines/baseline.h"
#include "cmd/render/json/report_json.h"
#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "core/digest/digest.h"
#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

constexpr std::size_t kLinePiece = std::size_t{1} << 18U;

[[noreturn]] void fail(const std::string& what) {
  throw core::io_error(what + ": " + std::strerror(errno),
                       "set TMPDIR to a directory with room for the lines of every operator");
}

[[noreturn]] void reject(std::string_view word, const std::string& why, const std::string& hint) {
  throw usage_error(fmt::format("--report \"{}\": {}", word, why), hint);
}

/// The format that is called so, or that was meant.
std::string format_meant_by(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ReportFormat& known : report_formats()) names.emplace_back(known.name);
  return std::string(find_format(name) != nullptr ? name
                                                  : core::near_miss(name, names).value_or(""));
}

const ReportFormat& format_of(std::string_view word, std::string_view name) {
  if (const ReportFormat* format = find_format(name)) return *format;
  const std::string meant = format_meant_by(name);
  reject(word,
         fmt::format("\"{}\" is not one of {}",
                     name,
                     joined(report_formats(), ", ", [](const auto& known) { return known.name; })),
         meant.empty() ? "" : "did you mean " + meant + "?");
}

/// How to mend what has no destination.
std::string without_destination(std::string_view word) {
  const std::string meant = format_meant_by(word.substr(0, word.find('=')));
  return meant.empty() ? "write --report junit=FILE; - in place of FILE is stdout, +FILE appends"
                       : fmt::format("did you mean --report {}=FILE?", meant);
}

/// Lines of a log, of which another kind of line takes nothing away.
bool is_log(const ReportDestination& destination) {
  return destination.format->name == "text" || destination.format->name == "github";
}

void check_stdout(const std::vector<ReportDestination>& destinations) {
  std::vector<const ReportDestination*> wanted;
  for (const ReportDestination& each : destinations) {
    if (each.to_stdout()) wanted.push_back(&each);
  }
  if (wanted.size() < 2) return;
  const bool is_shared = wanted.size() == 2 && wanted[0]->format != wanted[1]->format &&
                         is_log(*wanted[0]) && is_log(*wanted[1]);
  if (is_shared) return;
  throw usage_error(fmt::format("--report: {} and {} both go to stdout, which takes one report",
                                wanted[0]->format->name,
                                wanted[1]->format->name),
                    "write one of them to a file; only text and github may share stdout");
}

/// `json=report.json`, `github=-`, `markdown=+summary.md`.
ReportDestination parse_destination(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals + 1 == word.size()) {
    reject(word, "expected FORMAT=DEST", without_destination(word));
  }
  ReportDestination out;
  out.format = &format_of(word, word.substr(0, equals));
  std::string_view target = word.substr(equals + 1);
  if (target == "-") return out;
  if (target.starts_with('+')) {
    out.append = true;
    target.remove_prefix(1);
    if (target.empty() || target == "-") reject(word, "+ comes before the name of a file", "");
    if (!out.format->appendable) {
      reject(word,
             fmt::format("a file cannot hold two {} documents", out.format->name),
             "leave out the + to replace the file");
    }
  }
  out.file = target;
  return out;
}

/// @throws core::Error{kUsage} when two reports want one place (text and GitHub annotations may
///         share stdout: both are lines of a log), or a file cannot be written
void check_destinations(const std::vector<ReportDestination>& destinations) {
  check_stdout(destinations);
  std::set<std::filesystem::path> files;
  for (const ReportDestination& each : destinations) {
    if (each.to_stdout()) continue;
    require_report_place(each.file, each.append);
    std::error_code error;
    const std::filesystem::path place = std::filesystem::absolute(each.file, error);
    if (!files.insert(place.lexically_normal()).second) {
      throw usage_error(fmt::format("--report: {} is wanted by two reports", each.file.string()),
                        "give each a file of its own");
    }
  }
}

/// Writes a document to a file: beside it and renamed, or behind what is there. What could not be
/// appended whole is taken away again.
void write_report(const ReportDestination& destination,
                  const std::function<void(const TextSink&)>& produce) {
  if (!destination.append) return write_pieces(destination.file, produce);
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(destination.file, error);
  const std::uintmax_t before = is_file ? std::filesystem::file_size(destination.file, error) : 0;
  std::ofstream out(destination.file, std::ios::binary | std::ios::app);
  const auto take_away = [&] {
    out.close();
    if (is_file) std::filesystem::resize_file(destination.file, before, error);
  };
  try {
    produce([&](std::string_view piece) { out << piece; });
  } catch (...) {
    take_away();
    throw;
  }
  out.close();
  if (out) return;
  const std::string why = std::strerror(errno);
  take_away();
  throw core::io_error(fmt::format("cannot write {}: {}", destination.file.string(), why));
}

/// Where a page opens: at the first operator that is not fine.
std::string place_in_page(const Report& report) {
  const auto& first = report.first_divergence;
  if (!first) return {};
  return first->baseline_index ? fmt::format("#op-{}", *first->baseline_index)
                               : fmt::format("#op-c{}", first->candidate_index.value_or(0));
}

/// The first bytes of a file; none where it cannot be read.
std::string head_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string head(kReportHead, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  return head;
}

}  // namespace

OpLines::OpLines()
    : file_("repro-check-lines"), out_(file_.path(), std::ios::binary | std::ios::trunc) {
  if (!out_) fail("cannot write " + file_.path().string());
}

comparators::OpObserver OpLines::observer(bool all) {
  comparators::OpObserver observer;
  observer.see = [this](const OpDivergence& op) {
    ++not_fine_;
    put(jsonl_op(op));
  };
  if (!all) return observer;
  observer.see_fine = [this](const OpDivergence& op, comparators::OpState state) {
    put(jsonl_fine_op(op, state));
  };
  return observer;
}

void OpLines::put(const std::string& line) {
  out_ << line;
  if (!out_) fail("cannot write " + file_.path().string());
}

void OpLines::write(const Report& report, const RenderOptions& options, const TextSink& sink) {
  out_.flush();
  if (!out_) fail("cannot write " + file_.path().string());
  sink(jsonl_header(report, options));
  // Records of which none found a counterpart are no divergences after all.
  const bool stands = report.divergences_total != 0 || not_fine_ == 0;
  std::ifstream in(file_.path(), std::ios::binary);
  std::string piece(kLinePiece, '\0');
  while (stands && in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    sink(std::string_view(piece).substr(0, static_cast<std::size_t>(in.gcount())));
  }
  if (in.bad()) fail("cannot read " + file_.path().string());
  sink(jsonl_end(report, stands ? not_fine_ : 0));
}

std::string report_meant_by(const std::string& format) {
  return find_format(format) == nullptr ? ""
                                        : fmt::format("did you mean --report {}=FILE?", format);
}

void require_report_place(const std::filesystem::path& file, bool append) {
  std::error_code ignored;  // what could not be made is told by what follows
  std::filesystem::create_directories(file.parent_path(), ignored);
  require_writable(file);
  if (append || !std::filesystem::is_regular_file(file, ignored)) return;
  const std::string head = head_of(file);
  if (head.empty() || is_report(head)) return;
  throw usage_error(file.string() + " exists already, and is not a report of repro-check",
                    "remove it first, or name another file: only reports are replaced");
}

void remove_reports(const std::filesystem::path& directory) {
  for (const char* name : {"report.json", "report.txt", "report.html"}) {
    const std::filesystem::path file = directory / name;
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error) || !is_report(head_of(file))) continue;
    if (std::filesystem::remove(file, error); !error) continue;
    throw core::io_error(
        "cannot remove " + file.string() + ": " + error.message(),
        "it is from an earlier run, and would be mistaken for the report of this one");
  }
}

std::filesystem::path repository_root() {
  std::error_code error;
  std::filesystem::path here = std::filesystem::current_path(error);
  for (std::filesystem::path place = here; !place.empty(); place = place.parent_path()) {
    if (std::filesystem::exists(place / ".git", error)) return place;
    if (place == place.parent_path()) break;
  }
  return here;
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
  // What the flags say of a format stands before what the configuration says.
  const std::vector<std::string_view> given = formats();
  for (const auto& [name, file] : spec ? spec->files : decltype(spec->files){}) {
    if (std::ranges::find(given, name) != given.end()) continue;
    destinations_.push_back({find_format(name), from_here(file), false});
  }
  check_destinations(destinations_);
  if (format_ && !output_ && stdout_is_taken()) {
    throw usage_error("--format and --report both want stdout",
                      "leave out --format, or send it to a file with --output");
  }
}

void ReportFlags::add_files(const std::vector<std::string>& formats,
                            const ReportStyle& style,
                            const std::filesystem::path& directory) {
  std::vector<ReportDestination> files;
  for (const std::string& format : formats) {
    const char* name = format == "json" ? "report.json" : "report.txt";
    if (format == style.format) continue;
    files.push_back({find_format(format), from_here(directory) / name, false});
  }
  destinations_.insert(destinations_.begin(), files.begin(), files.end());
}

std::vector<std::string_view> ReportFlags::formats() const {
  std::vector<std::string_view> names;
  for (const ReportDestination& each : destinations_) names.push_back(each.format->name);
  return names;
}

void ReportFlags::require_formats(std::span<const std::string_view> known,
                                  std::string_view what) const {
  std::vector<std::string_view> asked = formats();
  if (format_) asked.emplace_back(*format_);
  for (const std::string_view format : asked) {
    if (std::ranges::find(known, format) != known.end()) continue;
    throw usage_error(fmt::format("{}: {} cannot be written in this format", format, what),
                      fmt::format("possible formats: {}", fmt::join(known, ", ")));
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

void ReportFlags::emit(const ReportStyle& style,
                       const Produce& produce,
                       const std::string& page_place) const {
  const DocumentOptions to_terminal = document_options(style.options);
  DocumentOptions in_file = to_terminal;
  in_file.color = false;
  in_file.link_host.clear();
  in_file.columns = 0;
  in_file.pretty_json = false;
  write_files(in_file, produce, page_place);
  const auto make = [&](const TextSink& sink) { produce(style.format, to_terminal, sink); };
  if (output_) write_pieces(*output_, make);
  const DocumentOptions& to_stdout = output_ ? in_file : to_terminal;
  if (!stdout_is_taken()) {
    if (!output_) write_stdout_pieces(make);
    return;
  }
  // Text and annotations go out in one piece: what cannot be made leaves stdout empty.
  std::string waiting;
  const bool is_beside_text =
      style.format == "text" && !output_ &&
      std::ranges::all_of(destinations_, [](const ReportDestination& destination) {
        return !destination.to_stdout() || destination.format->name == "github";
      });
  if (is_beside_text) make([&](std::string_view piece) { waiting += piece; });
  for (const ReportDestination& destination : destinations_) {
    if (!destination.to_stdout()) continue;
    if (destination.format->name == "jsonl") {
      return write_stdout_pieces([&](const TextSink& sink) { produce("jsonl", to_stdout, sink); });
    }
    produce(destination.format->name, to_stdout, [&](std::string_view piece) { waiting += piece; });
  }
  write_stdout(waiting);
}

void ReportFlags::emit(std::span<const Report> reports,
                       const ReportStyle& style,
                       OpLines* lines) const {
  const auto produce = [&](std::string_view format, const auto& options, const TextSink& sink) {
    if (lines != nullptr && format == "jsonl") return lines->write(reports.front(), options, sink);
    sink(find_format(format)->render(reports, options));
  };
  emit(style, produce, reports.empty() ? std::string() : place_in_page(reports.front()));
}

void ReportFlags::write_files(const DocumentOptions& options,
                              const Produce& produce,
                              const std::string& page_place) const {
  std::optional<core::Error> failure;
  for (const ReportDestination& destination : destinations_) {
    if (destination.to_stdout()) continue;
    try {
      write_report(destination,
                   [&](const TextSink& sink) { produce(destination.format->name, options, sink); });
      const bool page = destination.format->name == "html";
      log_info("report written to " + destination.file.string() + (page ? page_place : ""));
    } catch (const core::Error& error) {
      if (!failure) failure = error;
    }
  }
  if (failure) throw core::Error(*failure);
}

}  // namespace repro_check::cmd
