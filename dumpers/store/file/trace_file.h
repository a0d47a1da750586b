// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"
#include "dumpers/store/file/hdf5_handle.h"
#include "dumpers/store/file/hdf5_scope.h"
#include "dumpers/store/file/plain_file.h"

namespace repro_check::store {

/// Where a dataset's bytes lie.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  /// The file of its own that holds them; none: the trace.
  std::shared_ptr<const core::FileDescriptor> copy = nullptr;
};

/// A dataset of a trace that has passed the checks of TraceFile::dataset.
struct PlainDataset {
  TypeHandle type;
  std::vector<hsize_t> dims;
  Extent extent;
};

/// trace.h5, opened, and not looked into yet.
struct OpenTrace {
  core::FileDescriptor file;
  std::string name;              ///< for messages
  std::filesystem::path path;    ///< where HDF5 finds it; empty for a temporary file
  TemporaryName temporary = {};  ///< where it finds that; made when it is needed, and then removed
};

/// @throws core::Error{kDumpDamaged} when it is missing or a link; {kIo}
OpenTrace open_trace(const std::filesystem::path& file);

/// trace.h5, opened for reading, and trusted in nothing: HDF5 only tells where bytes lie, within
/// bounds that are checked here; the bytes are read past it.
class TraceFile {
 public:
  /// @throws core::Error{kDumpDamaged} when it is no HDF5 file or not a trace; {kIo}
  explicit TraceFile(OpenTrace trace);
  explicit TraceFile(const std::filesystem::path& file) : TraceFile(open_trace(file)) {}
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  TraceFile(TraceFile&&) = delete;
  TraceFile& operator=(TraceFile&&) = delete;
  ~TraceFile() = default;

  /// A group of the root, reached by a hard link. `name` names it in messages too.
  [[nodiscard]] GroupHandle group(const char* name) const;

  /// Names of all links of a group, ascending. @param limit  more are refused
  [[nodiscard]] std::vector<std::string> names(hid_t group, std::size_t limit) const;

  /// A dataset of this file: a hard link, unfiltered, no external or virtual storage, wholly inside
  /// the file. Where it is contiguous and little-endian, as ours are, its extent is there; what
  /// another program stored otherwise is copied out first, and `type` is that of the copy.
  [[nodiscard]] PlainDataset dataset(hid_t group,
                                     const std::string& name,
                                     const Blame& blame) const;

  /// The bytes of `extent` from `begin` on. @throws core::Error{kDumpDamaged} when the file ends
  /// before, {kIo}
  void read(const Extent& extent, std::uint64_t begin, std::span<std::byte> into) const;

  /// The root group, for dataset() and has_link().
  [[nodiscard]] hid_t root() const noexcept { return file_.get(); }
  [[nodiscard]] const Blame& blame() const noexcept { return blame_; }
  [[nodiscard]] bool has_link(hid_t group, const std::string& name) const;

 private:
  void check_identity() const;
  [[nodiscard]] Extent contiguous_extent(hid_t dataset,
                                         std::uint64_t bytes,
                                         const Blame& blame) const;
  [[nodiscard]] Extent copied_extent(hid_t dataset,
                                     hid_t type,
                                     std::uint64_t bytes,
                                     const Blame& blame) const;
  [[nodiscard]] std::string identity(const char* name) const;

  OpenTrace trace_;
  Blame blame_;
  std::uint64_t size_ = 0;
  FileHandle file_;
};

}  // namespace repro_check::store
