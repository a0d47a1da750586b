// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "core/trace/dump_source.h"

namespace repro_check::store {

/// Opens a dump, or what an unfinished recording has left, without writing anything. The latter
/// reads like a dump whose manifest says `trace.partial`; contents whose bytes never arrived are
/// not stored.
/// @param references  as for open_dump
/// @throws as open_dump; core::Error{kDumpIncomplete} when there is no journal to read
std::unique_ptr<core::DumpSource> open_partial(
    const std::filesystem::path& directory,
    const std::vector<std::filesystem::path>& references = {});

}  // namespace repro_check::store
