// SPDX-License-Identifier: Apache-2.0
#include "cmd/manual/completion_command.h"

#include <CLI/App.hpp>

#include "cmd/manual/completions.h"
#include "cmd/options/choice.h"
#include "cmd/terminal/output.h"

namespace repro_check::cmd {

std::vector<std::string> CompletionCommand::examples() const {
  return {"source <(repro-check completion bash)",
          "repro-check completion zsh > ~/.zfunc/_repro-check",
          "repro-check completion fish > ~/.config/fish/completions/repro-check.fish"};
}

void CompletionCommand::define(CLI::App& app) {
  restrict_to(app.add_option("shell", shell_, "The shell to write it for"), {"bash", "zsh", "fish"})
      ->required();
}

core::ExitCode CompletionCommand::run(const GlobalOptions& /*globals*/) {
  write_stdout(completion_script(shell_));
  return core::ExitCode::kReproducible;
}

}  // namespace repro_check::cmd
