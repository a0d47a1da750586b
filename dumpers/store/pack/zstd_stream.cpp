// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/pack/zstd_stream.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <thread>
#include <utility>

#include "core/error.h"
#include "dumpers/store/file/plain_file.h"

namespace repro_check::store {

ZstdWriter::ZstdWriter(int fd, std::string name, int level)
    : fd_(fd), name_(std::move(name)), context_(ZSTD_createCCtx()), buffer_(ZSTD_CStreamOutSize()) {
  if (!context_) throw std::bad_alloc();
  set(ZSTD_c_compressionLevel, level);
  set(ZSTD_c_checksumFlag, 1);
  constexpr unsigned kMostWorkers = 8;
  // Not zero, even on one processor: how the input is cut into jobs shows in the output. A library
  // without threads refuses it, and has one way of its own.
  const unsigned workers = std::clamp(std::thread::hardware_concurrency(), 1U, kMostWorkers);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_nbWorkers, static_cast<int>(workers));
}

void ZstdWriter::set(ZSTD_cParameter parameter, int value) {
  const std::size_t code = ZSTD_CCtx_setParameter(context_.get(), parameter, value);
  if (ZSTD_isError(code) == 0) return;
  throw core::Error(core::ErrorKind::kInternal, fmt::format("zstd: {}", ZSTD_getErrorName(code)));
}

std::size_t ZstdWriter::compress(ZSTD_inBuffer& input, ZSTD_EndDirective directive) {
  ZSTD_outBuffer output{buffer_.data(), buffer_.size(), 0};
  const std::size_t left = ZSTD_compressStream2(context_.get(), &output, &input, directive);
  if (ZSTD_isError(left) != 0) {
    throw core::Error(core::ErrorKind::kIo,
                      fmt::format("{}: zstd: {}", name_, ZSTD_getErrorName(left)));
  }
  write_whole(fd_, std::span(buffer_).first(output.pos), name_);
  written_ += output.pos;
  return left;
}

void ZstdWriter::write(std::span<const std::byte> bytes) {
  ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
  while (input.pos < input.size) static_cast<void>(compress(input, ZSTD_e_continue));
}

void ZstdWriter::finish() {
  ZSTD_inBuffer input{nullptr, 0, 0};
  while (compress(input, ZSTD_e_end) != 0) {
  }
}

ZstdReader::ZstdReader(int fd, std::string name)
    : fd_(fd),
      name_(std::move(name)),
      context_(ZSTD_createDCtx()),
      packed_(ZSTD_DStreamInSize()),
      plain_(ZSTD_DStreamOutSize()) {
  if (!context_) throw std::bad_alloc();
}

void ZstdReader::refill() {
  const std::size_t got = read_some(fd_, consumed_, packed_, name_);
  consumed_ += got;
  input_ = {packed_.data(), got, 0};
}

std::span<const std::byte> ZstdReader::next() {
  for (;;) {
    if (input_.pos == input_.size && !full_) {
      refill();
      if (input_.size == 0 && !inside_frame_) return {};
      if (input_.size == 0) {
        throw core::Error(core::ErrorKind::kDumpDamaged,
                          fmt::format("{}: ends too early", name_),
                          kPackDamagedHint);
      }
    }
    ZSTD_outBuffer output{plain_.data(), plain_.size(), 0};
    const std::size_t left = ZSTD_decompressStream(context_.get(), &output, &input_);
    if (ZSTD_isError(left) != 0) {
      throw core::Error(
          core::ErrorKind::kDumpDamaged,
          fmt::format("{}: cannot be decompressed: {}", name_, ZSTD_getErrorName(left)),
          kPackDamagedHint);
    }
    inside_frame_ = left != 0;
    full_ = inside_frame_ && output.pos == output.size;
    if (output.pos != 0) return std::span(plain_).first(output.pos);
  }
}

}  // namespace repro_check::store
