// SPDX-License-Identifier: Apache-2.0
#include "cmd/bisect/bisect_command.h"
#include "cmd/calibrate/calibrate_command.h"
#include "cmd/diff/diff_command.h"
#include "cmd/dumps/dump_commands.h"
#include "cmd/exec/exec_command.h"
#include "cmd/extract/extract_command.h"
#include "cmd/gate/gate_command.h"
#include "cmd/inspect/inspect_command.h"
#include "cmd/manual/completion_command.h"
#include "cmd/manual/man_command.h"
#include "cmd/record/record_command.h"
#include "cmd/replay/replay_command.h"
#include "cmd/report/report_command.h"
#include "cmd/run/run_command.h"
#include "cmd/setup/env_command.h"
#include "cmd/setup/init_command.h"
#include "cmd/setup/validate_command.h"
#include "cmd/terminal/command.h"

namespace repro_check::cmd {

std::vector<std::unique_ptr<Command>> make_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<RunCommand>());
  commands.push_back(gate_command());
  commands.push_back(report_command());
  commands.push_back(std::make_unique<RecordCommand>());
  commands.push_back(std::make_unique<ExecCommand>());
  commands.push_back(std::make_unique<DiffCommand>());
  commands.push_back(bisect_command());
  commands.push_back(calibrate_command());
  commands.push_back(inspect_command());
  commands.push_back(std::make_unique<ReplayCommand>());
  commands.push_back(std::make_unique<ExtractCommand>());
  commands.push_back(verify_command());
  commands.push_back(pack_command());
  commands.push_back(unpack_command());
  commands.push_back(recover_command());
  commands.push_back(import_command());
  commands.push_back(std::make_unique<InitCommand>());
  commands.push_back(std::make_unique<EnvCommand>());
  commands.push_back(std::make_unique<ValidateCommand>());
  commands.push_back(std::make_unique<CompletionCommand>());
  commands.push_back(std::make_unique<ManCommand>());
  return commands;
}

}  // namespace repro_check::cmd
