// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/digest/digest.h"

namespace repro_check::store {

/// What the index digest covers of one dataset of /index.
struct TableDigest {
  std::string name;
  std::uint64_t rows = 0;
  std::uint64_t row_size = 0;
  core::Digest digest;  ///< core::digest_bytes of its raw bytes
};

/// Digest of the whole index: of the text with one line `name rows row_size digest` a dataset, in
/// ascending byte order of name.
core::Digest index_digest(std::vector<TableDigest> tables);

}  // namespace repro_check::store
