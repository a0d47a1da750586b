// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "comparators/audit/audit.h"

namespace repro_check::cmd {

/// Whether a path leads to an exported model whose constants can be looked at: TorchScript, or one
/// of torch.export.
bool is_artefact(const std::filesystem::path& file);

/// Audits an exported model, of which nothing is executed.
/// @param checks  names of rules; empty = those of such files
/// @throws core::Error{kUsage}
comparators::AuditReport audit_artefact(const std::filesystem::path& file,
                                        const std::vector<std::string>& checks,
                                        comparators::AuditPlan plan);

}  // namespace repro_check::cmd
