// SPDX-License-Identifier: Apache-2.0
#include "cmd/dumps/recover_command.h"

#include <CLI/App.hpp>

#include "cmd/dumps/dump_summary.h"
#include "cmd/options/choice.h"
#include "core/error.h"
#include "dumpers/store/recovery/recovery.h"

namespace repro_check::cmd {

std::vector<std::string> RecoverCommand::examples() const {
  return {"repro-check recover repro-check-out/candidate",
          "repro-check recover killed -o what-there-was"};
}

void RecoverCommand::define(CLI::App& app) {
  app.add_option("recording", recording_, "Directory of a recording that was cut short")
      ->type_name("DUMP")
      ->required();
  app.add_option("-o,--out", out_, "Directory of the dump; else it takes the recording's place")
      ->type_name("DIR");
  app.add_flag("--force", force_, "Replace a dump that exists at --out");
  restrict_to(app.add_option("--format", format_, "Format of the summary"), {"text", "json"});
}

core::ExitCode RecoverCommand::run(const GlobalOptions& globals) {
  if (force_ && !out_) {
    throw core::Error(core::ErrorKind::kUsage,
                      "--force is about the dump at --out",
                      "leave it out: in its own place a recording is always replaced");
  }
  store::DumpWriterOptions options;
  options.replace_existing = force_;
  std::optional<std::filesystem::path> dump;
  if (out_) dump = *out_;
  const DumpMaking making{
      "recovering", "RECOVERED", recording_, out_.value_or(recording_), format_};
  return make_dump(globals, making, [&](const store::RecoveryProgress& progress) {
    return store::recover_dump(recording_, dump, options, progress);
  });
}

}  // namespace repro_check::cmd
