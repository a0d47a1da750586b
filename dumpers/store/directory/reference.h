// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace repro_check::store {

/// Checks that a recording can refer to the dump in `directory`.
/// @throws core::Error{kUsage} when there is no dump, when its digests follow another rule or when
///         it refers to a dump itself; otherwise as open_dump()
void require_reference(const std::filesystem::path& directory);

/// Whether both lead to one directory, there or not: a dump does not refer to itself.
bool is_same_place(const std::filesystem::path& left, const std::filesystem::path& right);

}  // namespace repro_check::store
