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

/// Decides what may be in a pack: manifest.json and trace.h5, each once and a plain file, in one
/// directory or in none; the directory itself may be there too, because `tar` puts it there.
class PackMembers {
 public:
  /// @param pack  for messages
  explicit PackMembers(std::string pack) : pack_(std::move(pack)) {}

  /// @param largest  bytes that no member can have more of
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
