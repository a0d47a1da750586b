// SPDX-License-Identifier: Apache-2.0
#include "cmd/bisect_command.h"
#include "cmd/calibrate_command.h"
#include "cmd/command.h"
#include "cmd/completion_command.h"
#include "cmd/diff_command.h"
#include "cmd/env_command.h"
#include "cmd/extract_command.h"
#include "cmd/gate_command.h"
#include "cmd/import_command.h"
#include "cmd/init_command.h"
#include "cmd/inspect_command.h"
#include "cmd/man_command.h"
#include "cmd/pack_command.h"
#include "cmd/record_command.h"
#include "cmd/recover_command.h"
#include "cmd/replay_command.h"
#include "cmd/report_command.h"
#include "cmd/run_command.h"
#include "cmd/unpack_command.h"
#include "cmd/validate_command.h"
#include "cmd/verify_command.h"

namespace repro_check::cmd {

std::vector<std::unique_ptr<Command>> make_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<RunCommand>());
  commands.push_back(std::make_unique<GateCommand>());
  commands.push_back(std::make_unique<ReportCommand>());
  commands.push_back(std::make_unique<RecordCommand>());
  commands.push_back(std::make_unique<DiffCommand>());
  commands.push_back(std::make_unique<BisectCommand>());
  commands.push_back(std::make_unique<CalibrateCommand>());
  commands.push_back(std::make_unique<InspectCommand>());
  commands.push_back(std::make_unique<ReplayCommand>());
  commands.push_back(std::make_unique<ExtractCommand>());
  commands.push_back(std::make_unique<VerifyCommand>());
  commands.push_back(std::make_unique<PackCommand>());
  commands.push_back(std::make_unique<UnpackCommand>());
  commands.push_back(std::make_unique<RecoverCommand>());
  commands.push_back(std::make_unique<ImportCommand>());
  commands.push_back(std::make_unique<InitCommand>());
  commands.push_back(std::make_unique<EnvCommand>());
  commands.push_back(std::make_unique<ValidateCommand>());
  commands.push_back(std::make_unique<CompletionCommand>());
  commands.push_back(std::make_unique<ManCommand>());
  return commands;
}

}  // namespace repro_check::cmd
