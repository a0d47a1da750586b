// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/index/index_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

namespace repro_check::store {

core::Digest index_digest(std::vector<TableDigest> tables) {
  std::ranges::sort(tables, {}, &TableDigest::name);
  std::string text;
  for (const TableDigest& table : tables) {
    fmt::format_to(std::back_inserter(text),
                   "{} {} {} {}\n",
                   table.name,
                   table.rows,
                   table.row_size,
                   core::to_hex(table.digest));
  }
  return core::digest_bytes(std::as_bytes(std::span<const char>(text)));
}

}  // namespace repro_check::store
