// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/system/file_descriptor.h"

namespace repro_check::core {

/// Where temporary files belong: TMPDIR, else /tmp.
std::string temporary_directory();

/// An empty file to read and write, for nobody but its owner.
struct OpenedTemporary {
  FileDescriptor file;  ///< negative, with errno, where none could be made
  std::string name;     ///< empty where the file system knows files without one
};
OpenedTemporary open_temporary(const std::string& directory);

}  // namespace repro_check::core
