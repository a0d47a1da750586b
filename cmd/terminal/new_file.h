// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace repro_check::cmd {

/// @return false with errno set
bool write_all(int descriptor, std::string_view text) noexcept;

/// A file that is written beside the one that is wanted, under a name that no other process takes;
/// a reader finds the old one or the new one, whole.
/// Without commit() it is taken away again. Devices and pipes are written in place.
class NewFile {
 public:
  /// @throws core::Error{kIo}, as the other members
  explicit NewFile(const std::filesystem::path& file);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  NewFile(NewFile&&) = delete;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  void put(std::string_view text) const;
  void commit();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path file_;
  std::string target_;
  int descriptor_ = -1;
  bool in_place_ = false;
  bool committed_ = false;
};

/// Takes a document piece by piece.
using TextSink = std::function<void(std::string_view)>;

/// Writes a document that is made while it is written, whatever its length. Nothing is left behind
/// where `produce` throws.
/// @throws core::Error{kIo}, and what `produce` throws
void write_pieces(const std::filesystem::path& file,
                  const std::function<void(const TextSink&)>& produce);

}  // namespace repro_check::cmd
