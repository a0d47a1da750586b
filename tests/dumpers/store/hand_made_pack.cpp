// SPDX-License-Identifier: Apache-2.0
#include "tests/dumpers/store/hand_made_pack.h"

#include <fmt/format.h>
#include <zstd.h>

#include <memory>
#include <stdexcept>

namespace repro_check::test_support {
namespace {

constexpr std::size_t kBlock = 512;

void put(std::string& header, std::size_t at, const std::string& text) {
  header.replace(at, text.size(), text);
}

}  // namespace

std::string signed_tar_header(std::string header) {
  put(header, 148, "        ");
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(header, 148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return header;
}

std::string tar_member(const TarMember& member) {
  std::string header(kBlock, '\0');
  put(header, 0, member.name.substr(0, 100));
  put(header, 100, "0000644");
  put(header, 108, "0000000");
  put(header, 116, "0000000");
  put(header, 124, member.size.empty() ? fmt::format("{:011o}", member.bytes.size()) : member.size);
  put(header, 136, "00000000000");
  header[156] = member.type;
  put(header, 157, member.link.substr(0, 100));
  put(header, 257, std::string("ustar\00000", 8));
  std::string padded = member.bytes;
  padded.resize((padded.size() + kBlock - 1) / kBlock * kBlock);
  return signed_tar_header(header) + padded;
}

std::string tar_archive(const std::vector<TarMember>& members) {
  std::string archive;
  for (const TarMember& member : members) archive += tar_member(member);
  return archive + std::string(2 * kBlock, '\0');
}

std::string zstd_frame(const std::string& bytes) {
  const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(),
                                                                        &ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      ZSTD_compress2(context.get(), frame.data(), frame.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(size) != 0) throw std::runtime_error(ZSTD_getErrorName(size));
  frame.resize(size);
  return frame;
}

std::string zstd_content(const std::string& frames) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                        &ZSTD_freeDCtx);
  std::string content;
  std::string piece(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer input{frames.data(), frames.size(), 0};
  std::size_t left = 1;
  while (input.pos < input.size || left != 0) {
    ZSTD_outBuffer output{piece.data(), piece.size(), 0};
    left = ZSTD_decompressStream(context.get(), &output, &input);
    if (ZSTD_isError(left) != 0) throw std::runtime_error(ZSTD_getErrorName(left));
    content.append(piece, 0, output.pos);
    if (input.pos == input.size && output.pos < output.size) break;
  }
  return content;
}

}  // namespace repro_check::test_support
