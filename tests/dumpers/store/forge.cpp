// SPDX-License-Identifier: Apache-2.0
#include "tests/dumpers/store/forge.h"

#include <fstream>
#include <stdexcept>

#include "dumpers/store/index/index.h"
#include "tests/dumpers/store/sample_dump.h"

namespace repro_check::test_support {

store::Extent index_extent(const std::filesystem::path& dump, const std::string& table) {
  const store::TraceFile file(dump / "trace.h5");
  const store::GroupHandle group = file.group("index");
  return file.dataset(group.get(), table, file.blame()).extent;
}

store::Extent content_extent(const std::filesystem::path& dump, const std::string& name) {
  const store::TraceFile file(dump / "trace.h5");
  const store::GroupHandle group = file.group("content");
  return file.dataset(group.get(), name, file.blame()).extent;
}

void overwrite(const std::filesystem::path& file,
               std::uint64_t offset,
               std::span<const std::byte> bytes) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(static_cast<std::streamoff>(offset));
  stream.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  if (!stream) throw std::runtime_error("the forger cannot write");
}

void forge_manifest(const std::filesystem::path& dump,
                    const std::function<void(core::RunManifest&)>& change) {
  const auto file = dump / "manifest.json";
  core::RunManifest manifest = core::manifest_from_json_text(read_bytes(file), file.string());
  change(manifest);
  write_bytes(file, core::to_json_text(manifest));
}

void resign(const std::filesystem::path& dump) {
  constexpr std::size_t kMany = 1000;
  std::vector<store::TableDigest> tables;
  {
    const store::TraceFile file(dump / "trace.h5");
    const store::GroupHandle group = file.group("index");
    for (const std::string& name : file.names(group.get(), kMany)) {
      tables.push_back(store::TableReader(file, group.get(), name).digest());
    }
  }
  const core::Digest digest = store::index_digest(std::move(tables));
  forge_manifest(dump, [&](core::RunManifest& m) { m.trace.index_digest = digest; });
}

void edit_trace(const std::filesystem::path& dump, const std::function<void(hid_t)>& change) {
  const store::Hdf5Scope scope;
  const store::FileHandle file(H5Fopen((dump / "trace.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
  if (file.get() < 0) throw std::runtime_error("the forger cannot open the trace");
  change(file.get());
}

}  // namespace repro_check::test_support
