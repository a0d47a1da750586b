// SPDX-License-Identifier: Apache-2.0
#include "core/digest/file_digest.h"

#include <cstddef>
#include <fstream>
#include <span>
#include <vector>

#include "core/digest/digest_stream.h"
#include "core/error.h"

namespace repro_check::core {

Digest digest_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> piece(kDigestChunk);
  DigestStream digest;
  while (in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    digest.add(std::as_bytes(std::span(piece).first(static_cast<std::size_t>(in.gcount()))));
  }
  if (!in.eof()) throw Error(ErrorKind::kUsage, "cannot read " + file.string());
  return digest.finish();
}

}  // namespace repro_check::core
