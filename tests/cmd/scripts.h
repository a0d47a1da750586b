// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/files.h"
#include "tests/support/temp_directory.h"

namespace repro_check::cmd {

using test_support::read_file;
using test_support::TempDirectory;

/// Writes a shell script that stands in for a recorder.
inline std::filesystem::path write_script(const TempDirectory& folder,
                                          const std::string& name,
                                          const std::string& body) {
  const std::filesystem::path file = folder / name;
  std::ofstream(file) << "#!/bin/sh\n" << body;
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  return file;
}

}  // namespace repro_check::cmd
