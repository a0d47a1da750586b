// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace repro_check::store {

inline constexpr const char* kPackDamagedHint =
    "the pack is damaged; copy it again, or pack the dump again";

/// Compresses into an open file, as one zstd frame with a checksum. What comes out depends on the
/// bytes, the level and the version of zstd, not on the number of processors.
class ZstdWriter {
 public:
  /// @param fd     borrowed, written from where it stands
  /// @param name   for messages
  /// @param level  1 to 19
  ZstdWriter(int fd, std::string name, int level);

  /// @throws core::Error{kIo}
  void write(std::span<const std::byte> bytes);
  void finish();

  /// Compressed bytes written.
  [[nodiscard]] std::uint64_t written() const noexcept { return written_; }

 private:
  struct Free {
    void operator()(ZSTD_CCtx* context) const noexcept { ZSTD_freeCCtx(context); }
  };
  [[nodiscard]] std::size_t compress(ZSTD_inBuffer& input, ZSTD_EndDirective directive);
  void set(ZSTD_cParameter parameter, int value);

  int fd_;
  std::string name_;
  std::unique_ptr<ZSTD_CCtx, Free> context_;
  std::vector<std::byte> buffer_;
  std::uint64_t written_ = 0;
};

/// Decompresses an open file from its start. The frames in it must be whole, and reach to its end.
class ZstdReader {
 public:
  /// @param fd    borrowed
  /// @param name  for messages
  ZstdReader(int fd, std::string name);

  /// The next bytes, valid until the next call; none at the end.
  /// @throws core::Error{kDumpDamaged}, {kIo}
  std::span<const std::byte> next();

  /// Compressed bytes read so far.
  [[nodiscard]] std::uint64_t consumed() const noexcept { return consumed_; }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
  };
  void refill();

  int fd_;
  std::string name_;
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  std::vector<std::byte> packed_;
  std::vector<std::byte> plain_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  std::uint64_t consumed_ = 0;
  bool inside_frame_ = false;
  bool full_ = false;  ///< the last call filled its buffer, so there may be more without input
};

}  // namespace repro_check::store
