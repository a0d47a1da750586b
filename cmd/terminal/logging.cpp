// SPDX-License-Identifier: Apache-2.0
#include "cmd/terminal/logging.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <sstream>

#include "cmd/render/text.h"

namespace repro_check::cmd {
namespace {

void log_lines(spdlog::level::level_enum level, const std::string& message) {
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);) spdlog::log(level, "{}", escape_name(line));
}

}  // namespace

void install_stderr_logger() {
  spdlog::set_default_logger(spdlog::stderr_logger_st("repro-check"));
  spdlog::set_pattern("%n: %l: %v");
  spdlog::set_level(spdlog::level::info);
}

void set_log_level(int verbosity, bool quiet) {
  if (verbosity >= 2) {
    spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %n: %l: %v");
    spdlog::set_level(spdlog::level::debug);
  } else if (quiet) {
    spdlog::set_level(spdlog::level::err);
  }
}

void log_warning(const std::string& message) { log_lines(spdlog::level::warn, message); }

void log_info(const std::string& message) { log_lines(spdlog::level::info, message); }

void log_debug(const std::string& message) { log_lines(spdlog::level::debug, message); }

constexpr const char* kWhatToReport =
    "  a defect of repro-check, unless memory ran out: report this line with the command line and\n"
    "  what `repro-check --version` prints\n";

core::ExitCode report_exception(const std::exception& error) {
  const auto* ours = dynamic_cast<const core::Error*>(&error);
  if (ours == nullptr) {
    log_lines(spdlog::level::err, std::string("internal error: ") + error.what());
    std::fputs(kWhatToReport, stderr);
    return core::ExitCode::kInternal;
  }
  log_lines(spdlog::level::err, ours->what());
  std::istringstream hint(ours->hint());
  for (std::string line; std::getline(hint, line);) {
    // Belongs to the line above it, so it carries no prefix of its own.
    std::fputs(("  " + escape_name(line) + "\n").c_str(), stderr);
  }
  const core::ExitCode code = core::exit_code_for(ours->kind());
  if (code == core::ExitCode::kInternal) std::fputs(kWhatToReport, stderr);
  return code;
}

}  // namespace repro_check::cmd
