// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "configs/setting_changes.h"
#include "configs/spec/run_config.h"

namespace repro_check::cmd {

struct BisectChanges {
  std::vector<configs::SettingChange> changes;
  /// Why two model files are one change and not one a tensor; empty when they are not.
  std::string note;
};

/// In what two runs are set up differently. Two versions of a model's file are taken apart into the
/// tensors that differ between them, for which a recorder is asked.
/// @throws core::Error{kUsage} when `weights_from` names a file whose tensors cannot be taken, or
///         `weights` a tensor that is not there; what ask_recorder() throws
BisectChanges bisect_changes(const configs::RunSpec& baseline, const configs::RunSpec& candidate);

}  // namespace repro_check::cmd
