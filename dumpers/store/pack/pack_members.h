// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

struct archive_entry;

namespace repro_check::store {

/// One thing in a pack.
struct PackMember {
  enum class Kind { kDirectory, kManifest, kTrace } kind = Kind::kDirectory;
  const char* name = "";
  std::uint64_t bytes = 0;
};

/// Bytes that no file in a pack of so many may have: 1 GiB, and 1,024 for each of them. zstd makes
/// 32,768 of one, and whoever forges a pack would have us unpack those before we see it.
constexpr std::uint64_t largest_member(std::uint64_t packed_bytes) noexcept {
  return (std::uint64_t{1} << 30U) + (packed_bytes << 10U);
}

/// Decides what may be in a pack: manifest.json and trace.h5, each once and a plain file, in one
/// directory or in none; the directory itself may be there too, because `tar` puts it there.
class PackMembers {
 public:
  /// @param pack  for messages
  explicit PackMembers(std::string pack) : pack_(std::move(pack)) {}

  /// @param largest  as largest_member() gives it
  /// @throws core::Error{kDumpUnknown}, {kDumpDamaged}
  PackMember accept(archive_entry* entry, std::uint64_t largest);

  /// @throws core::Error{kDumpUnknown} when a file is missing
  void expect_all() const;

 private:
  [[noreturn]] void refuse(std::string_view name, const char* why) const;
  PackMember known(std::string_view name, std::string_view base);
  void expect_directory(std::string_view name, const std::string& directory);

  std::string pack_;
  std::optional<std::string> directory_;
  bool has_directory_entry_ = false;
  bool has_manifest_ = false;
  bool has_trace_ = false;
};

}  // namespace repro_check::store
