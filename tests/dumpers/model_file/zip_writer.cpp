// SPDX-License-Identifier: Apache-2.0
#include "zip_writer.h"

#include <cstddef>
#include <cstdint>

namespace repro_check::test {
namespace {

void put(std::string& out, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) out += static_cast<char>((value >> (8 * i)) & 0xFFU);
}

}  // namespace

std::string zip_of(const std::vector<std::string>& names,
                   const std::string& content,
                   std::uint32_t checksum) {
  std::string contents;
  put(contents, checksum, 4);
  put(contents, content.size(), 4);
  put(contents, content.size(), 4);
  std::string entries;
  std::string directory;
  for (const std::string& name : names) {
    const std::uint64_t offset = entries.size();
    entries += std::string("PK\x03\x04", 4) + std::string(10, '\0') + contents;
    put(entries, name.size(), 2);
    put(entries, 0, 2);
    entries += name + content;
    directory += std::string("PK\x01\x02", 4) + std::string(12, '\0') + contents;
    put(directory, name.size(), 2);
    directory += std::string(12, '\0');
    put(directory, offset, 4);
    directory += name;
  }
  std::string end = std::string("PK\x05\x06", 4) + std::string(4, '\0');
  put(end, names.size(), 2);
  put(end, names.size(), 2);
  put(end, directory.size(), 4);
  put(end, entries.size(), 4);
  put(end, 0, 2);
  return entries + directory + end;
}

}  // namespace repro_check::test
