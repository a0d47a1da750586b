// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "configs/parser/json_reader.h"
#include "configs/parser/problems.h"

namespace repro_check::configs::detail {

/// A number of bytes: `268435456` or `"256MiB"` (KiB, MiB, GiB, TiB).
/// @param least  smaller ones are reported
std::optional<std::uint64_t> read_byte_size(const Node& node,
                                            std::uint64_t least,
                                            Problems& problems);

}  // namespace repro_check::configs::detail
