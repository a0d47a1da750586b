// SPDX-License-Identifier: Apache-2.0
#include "cmd/dumps/pack_command.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <filesystem>

#include "cmd/dumps/pack_summary.h"
#include "cmd/options/choice.h"
#include "cmd/terminal/output.h"
#include "cmd/terminal/signals.h"
#include "dumpers/store/directory/pack_name.h"

namespace repro_check::cmd {

std::vector<std::string> PackCommand::examples() const {
  return {"repro-check pack repro-check-out/baseline",
          "repro-check pack repro-check-out/baseline -o kept/v1.tar.zst --level 19",
          "repro-check diff kept/v1.tar.zst repro-check-out/candidate"};
}

void PackCommand::define(CLI::App& app) {
  app.add_option("dump", dump_, "Dump to pack")->type_name("DUMP")->required();
  app.add_option("-o,--out", out_, "The file to make; else DUMP.tar.zst")->type_name("FILE");
  app.add_option("--level",
                 options_.level,
                 fmt::format("Compression: 1 is fastest, {} smallest ({})",
                             store::kHighestPackLevel,
                             store::kPackLevel))
      ->type_name("N")
      ->check(CLI::Range(1, store::kHighestPackLevel).description(""));
  app.add_flag("--force", options_.replace_existing, "Replace a file that exists");
  restrict_to(app.add_option("--format", format_, "Format of the summary"), {"text", "json"});
}

core::ExitCode PackCommand::run(const GlobalOptions& globals) {
  const std::filesystem::path file =
      out_ ? std::filesystem::path(*out_) : store::default_pack(dump_);
  require_writable(file);
  const GuardedFile temporary(store::temporary_beside(file).string());
  const Packing packing{"PACKED", dump_, file.string(), dump_, format_};
  return carry_out(globals, packing, [&](const store::PackProgress& progress) {
    return store::pack_dump(dump_, file, options_, progress);
  });
}

}  // namespace repro_check::cmd
