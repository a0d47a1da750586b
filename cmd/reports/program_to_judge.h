// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "cmd/terminal/global_options.h"
#include "configs/parser/config_parser.h"
#include "core/error.h"

namespace repro_check::cmd {

/// How a verb that judges one recording makes that of a program.
struct ProgramToJudge {
  std::string verb;    ///< names the recording too
  bool force = false;  ///< replace what no earlier command has recorded
  std::string format;  ///< of the report on a run that fails: text, or json
};

/// Records the program of a configuration, or the first of its runs, and judges what that gave; a
/// run that fails is reported.
/// @param judge  is told where the dump is; not called when the run fails
/// @return what `judge` returns
/// @throws as record()
core::ExitCode record_to_judge(const configs::Config& config,
                               const ProgramToJudge& program,
                               const GlobalOptions& globals,
                               const std::function<core::ExitCode(const std::string&)>& judge);

}  // namespace repro_check::cmd
