// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/pack/pack_writer.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <zstd.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "dumpers/store/file/plain_file.h"

namespace repro_check::store {
namespace {

using core::Error;
using core::ErrorKind;

/// What is still in its buffer shall not be written where nobody closed it.
struct Abandon {
  void operator()(archive* made) const noexcept {
    archive_write_fail(made);
    archive_write_free(made);
  }
};

class PackWriter {
 public:
  PackWriter(int fd, std::string name, int level)
      : fd_(fd),
        name_(std::move(name)),
        zstd_(ZSTD_createCCtx(), &ZSTD_freeCCtx),
        buffer_(ZSTD_CStreamOutSize()),
        archive_(archive_write_new()) {
    if (!zstd_ || !archive_) throw std::bad_alloc();
    set(ZSTD_c_compressionLevel, level);
    set(ZSTD_c_checksumFlag, 1);
    constexpr unsigned kMostWorkers = 8;
    // Not zero, even on one processor: how the input is cut into jobs shows in the output. A
    // library without threads refuses it, and has one way of its own.
    const unsigned workers = std::clamp(std::thread::hardware_concurrency(), 1U, kMostWorkers);
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_nbWorkers, static_cast<int>(workers));
    constexpr int kPiece = 1 << 20;
    constexpr int kTarBlock = 512;
    archive_write_set_format_pax_restricted(
        archive_.get());  // plain tar, but for sizes beyond 8 GiB
    archive_write_set_bytes_per_block(archive_.get(), kPiece);
    archive_write_set_bytes_in_last_block(archive_.get(), kTarBlock);
    archive_write_open2(archive_.get(), this, nullptr, &PackWriter::write, nullptr, nullptr);
  }
  void add(const PackedFile& file, const std::function<void(std::uint64_t)>& progress) {
    const std::uint64_t size = size_of(file.file, file.source);
    start_member(file.name, size);
    std::vector<std::byte> piece(std::min<std::uint64_t>(size, std::uint64_t{1} << 20U));
    for (std::uint64_t done = 0; done < size;) {
      const std::size_t wanted = std::min<std::uint64_t>(piece.size(), size - done);
      const std::size_t got =
          read_some(file.file.get(), done, std::span(piece).first(wanted), file.source);
      if (got == 0) {
        throw Error(ErrorKind::kDumpDamaged,
                    fmt::format("{}: became shorter while it was read", file.source));
      }
      expect(archive_write_data(archive_.get(), piece.data(), got) == static_cast<la_ssize_t>(got));
      done += got;
      packed_ += got;
      progress(packed_);
    }
  }

  std::uint64_t finish() {
    expect(archive_write_close(archive_.get()) == ARCHIVE_OK);
    while (compress({}, ZSTD_e_end) != 0) {
    }
    return written_;
  }

 private:
  /// Where libarchive's bytes go. No exception may cross it: it waits in `failure_`.
  static la_ssize_t write(archive* /*archive*/, void* self, const void* bytes, std::size_t size) {
    auto* writer = static_cast<PackWriter*>(self);
    try {
      writer->compress({static_cast<const std::byte*>(bytes), size}, ZSTD_e_continue);
      return static_cast<la_ssize_t>(size);
    } catch (...) {
      writer->failure_ = std::current_exception();
      return -1;
    }
  }

  void set(ZSTD_cParameter parameter, int value) {
    const std::size_t code = ZSTD_CCtx_setParameter(zstd_.get(), parameter, value);
    if (ZSTD_isError(code) == 0) return;
    throw Error(ErrorKind::kInternal, fmt::format("zstd: {}", ZSTD_getErrorName(code)));
  }

  /// All of `bytes`. @return what the frame still keeps back
  std::size_t compress(std::span<const std::byte> bytes, ZSTD_EndDirective directive) {
    ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
    std::size_t left = 0;
    do {
      ZSTD_outBuffer output{buffer_.data(), buffer_.size(), 0};
      left = ZSTD_compressStream2(zstd_.get(), &output, &input, directive);
      if (ZSTD_isError(left) != 0) {
        throw Error(ErrorKind::kIo, fmt::format("{}: zstd: {}", name_, ZSTD_getErrorName(left)));
      }
      write_whole(fd_, std::span(buffer_).first(output.pos), name_);
      written_ += output.pos;
    } while (input.pos < input.size);
    return left;
  }

  void start_member(const std::string& name, std::uint64_t size) {
    constexpr int kMode = 0644;
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                         &archive_entry_free);
    if (!entry) throw std::bad_alloc();
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), kMode);
    archive_entry_set_uid(entry.get(), 0);
    archive_entry_set_gid(entry.get(), 0);
    archive_entry_set_mtime(entry.get(), 0, 0);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size));
    expect(archive_write_header(archive_.get(), entry.get()) == ARCHIVE_OK);
  }

  void expect(bool good) {
    if (failure_) std::rethrow_exception(failure_);
    if (good) return;
    const char* reason = archive_error_string(archive_.get());
    throw Error(ErrorKind::kInternal,
                fmt::format("libarchive: {}", reason == nullptr ? "no reason" : reason));
  }

  int fd_;
  std::string name_;
  std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> zstd_;
  std::vector<std::byte> buffer_;
  std::unique_ptr<archive, Abandon> archive_;
  std::exception_ptr failure_;
  std::uint64_t packed_ = 0;
  std::uint64_t written_ = 0;
};

}  // namespace

std::uint64_t write_pack(int fd,
                         const std::string& name,
                         int level,
                         std::span<const PackedFile> files,
                         const std::function<void(std::uint64_t)>& progress) {
  PackWriter writer(fd, name, level);
  for (const PackedFile& file : files) writer.add(file, progress);
  return writer.finish();
}

}  // namespace repro_check::store
