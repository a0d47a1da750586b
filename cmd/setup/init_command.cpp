// SPDX-License-Identifier: Apache-2.0
#include "cmd/setup/init_command.h"

#include <CLI/App.hpp>
#include <filesystem>

#include "cmd/options/starting_config.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "core/error.h"

namespace repro_check::cmd {
std::vector<std::string> InitCommand::examples() const {
  return {"repro-check init model.pt -o config.json",
          "repro-check init model.pt --method generate > config.json"};
}

void InitCommand::define(CLI::App& app) {
  app.add_option("model", model_, "TorchScript file")->type_name("MODEL.pt")->required();
  app.add_option("--method", method_, "Method to run (forward)")->type_name("NAME");
  app.add_option("-o,--output", output_, "Write to a file, not to stdout")->type_name("FILE");
  app.add_flag("--force", force_, "Replace the file if it exists");
}

void InitCommand::require_free_output() const {
  if (!output_) return;
  std::error_code ignored;
  if (!force_ && std::filesystem::exists(*output_, ignored)) {
    throw core::Error(core::ErrorKind::kUsage,
                      *output_ + " exists already",
                      "replace it with --force, or choose another name with -o");
  }
  require_writable(*output_);
}

std::string InitCommand::model_path() const {
  const std::filesystem::path model(model_);
  if (!output_ || model.is_absolute()) return model_;
  const std::filesystem::path folder = std::filesystem::absolute(*output_).parent_path();
  return std::filesystem::proximate(std::filesystem::absolute(model), folder).string();
}

core::ExitCode InitCommand::run(const GlobalOptions&) {
  require_free_output();
  const StartingConfig config = ask_starting_config(model_, model_path(), method_);
  if (output_) {
    write_file(*output_, config.text);
    log_info("wrote " + *output_);
  } else {
    write_stdout(config.text);
  }
  for (const StartingEdit& edit : config.edits) log_info(edit.text);
  return core::ExitCode::kReproducible;
}

}  // namespace repro_check::cmd
