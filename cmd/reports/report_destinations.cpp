// SPDX-License-Identifier: Apache-2.0
#include "cmd/reports/report_destinations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <system_error>

#include "cmd/terminal/output.h"
#include "core/error.h"
#include "core/text/near_miss.h"

namespace repro_check::cmd {
namespace {

std::vector<std::string_view> format_names() {
  std::vector<std::string_view> names;
  for (const ReportFormat& format : report_formats()) names.push_back(format.name);
  return names;
}

[[noreturn]] void reject(std::string_view word, const std::string& why, const std::string& hint) {
  throw core::Error(core::ErrorKind::kUsage, fmt::format("--report \"{}\": {}", word, why), hint);
}

const ReportFormat& format_of(std::string_view word, std::string_view name) {
  if (const ReportFormat* format = find_format(name)) return *format;
  const std::vector<std::string_view> names = format_names();
  const auto near = core::near_miss(name, names);
  reject(word,
         fmt::format("\"{}\" is none of {}", name, fmt::join(names, ", ")),
         near ? fmt::format("did you mean {}?", *near) : "");
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
  throw core::Error(core::ErrorKind::kUsage,
                    fmt::format("--report: {} and {} both go to stdout, which takes one report",
                                wanted[0]->format->name,
                                wanted[1]->format->name),
                    "write one of them to a file; only text and github may share stdout");
}

}  // namespace

ReportDestination parse_destination(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals + 1 == word.size()) {
    reject(word,
           "a format and a destination were expected",
           "write --report junit=repro.xml; - is stdout, +FILE appends");
  }
  ReportDestination out;
  out.format = &format_of(word, word.substr(0, equals));
  std::string_view target = word.substr(equals + 1);
  if (target == "-") return out;
  if (target.starts_with('+')) {
    out.append = true;
    target.remove_prefix(1);
    if (target.empty() || target == "-") reject(word, "+ stands before the name of a file", "");
    if (!out.format->appendable) {
      reject(word,
             fmt::format("a second {} document in a file makes it unreadable", out.format->name),
             "leave out the +, the file is replaced");
    }
  }
  out.file = target;
  return out;
}

void require_report_place(const std::filesystem::path& file, bool append) {
  std::error_code ignored;  // what could not be made is told by what follows
  std::filesystem::create_directories(file.parent_path(), ignored);
  require_writable(file);
  if (append || !std::filesystem::is_regular_file(file, ignored)) return;
  std::ifstream in(file, std::ios::binary);
  std::string head(kReportHead, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  if (head.empty() || is_report(head)) return;
  throw core::Error(core::ErrorKind::kUsage,
                    file.string() + " exists already, and is no report of repro-check",
                    "remove it first, or name another file: only reports are replaced");
}

void check_destinations(const std::vector<ReportDestination>& destinations) {
  check_stdout(destinations);
  std::set<std::filesystem::path> files;
  for (const ReportDestination& each : destinations) {
    if (each.to_stdout()) continue;
    require_report_place(each.file, each.append);
    std::error_code error;
    const std::filesystem::path place = std::filesystem::absolute(each.file, error);
    if (!files.insert(place.lexically_normal()).second) {
      throw core::Error(core::ErrorKind::kUsage,
                        fmt::format("--report: {} is wanted by two reports", each.file.string()),
                        "give each a file of its own");
    }
  }
}

void write_report(const ReportDestination& destination,
                  const std::function<void(const TextSink&)>& produce) {
  if (!destination.append) {
    write_pieces(destination.file, produce);
    return;
  }
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
  throw core::Error(core::ErrorKind::kIo,
                    fmt::format("cannot write {}: {}", destination.file.string(), why));
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

}  // namespace repro_check::cmd
