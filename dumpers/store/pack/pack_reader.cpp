// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/pack/pack_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/text/printable.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/directory/pack_name.h"
#include "dumpers/store/file/plain_file.h"
#include "dumpers/store/pack/pack_members.h"
#include "dumpers/store/pack/zstd_stream.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::Error;
using core::ErrorKind;

class PackReader {
 public:
  PackReader(const fs::path& pack, const PackProgress& progress)
      : name_(core::printable(pack.string())),
        file_(open_plain(fs::canonical(pack))),
        packed_bytes_(size_of(file_, name_)),
        stream_(file_.get(), name_),
        progress_(progress),
        archive_(archive_read_new(), &archive_read_free) {
    if (!archive_) throw std::bad_alloc();
    archive_read_support_format_tar(archive_.get());
    check(archive_read_open(archive_.get(), this, nullptr, &PackReader::read, nullptr));
  }

  PackContents read_all(const MakeTraceFile& make_trace) {
    PackContents contents;
    PackMembers members(name_);
    archive_entry* entry = nullptr;
    while (next(&entry)) {
      const PackMember member = members.accept(entry, largest_member(packed_bytes_));
      if (member.kind == PackMember::Kind::kManifest) {
        copy(member, [&](std::span<const std::byte> bytes) {
          contents.manifest.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        });
      } else if (member.kind == PackMember::Kind::kTrace) {
        contents.trace = make_trace(member.bytes);
        contents.trace_bytes = member.bytes;
        contents.trace.name = name_ + ": " + kTraceName;
        copy(member, [&](std::span<const std::byte> bytes) {
          write_whole(contents.trace.file.get(), bytes, contents.trace.name);
        });
      }
    }
    members.expect_all();
    read_rest();
    return contents;
  }

 private:
  /// Hands libarchive the next bytes of the tar. No exception may cross it: it waits in `failure_`.
  static la_ssize_t read(archive* /*archive*/, void* self, const void** bytes) {
    auto* reader = static_cast<PackReader*>(self);
    try {
      const std::span<const std::byte> piece = reader->stream_.next();
      *bytes = piece.data();
      if (reader->progress_) {
        reader->progress_(PackPhase::kUnpacking, reader->stream_.consumed(), reader->packed_bytes_);
      }
      return static_cast<la_ssize_t>(piece.size());
    } catch (...) {
      reader->failure_ = std::current_exception();
      return -1;
    }
  }

  void check(int code) const {
    if (failure_) std::rethrow_exception(failure_);
    if (code == ARCHIVE_OK || code == ARCHIVE_WARN) return;
    const char* reason = archive_error_string(archive_.get());
    throw Error(ErrorKind::kDumpDamaged,
                fmt::format("{}: is not a whole tar archive ({})",
                            name_,
                            core::printable(reason == nullptr ? "no reason" : reason)),
                kPackDamagedHint);
  }

  bool next(archive_entry** entry) {
    const int code = archive_read_next_header(archive_.get(), entry);
    check(code == ARCHIVE_EOF ? ARCHIVE_OK : code);
    return code != ARCHIVE_EOF;
  }

  template <typename Take>
  void copy(const PackMember& member, Take take) {
    std::uint64_t done = 0;
    for (;;) {
      const void* bytes = nullptr;
      std::size_t size = 0;
      la_int64_t offset = 0;
      const int code = archive_read_data_block(archive_.get(), &bytes, &size, &offset);
      check(code == ARCHIVE_EOF || code == ARCHIVE_OK ? ARCHIVE_OK : ARCHIVE_FATAL);
      if (code == ARCHIVE_EOF) break;
      if (static_cast<std::uint64_t>(offset) != done || size > member.bytes - done) break;
      take(std::span(static_cast<const std::byte*>(bytes), size));
      done += size;
    }
    if (done == member.bytes) return;
    throw Error(ErrorKind::kDumpDamaged,
                fmt::format("{}: {} is not as long as it says", name_, member.name),
                kPackDamagedHint);
  }

  /// Checksums stand at the end of what they cover, behind the end of the archive. Programs fill
  /// that up with zeros, but not endlessly.
  void read_rest() {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 20U;
    std::uint64_t rest = 0;
    for (;;) {
      const std::span<const std::byte> piece = stream_.next();
      if (piece.empty()) return;
      rest += piece.size();
      if (rest > kMost ||
          std::ranges::any_of(piece, [](std::byte b) { return b != std::byte{}; })) {
        throw Error(ErrorKind::kDumpDamaged,
                    fmt::format("{}: goes on behind the end of its archive", name_),
                    kPackDamagedHint);
      }
    }
  }

  std::string name_;
  core::FileDescriptor file_;
  std::uint64_t packed_bytes_;
  ZstdReader stream_;
  const PackProgress& progress_;
  std::exception_ptr failure_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
};

}  // namespace

PackContents read_pack(const fs::path& pack,
                       const MakeTraceFile& make_trace,
                       const PackProgress& progress) {
  expect_pack(pack);
  return PackReader(pack, progress).read_all(make_trace);
}

PackContents read_pack(const fs::path& pack, const PackProgress& progress) {
  const auto make = [](std::uint64_t bytes) {
    TemporaryFile made = create_temporary(bytes);
    return OpenTrace{std::move(made.file), "", "", std::move(made.name)};
  };
  return read_pack(pack, make, progress);
}

std::string name_inside(const fs::path& pack, const char* file) {
  return fmt::format("{}: {}", core::printable(pack.string()), file);
}

}  // namespace repro_check::store
