// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "core/trace/run_manifest.h"
#include "dumpers/store/file/trace_file.h"
#include "dumpers/store/index/index.h"

namespace repro_check::test_support {

/// Where the bytes of a dataset of /index lie in the trace of `dump`.
store::Extent index_extent(const std::filesystem::path& dump, const std::string& table);
/// Where those of a content lie.
store::Extent content_extent(const std::filesystem::path& dump, const std::string& name);

void overwrite(const std::filesystem::path& file,
               std::uint64_t offset,
               std::span<const std::byte> bytes);

/// Puts `value` into one member of one row of the index.
template <typename T>
void forge_member(const std::filesystem::path& dump,
                  const store::TableLayout& table,
                  std::uint64_t row,
                  std::size_t member,
                  const T& value) {
  const store::Extent extent = index_extent(dump, table.name);
  overwrite(dump / "trace.h5",
            extent.offset + row * table.row_size + member,
            std::as_bytes(std::span<const T, 1>(&value, 1)));
}

/// Rewrites the manifest after `change`, with a digest of its own that holds.
void forge_manifest(const std::filesystem::path& dump,
                    const std::function<void(core::RunManifest&)>& change);

/// Makes the manifest's digests hold for whatever the index says now.
void resign(const std::filesystem::path& dump);

/// Opens trace.h5 for writing and hands the file to `change`.
void edit_trace(const std::filesystem::path& dump, const std::function<void(hid_t)>& change);

}  // namespace repro_check::test_support
