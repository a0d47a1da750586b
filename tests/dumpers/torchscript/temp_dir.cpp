// SPDX-License-Identifier: Apache-2.0
#include "temp_dir.h"

#include <stdlib.h>

#include <fstream>
#include <stdexcept>

namespace repro_check::test {

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "repro-check-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_file(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace repro_check::test
