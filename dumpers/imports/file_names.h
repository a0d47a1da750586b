// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace repro_check::imports {

/// What the name of a file says of the tensors in it.
struct NamedFile {
  std::string name;  ///< empty: the tensors have their names in the file
  std::optional<std::uint32_t> step;
  std::optional<std::uint32_t> rank;
  std::optional<std::uint64_t> call;  ///< orders what has one name in one step
};

/// Reads the path of a file, relative to the folder that is imported.
class FileNames {
 public:
  /// @param pattern  `{name}`, `{step}`, `{rank}` and `{call}` stand for what they say (numbers but
  ///                 for the name), `*` for anything but a slash. Without one: `key=value` with
  ///                 `___` between (SGLang's dumper), else the path is the name
  /// @throws core::Error{kUsage} for a pattern with another field, or one twice
  explicit FileNames(const std::optional<std::string>& pattern);
  ~FileNames();
  FileNames(const FileNames&) = delete;
  FileNames& operator=(const FileNames&) = delete;
  FileNames(FileNames&&) = delete;
  FileNames& operator=(FileNames&&) = delete;

  /// @return empty where the pattern does not match
  /// @throws core::Error{kUsage} for a number that is none, or too large
  [[nodiscard]] std::optional<NamedFile> read(const std::string& path) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
};

/// Whether `a` stands before `b`, with runs of digits taken as numbers: `step9` before `step10`.
bool is_before(const std::string& a, const std::string& b);

}  // namespace repro_check::imports
