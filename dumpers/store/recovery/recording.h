// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/trace/run_manifest.h"
#include "dumpers/journal/journal_reader.h"

namespace repro_check::store {

/// The directory of the journal that `path`, a directory or the journal itself, names.
/// @throws core::Error{kDumpUnknown} when there is none; {kUsage} when a complete dump is there
std::filesystem::path locate_journal(const std::filesystem::path& path);

/// What a recording that has no index yet has left in its directory. Its files are opened by their
/// fixed names there, and never through a link.
class Recording {
 public:
  /// @throws as journal::RecordedJournal
  explicit Recording(std::filesystem::path directory);

  [[nodiscard]] const journal::RecordedJournal& journal() const noexcept { return journal_; }

  /// Whether the bytes of a content are in the dump that the recording refers to.
  [[nodiscard]] bool is_referred(const core::ContentKey& key) const;

  /// @param into  replaced; the bytes where the answer is true
  /// @return whether the bytes are here and match their digest
  bool read(const core::ContentKey& key, std::vector<std::byte>& into) const;

  /// The manifest as the recording left it, or as it was known when it began, with `trace.partial`
  /// set unless everything is there.
  /// @param name  stands for the run's where the journal does not know it
  /// @throws core::Error{kDumpDamaged} when the manifest in the journal makes no sense
  [[nodiscard]] core::RunManifest manifest(const std::string& name,
                                           std::uint64_t lost_contents) const;

 private:
  [[nodiscard]] int file(journal::ContentPlace place) const;

  std::filesystem::path directory_;
  journal::RecordedJournal journal_;
  mutable std::array<std::optional<core::FileDescriptor>, 3> files_;  ///< by place
};

}  // namespace repro_check::store
