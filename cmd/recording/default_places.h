// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cmd/recording/output_lock.h"
#include "configs/spec/run_config.h"

namespace repro_check::cmd {

using configs::kDefaultFolder;

/// `train-3fa2` of `python train.py`: the name of the script or module, and four digits of the
/// digest of where that is, so that two programs do not share a folder.
std::string name_of_program(const std::vector<std::string>& command);

/// A place for a recording, held until it is destroyed.
struct HeldPlace {
  std::filesystem::path directory;
  std::unique_ptr<OutputLock> beside;  ///< of the folder around it
  std::unique_ptr<OutputLock> lock;
};

/// The first of `repro-check-out/exec-1`, `exec-2`, ... that is free.
/// @throws core::Error{kUsage} where nothing can be made there
HeldPlace next_place();

/// The last recording that next_place() gave a place, and the last one before it of the same
/// command line.
/// @throws core::Error{kUsage} where there are no such two, with the recordings that there are
std::pair<std::filesystem::path, std::filesystem::path> last_two_alike();

}  // namespace repro_check::cmd
