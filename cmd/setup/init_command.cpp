// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/options/command_line.h"
#include "cmd/options/starting_config.h"
#include "cmd/terminal/command.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

class InitCommand final : public Command {
 public:
  InitCommand()
      : Command({"init",
                 "Write a starting configuration for a model",
                 {"repro-check init model.pt -o config.json",
                  "repro-check init model.pt --method generate > config.json"}}) {}

  void define(Options& options) override {
    options.value("model", "MODEL.pt", &model_, "TorchScript file", {.required = true});
    options.value("--method", "NAME", &method_, "Method to run (forward)");
    options.value("-o,--output", "FILE", &output_, "Write to a file, not to stdout");
    options.flag("--force", &force_, "Replace the file if it exists");
  }

  core::ExitCode run(const GlobalOptions&) override {
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

 private:
  void require_free_output() const {
    if (!output_) return;
    std::error_code ignored;
    if (!force_ && std::filesystem::exists(*output_, ignored)) {
      throw core::Error(core::ErrorKind::kUsage,
                        *output_ + " exists already",
                        "replace it with --force, or choose another name with -o");
    }
    require_writable(*output_);
  }

  [[nodiscard]] std::string model_path() const {
    const std::filesystem::path model(model_);
    if (!output_ || model.is_absolute()) return model_;
    const std::filesystem::path folder = std::filesystem::absolute(*output_).parent_path();
    return std::filesystem::proximate(std::filesystem::absolute(model), folder).string();
  }

  std::string model_;
  std::string method_ = "forward";
  std::optional<std::string> output_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> init_command() { return std::make_unique<InitCommand>(); }

}  // namespace repro_check::cmd
