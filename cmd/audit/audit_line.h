// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "configs/spec/gate_spec.h"
#include "core/error.h"

namespace repro_check::cmd {

/// Whose findings a command has told already.
enum class AlreadyTold { kNothing, kRanks };

/// What a command asks of the audit of its recording.
struct AuditLine {
  configs::AuditSpec spec = {};
  AlreadyTold told = AlreadyTold::kNothing;
  /// What `repro-check audit` takes in place of a recording of blocks, `-- python train.py`: empty
  /// where these are worth no line.
  std::vector<std::string> instead = {};
};

/// The word of `--audit-fail-on`, which the schema has too.
configs::AuditFailure audit_failure(const std::string& word);

/// Tells on stderr, in one line, that an audit of what was just recorded holds a proof:
/// `audit: 1 proof, 2 suspicions: repro-check audit DUMP`; or that it was not made: of blocks, or
/// since it takes more than two seconds. Where findings are to fail the command, it takes the time
/// it needs.
/// @param code  of the command so far
/// @param dump  a recording, or the directory of those of all ranks
/// @return the exit code of the command: `code`, unless `ask.spec.fail_on` makes it another one
core::ExitCode tell_of_audit(core::ExitCode code,
                             const std::filesystem::path& dump,
                             const AuditLine& ask = {});

}  // namespace repro_check::cmd
