// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "core/tensor/tensor_record.h"
#include "dumpers/journal/recorded_journal.h"

namespace repro_check::store {

/// The contents of a recording that has no index yet, from where its journal says they are. Its
/// files are opened by their fixed names in the one directory, and never through a link.
class ContentVault {
 public:
  /// @param journal  of that directory; borrowed
  ContentVault(std::filesystem::path directory, const journal::RecordedJournal& journal);
  ContentVault(const ContentVault&) = delete;
  ContentVault& operator=(const ContentVault&) = delete;
  ContentVault(ContentVault&&) = delete;
  ContentVault& operator=(ContentVault&&) = delete;
  ~ContentVault();

  /// @param into  replaced; the bytes where the answer is true
  /// @return whether the bytes are there and match their digest
  bool read(const core::ContentKey& key, std::vector<std::byte>& into) const;

 private:
  struct File {
    int fd = -1;
    std::uint64_t size = 0;
    bool tried = false;
  };

  [[nodiscard]] const File& file(journal::ContentPlace place) const;

  std::filesystem::path directory_;
  const journal::RecordedJournal& journal_;
  mutable std::array<File, 3> files_;  ///< by place
};

}  // namespace repro_check::store
