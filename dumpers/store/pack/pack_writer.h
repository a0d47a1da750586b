// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/system/file_descriptor.h"
#include "dumpers/store/pack/zstd_stream.h"

struct archive;

namespace repro_check::store {

/// Writes a tar archive through zstd. Two archives of the same members are equal: time, owner and
/// mode of the files do not go in.
class PackWriter {
 public:
  /// @param out  borrowed
  explicit PackWriter(ZstdWriter& out);
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;
  PackWriter(PackWriter&&) = delete;
  PackWriter& operator=(PackWriter&&) = delete;
  ~PackWriter();

  /// Adds a file under `name`.
  /// @param source    what `file` is called, for messages
  /// @param progress  told how many bytes are done after each piece
  /// @throws core::Error{kIo}, {kDumpDamaged} when the file shrinks meanwhile
  void add(const std::string& name,
           const core::FileDescriptor& file,
           const std::string& source,
           const std::function<void(std::uint64_t)>& progress);
  void finish();

 private:
  struct Sink;
  void expect(bool good);
  void start_member(const std::string& name, std::uint64_t size);

  std::unique_ptr<Sink> sink_;
  archive* archive_;
};

}  // namespace repro_check::store
