// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/options/starting_config.h"
#include "cmd/render/json_form.h"
#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

class InitCommand final : public Command {
 public:
  InitCommand() : Command({"init", "Write a starting configuration for a model or a program"}) {}

  core::ExitCode run(const GlobalOptions&) override {
    require_free_output();
    const StartingConfig config = starting_config();
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
  [[nodiscard]] StartingConfig starting_config() const {
    if (is_program_) return {program_config(), {}};
    if (words_.front().ends_with(".py")) {
      throw core::usage_error(
          words_.front() + ": a Python program, not a TorchScript model",
          "repro-check init --program -- python " + shell_quote(words_.front()));
    }
    if (words_.size() == 1) return ask_starting_config(words_.front(), model_path(), method_);
    throw core::usage_error("init takes one model",
                            "for a program: repro-check init --program -- COMMAND");
  }

  /// A program is started where it is now, wherever its configuration is written to.
  [[nodiscard]] std::string program_config() const {
    Json document;
    Json& program = document["program"];
    program["command"] = words_;
    const std::filesystem::path here = std::filesystem::current_path();
    const std::filesystem::path folder =
        output_ ? std::filesystem::absolute(*output_).parent_path() : here;
    const std::string cwd = std::filesystem::proximate(here, folder).string();
    if (cwd != ".") program["cwd"] = cwd;
    return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  void require_free_output() const {
    if (!output_) return;
    std::error_code ignored;
    if (!force_ && std::filesystem::exists(*output_, ignored)) {
      throw core::usage_error(*output_ + " exists already",
                              "replace it with --force, or choose another name with -o");
    }
    require_writable(*output_);
  }

  [[nodiscard]] std::string model_path() const {
    const std::filesystem::path model(words_.front());
    if (!output_ || model.is_absolute()) return words_.front();
    const std::filesystem::path folder = std::filesystem::absolute(*output_).parent_path();
    return std::filesystem::proximate(std::filesystem::absolute(model), folder).string();
  }

  std::vector<std::string> words_ =
      value(&words_, "model MODEL.pt", {.takes = Takes::kFileOrCommand, .required = true});
  bool is_program_ = flag(&is_program_, "--program");
  std::string method_ = value(&method_, "--method NAME", {}, "forward");
  std::optional<std::string> output_ = value(&output_, "-o,--output FILE", {.takes = Takes::kFile});
  bool force_ = flag(&force_, "--force");
};

}  // namespace

std::unique_ptr<Command> init_command() { return std::make_unique<InitCommand>(); }

}  // namespace repro_check::cmd
