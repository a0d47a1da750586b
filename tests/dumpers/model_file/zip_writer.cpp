// SPDX-License-Identifier: Apache-2.0
#include "zip_writer.h"

#include <cstddef>
#include <cstdint>

namespace repro_check::test {
namespace {

void put(std::string& out, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) out += static_cast<char>((value >> (8 * i)) & 0xFFU);
}

std::uint32_t checksum_of(const std::string& content) {
  constexpr std::uint32_t kPolynomial = 0xEDB88320U;
  std::uint32_t sum = ~std::uint32_t{0};
  for (const char each : content) {
    sum ^= static_cast<unsigned char>(each);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1U) ^ ((sum & 1U) * kPolynomial);
  }
  return ~sum;
}

struct Entry {
  std::string name;
  std::string content;
  std::uint32_t checksum = 0;
};

std::string zip_of_entries(const std::vector<Entry>& all) {
  std::string entries;
  std::string directory;
  for (const Entry& each : all) {
    std::string contents;
    put(contents, each.checksum, 4);
    put(contents, each.content.size(), 4);
    put(contents, each.content.size(), 4);
    const std::uint64_t offset = entries.size();
    entries += std::string("PK\x03\x04", 4) + std::string(10, '\0') + contents;
    put(entries, each.name.size(), 2);
    put(entries, 0, 2);
    entries += each.name + each.content;
    directory += std::string("PK\x01\x02", 4) + std::string(12, '\0') + contents;
    put(directory, each.name.size(), 2);
    directory += std::string(12, '\0');
    put(directory, offset, 4);
    directory += each.name;
  }
  std::string end = std::string("PK\x05\x06", 4) + std::string(4, '\0');
  put(end, all.size(), 2);
  put(end, all.size(), 2);
  put(end, directory.size(), 4);
  put(end, entries.size(), 4);
  put(end, 0, 2);
  return entries + directory + end;
}

}  // namespace

std::string zip_of(const std::vector<std::string>& names,
                   const std::string& content,
                   std::uint32_t checksum) {
  std::vector<Entry> all;
  for (const std::string& name : names) all.push_back({name, content, checksum});
  return zip_of_entries(all);
}

std::string zip_holding(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::vector<Entry> all;
  for (const auto& [name, content] : entries) {
    all.push_back({name, content, checksum_of(content)});
  }
  return zip_of_entries(all);
}

}  // namespace repro_check::test
