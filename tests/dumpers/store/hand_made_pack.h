// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace repro_check::test_support {

/// A member of a tar archive as somebody might have written it who means ill.
struct TarMember {
  std::string name;
  std::string bytes = {};
  char type = '0';  ///< as in the header: 0 plain, 1 hard link, 2 symbolic link, 5 directory, ...
  std::string link = {};
  std::string size = {};  ///< twelve bytes of the header in place of what `bytes` has
};

/// The header and the bytes, padded to whole blocks.
std::string tar_member(const TarMember& member);

/// A header of 512 bytes with a checksum that holds.
std::string signed_tar_header(std::string header);

/// All of them and the end of an archive.
std::string tar_archive(const std::vector<TarMember>& members);

/// One frame with a checksum.
std::string zstd_frame(const std::string& bytes);
/// What all frames hold together.
std::string zstd_content(const std::string& frames);

}  // namespace repro_check::test_support
