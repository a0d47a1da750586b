// SPDX-License-Identifier: Apache-2.0
#include "core/system/temporary_file.h"

#include <fcntl.h>

#include <cstdlib>

namespace repro_check::core {

std::string temporary_directory() {
  const char* variable = std::getenv("TMPDIR");
  return variable != nullptr && *variable != '\0' ? variable : "/tmp";
}

OpenedTemporary open_temporary(const std::string& directory) {
  constexpr mode_t kMode = 0600;
  OpenedTemporary opened;
  opened.file = FileDescriptor(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMode));
  if (opened.file.get() >= 0) return opened;
  opened.name = directory + "/repro-check-XXXXXX";
  opened.file = FileDescriptor(::mkostemp(opened.name.data(), O_CLOEXEC));
  return opened;
}

}  // namespace repro_check::core
