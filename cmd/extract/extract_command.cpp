// SPDX-License-Identifier: Apache-2.0
#include "cmd/extract/extract_command.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <filesystem>

#include "cmd/extract/extract.h"
#include "cmd/recording/reference.h"
#include "cmd/render/text.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {

std::vector<std::string> ExtractCommand::examples() const {
  return {"repro-check extract repro-check-out/baseline --op 41 -o repro.py",
          "repro-check extract repro-check-out/baseline --op 41 -o repro.cpp"};
}

void ExtractCommand::define(CLI::App& app) {
  app.add_option("dump", dump_, "Dump that holds the operator's inputs")
      ->type_name("DUMP")
      ->required();
  app.add_option("--op", op_, "Which operator")->type_name("INDEX")->required();
  app.add_option("-o,--out", out_, "Program to write; its tensors go to a directory beside it")
      ->type_name("FILE.py|FILE.cpp")
      ->required();
  app.add_flag("--force", force_, "Replace what is there");
  define_references(app, references_);
}

core::ExitCode ExtractCommand::run(const GlobalOptions& /*globals*/) {
  const std::filesystem::path out = out_;
  if (out.extension() != ".py" && out.extension() != ".cpp") {
    throw core::Error(core::ErrorKind::kUsage,
                      "-o " + out_ + ": neither Python nor C++",
                      "end the name in .py or .cpp");
  }
  require_writable(out);
  if (!force_ && std::filesystem::exists(out)) {
    throw core::Error(core::ErrorKind::kUsage,
                      out_ + " exists already",
                      "replace it with --force, or choose another name with -o");
  }
  const auto dump = store::open_dump(dump_, {references_.begin(), references_.end()});
  const Extraction extraction = extract(*dump, op_, out, force_);
  write_stdout(fmt::format("EXTRACTED op {}: {}, with {} in {} ({})\n",
                           op_,
                           escape_name(extraction.script.string()),
                           format_count(extraction.files, "tensor"),
                           escape_name(extraction.data.string()),
                           format_bytes(extraction.bytes)));
  return core::ExitCode::kReproducible;
}

}  // namespace repro_check::cmd
