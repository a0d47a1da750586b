// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cmd/options/cli_tree.h"

namespace repro_check::cmd {

/// The manual page of the tool, in the man macros: `repro-check.1`.
std::string man_page(const CliVerb& tool);
/// That of one of its verbs: `repro-check-diff.1`.
std::string man_page(const CliVerb& tool, const CliVerb& verb);

}  // namespace repro_check::cmd
