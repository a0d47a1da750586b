// SPDX-License-Identifier: Apache-2.0
#include "cmd/dumps/import_command.h"

#include <CLI/App.hpp>

#include "cmd/dumps/dump_summary.h"
#include "cmd/options/choice.h"
#include "dumpers/store/recovery/recovery.h"

namespace repro_check::cmd {

std::vector<std::string> ImportCommand::examples() const {
  return {"repro-check import recording/journal.bin -o dump"};
}

void ImportCommand::define(CLI::App& app) {
  app.add_option("recording", recording_, "Journal, or the directory that it is in")
      ->type_name("JOURNAL")
      ->required();
  app.add_option("-o,--out", out_, "Directory of the dump")->type_name("DIR")->required();
  app.add_flag("--force", force_, "Replace a dump that exists");
  restrict_to(app.add_option("--format", format_, "Format of the summary"), {"text", "json"});
}

core::ExitCode ImportCommand::run(const GlobalOptions& globals) {
  store::DumpWriterOptions options;
  options.replace_existing = force_;
  const DumpMaking making{"importing", "IMPORTED", recording_, out_, format_};
  return make_dump(globals, making, [&](const store::RecoveryProgress& progress) {
    return store::import_journal(recording_, out_, options, progress);
  });
}

}  // namespace repro_check::cmd
