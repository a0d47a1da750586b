// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/zip_directory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <string_view>

namespace repro_check::torchscript {
namespace {

// Record layouts are those of the .ZIP File Format Specification (APPNOTE.TXT 6.3, PKWARE).
constexpr std::string_view kEndMark("PK\x05\x06", 4);
constexpr std::string_view kEnd64Mark("PK\x06\x06", 4);
constexpr std::string_view kLocatorMark("PK\x06\x07", 4);
constexpr std::string_view kEntryMark("PK\x01\x02", 4);
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kEnd64Size = 56;
constexpr std::size_t kLocatorSize = 20;
constexpr std::size_t kEntrySize = 46;
constexpr std::size_t kMaxComment = 0xFFFF;
// A model has thousands of entries, not millions: beyond this it is an attack or no model.
constexpr std::uint64_t kMaxDirectory = std::uint64_t{256} << 20U;

struct DirectoryPlace {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

std::uint64_t little_endian(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

std::optional<std::string> read_range(std::ifstream& in, std::uint64_t offset, std::uint64_t size) {
  std::string bytes(static_cast<std::size_t>(size), '\0');
  in.clear();
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(bytes.data(), static_cast<std::streamsize>(size));
  if (!in) return std::nullopt;
  return bytes;
}

/// Archives beyond 4 GiB keep the true numbers in a second record, found through a locator that
/// stands right before the first.
std::optional<DirectoryPlace> read_end64(std::ifstream& in,
                                         std::uint64_t end_offset,
                                         std::uint64_t file_size) {
  if (end_offset < kLocatorSize) return std::nullopt;
  const auto locator = read_range(in, end_offset - kLocatorSize, kLocatorSize);
  if (!locator || !locator->starts_with(kLocatorMark)) return std::nullopt;
  const std::uint64_t at = little_endian(*locator, 8, 8);
  if (file_size < kEnd64Size || at > file_size - kEnd64Size) return std::nullopt;
  const auto end64 = read_range(in, at, kEnd64Size);
  if (!end64 || !end64->starts_with(kEnd64Mark)) return std::nullopt;
  return DirectoryPlace{little_endian(*end64, 48, 8), little_endian(*end64, 40, 8)};
}

std::optional<DirectoryPlace> find_directory(std::ifstream& in, std::uint64_t file_size) {
  const std::uint64_t tail = std::min<std::uint64_t>(file_size, kEndSize + kMaxComment);
  const auto bytes = read_range(in, file_size - tail, tail);
  if (!bytes) return std::nullopt;
  const std::size_t at = bytes->rfind(kEndMark);
  if (at == std::string::npos || bytes->size() - at < kEndSize) return std::nullopt;
  const DirectoryPlace place{little_endian(*bytes, at + 16, 4), little_endian(*bytes, at + 12, 4)};
  if (place.offset == 0xFFFFFFFFU || place.size == 0xFFFFFFFFU) {
    return read_end64(in, file_size - tail + at, file_size);
  }
  return place;
}

std::vector<std::string> names_in(std::string_view directory) {
  std::vector<std::string> names;
  while (directory.size() >= kEntrySize && directory.starts_with(kEntryMark)) {
    const std::uint64_t name = little_endian(directory, 28, 2);
    const std::uint64_t extra = little_endian(directory, 30, 2);
    const std::uint64_t comment = little_endian(directory, 32, 2);
    const std::uint64_t whole = kEntrySize + name + extra + comment;
    if (whole > directory.size()) break;
    names.emplace_back(directory.substr(kEntrySize, static_cast<std::size_t>(name)));
    directory.remove_prefix(static_cast<std::size_t>(whole));
  }
  return names;
}

}  // namespace

std::optional<std::vector<std::string>> zip_entry_names(const std::filesystem::path& file) {
  std::error_code failure;
  const std::uint64_t size = std::filesystem::file_size(file, failure);
  if (failure || size < kEndSize) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  const auto place = in ? find_directory(in, size) : std::nullopt;
  if (!place || place->size > kMaxDirectory) return std::nullopt;
  if (place->size > size || place->offset > size - place->size) return std::nullopt;
  const auto directory = read_range(in, place->offset, place->size);
  if (!directory) return std::nullopt;
  return names_in(*directory);
}

}  // namespace repro_check::torchscript
