// SPDX-License-Identifier: Apache-2.0
#include "cmd/dumps/unpack_command.h"

#include <CLI/App.hpp>
#include <filesystem>

#include "cmd/dumps/pack_summary.h"
#include "cmd/options/choice.h"
#include "cmd/terminal/signals.h"
#include "dumpers/store/directory/pack_name.h"
#include "dumpers/store/pack.h"

namespace repro_check::cmd {

std::vector<std::string> UnpackCommand::examples() const {
  return {"repro-check unpack kept/v1.tar.zst", "repro-check unpack kept/v1.tar.zst -o baseline"};
}

void UnpackCommand::define(CLI::App& app) {
  app.add_option("pack", pack_, "File that `pack` has made")->type_name("FILE")->required();
  app.add_option("-o,--out", out_, "Directory of the dump; else FILE without .tar.zst")
      ->type_name("DIR");
  app.add_flag("--force", force_, "Replace a dump that exists");
  restrict_to(app.add_option("--format", format_, "Format of the summary"), {"text", "json"});
}

core::ExitCode UnpackCommand::run(const GlobalOptions& globals) {
  const std::filesystem::path dump =
      out_ ? std::filesystem::path(*out_) : store::default_dump(pack_);
  // In this order: the directory can be removed when it is empty.
  const std::filesystem::path working = store::temporary_beside(dump);
  const GuardedFile manifest((working / "manifest.json").string());
  const GuardedFile trace((working / "trace.h5").string());
  const GuardedFile directory(working.string());
  const Packing packing{"UNPACKED", pack_, pack_, dump.string(), format_};
  return carry_out(globals, packing, [&](const store::PackProgress& progress) {
    return store::unpack_dump(pack_, dump, force_, progress);
  });
}

}  // namespace repro_check::cmd
