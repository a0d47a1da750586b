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
#include "core/system/pinned.h"
#include "core/tensor/tensor_record.h"
#include "dumpers/store/file/hdf5.h"
#include "dumpers/store/file/plain_file.h"

namespace repro_check::store {

/// A new trace.h5 with its format attributes; big datasets will start at a multiple of
/// kDirectBlock.
FileHandle create_trace(const std::filesystem::path& file, const Blame& blame);

/// A group that does not remember when it was made: a dump depends on what was recorded only.
GroupHandle make_group(hid_t parent, const std::string& name, const Blame& blame);

/// `1.0`, the version that create_trace writes.
std::string format_version();

/// Dataset creation for all we write: contiguous, allocated at once, never filled.
PropertyHandle contiguous_creation(const Blame& blame);

/// Makes the datasets of the group `/content`.
class ContentDatasets {
 public:
  /// @param group  borrowed
  ContentDatasets(hid_t group, Blame blame);

  /// A dataset whose bytes somebody else writes.
  /// @param key  of at least one byte
  /// @return where in the file they belong
  [[nodiscard]] std::uint64_t allocate(const core::ContentKey& key) const;

  /// @param to  of the same dtype and shape, and not there yet
  void rename(const core::ContentKey& from, const core::ContentKey& to) const;
  /// Its room is given to others.
  void remove(const core::ContentKey& key) const;

  /// A dataset with its bytes.
  void write(const core::ContentKey& key, std::span<const std::byte> bytes) const;

 private:
  [[nodiscard]] DatasetHandle create(const core::ContentKey& key, const Blame& blame) const;
  [[nodiscard]] Blame blame_for(const core::ContentKey& key) const;

  hid_t group_;
  Blame blame_;
  ElementTypes types_;
  PropertyHandle creation_;
};

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
  std::string name;            ///< for messages
  std::filesystem::path path;  ///< where HDF5 finds it; empty for a temporary file
  core::TemporaryName temporary =
      {};  ///< where it finds that; made when it is needed, and then removed
};

/// @throws core::Error{kDumpDamaged} when it is missing or a link; {kIo}
OpenTrace open_trace(const std::filesystem::path& file);

/// trace.h5, opened for reading, and trusted in nothing: HDF5 only tells where bytes lie, within
/// bounds that are checked here; the bytes are read past it.
class TraceFile : core::Pinned {
 public:
  /// @throws core::Error{kDumpDamaged} when it is no HDF5 file or not a trace; {kIo}
  explicit TraceFile(OpenTrace trace);
  explicit TraceFile(const std::filesystem::path& file) : TraceFile(open_trace(file)) {}

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
  OpenTrace trace_;
  Blame blame_;
  std::uint64_t size_ = 0;
  FileHandle file_;
};

/// Bytes of the file, lent for as long as they are held.
struct LentBytes {
  std::shared_ptr<const std::vector<std::byte>> owner;
  std::span<const std::byte> bytes;
};

/// Reads small contents that are asked for in the order in which they lie many at once: a system
/// call each would cost more than everything else that is done with them. For one thread at a time.
class PackedWindow {
 public:
  /// @param packed  where all of them lie
  /// @return the bytes of `content`, or nothing where it does not follow the one asked for before,
  ///         or the file cannot be read so: then whoever reads it alone will see why
  LentBytes find(const TraceFile& file, const Extent& packed, const Extent& content);

 private:
  std::uint64_t expected_ = 0;  ///< where the last content ended
  std::uint64_t begin_ = 0;
  std::shared_ptr<const std::vector<std::byte>> bytes_;
};

}  // namespace repro_check::store
