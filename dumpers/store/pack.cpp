// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/text/text.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/file/plain_file.h"
#include "dumpers/store/pack_file.h"

namespace repro_check::store {

namespace {

namespace fs = std::filesystem;

/// A file that goes into a pack, and which it was when it was found.
struct PackedFile {
  fs::path source;
  std::string name;  ///< in the pack
  std::uint64_t bytes = 0;
  std::uint64_t inode = 0;
};

std::uint64_t inode_of(const core::FileDescriptor& file) {
  struct stat found {};
  return ::fstat(file.get(), &found) == 0 ? found.st_ino : 0;
}

/// All that go into it, in that order.
struct PackedFiles {
  std::vector<PackedFile> files;
  std::uint64_t bytes = 0;

  void add(const fs::path& source, std::string name) {
    const core::FileDescriptor opened = open_plain(source);
    files.push_back({source, std::move(name), size_of(opened, source.string()), inode_of(opened)});
    bytes += files.back().bytes;
  }
  /// @param inside  its directory in the pack, with a slash
  void add_dump(const fs::path& directory, const std::string& inside) {
    for (const char* file : {kManifestName, kTraceName}) add(directory / file, inside + file);
  }
};

/// Bytes that no file in a pack of so many may have: 1 GiB, and 1,024 for each of them. zstd makes
/// 32,768 of one, and whoever forges a pack would have us unpack those before we see it.
constexpr std::uint64_t largest_member(std::uint64_t packed_bytes) noexcept {
  return (std::uint64_t{1} << 30U) + (packed_bytes << 10U);
}

/// Makes the file that a trace goes to; so many bytes will be written.
/// @param part  the directory of the dump that it is of, below the first: `rank-0`, `proc-1`;
/// empty:
///              that itself
using MakeTraceFile = std::function<OpenTrace(const std::string& part, std::uint64_t bytes)>;

/// What is in a pack, by the directory below the first: one dump in that itself, or one for each
/// rank, and inside of each those of other processes.
struct PackedDumps {
  std::map<std::string, PackContents> dumps;
  std::string rank_count;  ///< text of ranks.json; empty where it is not there
};

/// What is still in its buffer shall not be written where nobody closed it.
struct Abandon {
  void operator()(archive* made) const noexcept {
    archive_write_fail(made);
    archive_write_free(made);
  }
};

/// Writes a tar archive as one zstd frame with a checksum. What comes out depends on the bytes, the
/// names, the level and the version of zstd: not on the time, owner or mode of the files, nor on
/// the number of processors.
class PackWriter {
 public:
  /// @param fd     written from where it stands
  /// @param name   of it, for messages
  /// @param level  1 to 19
  PackWriter(int fd, std::string name, int level)
      : fd_(fd),
        name_(std::move(name)),
        zstd_(ZSTD_createCCtx(), &ZSTD_freeCCtx),
        buffer_(ZSTD_CStreamOutSize()),
        archive_(archive_write_new()) {
    if (!zstd_ || !archive_) throw std::bad_alloc();
    set(ZSTD_c_compressionLevel, level);
    set(ZSTD_c_checksumFlag, 1);
    constexpr unsigned kMostWorkers = 8;
    // Not zero, even on one processor: how the input is cut into jobs shows in the output. A
    // library without threads refuses it, and has one way of its own.
    const unsigned workers = std::clamp(std::thread::hardware_concurrency(), 1U, kMostWorkers);
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_nbWorkers, static_cast<int>(workers));
    constexpr int kPiece = 1 << 20;
    constexpr int kTarBlock = 512;
    archive_write_set_format_pax_restricted(
        archive_.get());  // plain tar, but for sizes beyond 8 GiB
    archive_write_set_bytes_per_block(archive_.get(), kPiece);
    archive_write_set_bytes_in_last_block(archive_.get(), kTarBlock);
    archive_write_open2(archive_.get(), this, nullptr, &PackWriter::write, nullptr, nullptr);
  }
  /// @param progress  told how many bytes of all files are done after each piece
  /// @throws core::Error{kIo}, {kDumpDamaged} when the file shrinks meanwhile
  void add(const PackedFile& file, const std::function<void(std::uint64_t)>& progress) {
    const core::FileDescriptor opened = open_plain(file.source);
    const std::string source = file.source.string();
    if (inode_of(opened) != file.inode) {
      throw core::damaged_dump(fmt::format("{}: was replaced while it was packed", source),
                               "pack it again");
    }
    start_member(file.name, file.bytes);
    std::vector<std::byte> piece(std::min<std::uint64_t>(file.bytes, std::uint64_t{1} << 20U));
    for (std::uint64_t done = 0; done < file.bytes;) {
      const std::size_t wanted = std::min<std::uint64_t>(piece.size(), file.bytes - done);
      const std::size_t got = read_some(opened.get(), done, std::span(piece).first(wanted), source);
      if (got == 0) {
        throw core::damaged_dump(fmt::format("{}: became shorter while it was read", source));
      }
      expect(archive_write_data(archive_.get(), piece.data(), got) == static_cast<la_ssize_t>(got));
      done += got;
      packed_ += got;
      progress(packed_);
    }
  }

  /// @return bytes written
  std::uint64_t finish() {
    expect(archive_write_close(archive_.get()) == ARCHIVE_OK);
    while (compress({}, ZSTD_e_end) != 0) {
    }
    return written_;
  }

 private:
  /// Where libarchive's bytes go. No exception may cross it: it waits in `failure_`.
  static la_ssize_t write(archive* /*archive*/, void* self, const void* bytes, std::size_t size) {
    auto* writer = static_cast<PackWriter*>(self);
    try {
      writer->compress({static_cast<const std::byte*>(bytes), size}, ZSTD_e_continue);
      return static_cast<la_ssize_t>(size);
    } catch (...) {
      writer->failure_ = std::current_exception();
      return -1;
    }
  }

  void set(ZSTD_cParameter parameter, int value) {
    const std::size_t code = ZSTD_CCtx_setParameter(zstd_.get(), parameter, value);
    if (ZSTD_isError(code) == 0) return;
    throw core::internal_error(fmt::format("zstd: {}", ZSTD_getErrorName(code)));
  }

  /// All of `bytes`. @return what the frame still keeps back
  std::size_t compress(std::span<const std::byte> bytes, ZSTD_EndDirective directive) {
    ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
    std::size_t left = 0;
    do {
      ZSTD_outBuffer output{buffer_.data(), buffer_.size(), 0};
      left = ZSTD_compressStream2(zstd_.get(), &output, &input, directive);
      if (ZSTD_isError(left) != 0) {
        throw core::io_error(fmt::format("{}: zstd: {}", name_, ZSTD_getErrorName(left)));
      }
      write_whole(fd_, std::span(buffer_).first(output.pos), name_);
      written_ += output.pos;
    } while (input.pos < input.size);
    return left;
  }

  void start_member(const std::string& name, std::uint64_t size) {
    constexpr int kMode = 0644;
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                         &archive_entry_free);
    if (!entry) throw std::bad_alloc();
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), kMode);
    archive_entry_set_uid(entry.get(), 0);
    archive_entry_set_gid(entry.get(), 0);
    archive_entry_set_mtime(entry.get(), 0, 0);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size));
    expect(archive_write_header(archive_.get(), entry.get()) == ARCHIVE_OK);
  }

  void expect(bool good) {
    if (failure_) std::rethrow_exception(failure_);
    if (good) return;
    const char* reason = archive_error_string(archive_.get());
    throw core::internal_error(
        fmt::format("libarchive: {}", reason == nullptr ? "no reason" : reason));
  }

  int fd_;
  std::string name_;
  std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> zstd_;
  std::vector<std::byte> buffer_;
  std::unique_ptr<archive, Abandon> archive_;
  std::exception_ptr failure_;
  std::uint64_t packed_ = 0;
  std::uint64_t written_ = 0;
};

constexpr const char* kPackHint = "give a file that `repro-check pack` wrote";

std::string_view path_of(archive_entry* entry) {
  // In a locale that cannot spell a name, only one of the two is there.
  if (const char* name = archive_entry_pathname(entry)) return name;
  if (const char* name = archive_entry_pathname_utf8(entry)) return name;
  return {};
}

std::vector<std::string_view> parts_of(std::string_view path) {
  while (path.starts_with("./")) path.remove_prefix(2);
  if (path == ".") return {};
  std::vector<std::string_view> parts;
  for (std::size_t end = path.find('/'); end != std::string_view::npos; end = path.find('/')) {
    parts.push_back(path.substr(0, end));
    path.remove_prefix(end + 1);
  }
  if (!path.empty()) parts.push_back(path);
  return parts;
}

class PackReader {
 public:
  PackReader(const fs::path& pack, const PackProgress& progress)
      : name_(core::printable(pack.string())),
        file_(open_plain(fs::canonical(pack))),
        packed_bytes_(size_of(file_, name_)),
        progress_(progress),
        zstd_(ZSTD_createDCtx(), &ZSTD_freeDCtx),
        packed_(ZSTD_DStreamInSize()),
        plain_(ZSTD_DStreamOutSize()),
        archive_(archive_read_new(), &archive_read_free) {
    if (!archive_ || !zstd_) throw std::bad_alloc();
    archive_read_support_format_tar(archive_.get());
    check(archive_read_open(archive_.get(), this, nullptr, &PackReader::read, nullptr));
  }

  PackedDumps read_all(const MakeTraceFile& make_trace) {
    PackedDumps packed;
    archive_entry* entry = nullptr;
    while (next(&entry)) {
      const std::optional<Member> member = accept(entry);
      if (!member) continue;
      const std::uint64_t bytes = bytes_of(entry, *member);
      PackContents* const contents =
          member->file == kRankCountName ? nullptr : &packed.dumps[member->part];
      if (member->file == kTraceName) {
        contents->trace = make_trace(member->part, bytes);
        contents->trace_bytes = bytes;
        contents->trace.name = name_ + ": " + member->name();
        copy(*member, bytes, [&](std::span<const std::byte> piece) {
          write_whole(contents->trace.file.get(), piece, contents->trace.name);
        });
        // Of many dumps not every file can be open at once.
        if (!member->part.empty()) contents->trace.file.close();
      } else {
        std::string& text = contents == nullptr ? packed.rank_count : contents->manifest;
        copy(*member, bytes, [&](std::span<const std::byte> piece) {
          text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
        });
      }
    }
    if (packed.dumps.empty()) packed.dumps[""] = {};
    for (const auto& [part, contents] : packed.dumps) {
      for (const char* file : {kManifestName, kTraceName}) {
        if (!seen_.contains({part, file})) refuse_without({part, file});
      }
    }
    read_rest();
    return packed;
  }

 private:
  /// A file of a dump, or ranks.json.
  struct Member {
    std::string part;
    std::string_view file;

    [[nodiscard]] std::string name() const { return (fs::path(part) / file).string(); }
    // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
    auto operator<=>(const Member&) const = default;
  };

  [[noreturn]] void refuse_without(const Member& member) const {
    throw core::unknown_dump(
        fmt::format("{}: is not a packed dump: it holds no {}", name_, member.name()), kPackHint);
  }

  /// Hands libarchive the next bytes of the tar. No exception may cross it: it waits in `failure_`.
  static la_ssize_t read(archive* /*archive*/, void* self, const void** bytes) {
    auto* reader = static_cast<PackReader*>(self);
    try {
      const std::span<const std::byte> piece = reader->decompress();
      *bytes = piece.data();
      if (reader->progress_) {
        reader->progress_(PackPhase::kUnpacking, reader->consumed_, reader->packed_bytes_);
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
    damaged(fmt::format("is not a whole tar archive ({})",
                        core::printable(reason == nullptr ? "no reason" : reason)));
  }

  bool next(archive_entry** entry) {
    const int code = archive_read_next_header(archive_.get(), entry);
    check(code == ARCHIVE_EOF ? ARCHIVE_OK : code);
    return code != ARCHIVE_EOF;
  }

  template <typename Take>
  void copy(const Member& member, std::uint64_t bytes, Take take) {
    std::uint64_t done = 0;
    for (;;) {
      const void* piece = nullptr;
      std::size_t size = 0;
      la_int64_t offset = 0;
      const int code = archive_read_data_block(archive_.get(), &piece, &size, &offset);
      check(code == ARCHIVE_EOF || code == ARCHIVE_OK ? ARCHIVE_OK : ARCHIVE_FATAL);
      if (code == ARCHIVE_EOF) break;
      if (static_cast<std::uint64_t>(offset) != done || size > bytes - done) break;
      take(std::span(static_cast<const std::byte*>(piece), size));
      done += size;
    }
    if (done == bytes) return;
    damaged(fmt::format("{} has another length than it says", member.name()));
  }

  /// Checksums stand at the end of what they cover, behind the end of the archive. Programs fill
  /// that up with zeros, but not endlessly.
  void read_rest() {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 20U;
    std::uint64_t rest = 0;
    for (;;) {
      const std::span<const std::byte> piece = decompress();
      if (piece.empty()) return;
      rest += piece.size();
      if (rest > kMost ||
          std::ranges::any_of(piece, [](std::byte b) { return b != std::byte{}; })) {
        damaged("has data after the end of its archive");
      }
    }
  }

  [[noreturn]] void damaged(std::string_view what) const {
    throw core::damaged_dump(fmt::format("{}: {}", name_, what),
                             "the pack is damaged; copy it again, or pack the dump again");
  }

  [[noreturn]] void refuse(std::string_view member, const char* why) const {
    constexpr std::size_t kLongest = 200;
    throw core::unknown_dump(
        fmt::format(
            "{}: is not a packed dump: \"{}\" {}", name_, core::printable(member, kLongest), why),
        kPackHint);
  }

  /// The next bytes of the tar, valid until the next call; none at the end. The frames of zstd must
  /// be whole, and reach to the end of the file.
  std::span<const std::byte> decompress() {
    for (;;) {
      if (input_.pos == input_.size && !full_) {
        const std::size_t got = read_some(file_.get(), consumed_, packed_, name_);
        consumed_ += got;
        input_ = {packed_.data(), got, 0};
        if (got == 0 && !inside_frame_) return {};
        if (got == 0) damaged("ends too early");
      }
      ZSTD_outBuffer output{plain_.data(), plain_.size(), 0};
      const std::size_t left = ZSTD_decompressStream(zstd_.get(), &output, &input_);
      if (ZSTD_isError(left) != 0) {
        damaged(fmt::format("cannot be decompressed: {}", ZSTD_getErrorName(left)));
      }
      inside_frame_ = left != 0;
      full_ = inside_frame_ && output.pos == output.size;
      if (output.pos != 0) return std::span(plain_).first(output.pos);
    }
  }

  /// Decides what may be in a pack: manifest.json and trace.h5, each once and a plain file, in one
  /// directory or in none; or both for each rank, in a directory of that rank in one directory,
  /// with ranks.json beside those; and both for each further process, inside of these. Directories
  /// themselves may be there too, because `tar` puts them there.
  /// @return which file it is; empty for a directory
  std::optional<Member> accept(archive_entry* entry) {
    const std::string_view name = path_of(entry);
    const std::vector<std::string_view> parts = parts_of(name);
    for (const std::string_view part : parts) {
      if (part.empty() || part == "." || part == "..") refuse(name, "leads out of its directory");
    }
    if (archive_entry_filetype(entry) == AE_IFDIR) {
      accept_directory(name, parts);
      return std::nullopt;
    }
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr ||
        archive_entry_sparse_count(entry) != 0) {
      refuse(name, "is no plain file");
    }
    Member member;
    if (parts.size() > 2) {
      const auto part = part_of(std::span(parts).subspan(1, parts.size() - 2));
      if (!part) refuse(name, "belongs to no dump");
      member.part = *part;
    }
    if (parts.empty()) refuse(name, "belongs to no dump");
    expect_directory(name, parts.size() > 1 ? parts.front() : "");
    for (const char* file : {kManifestName, kTraceName, kRankCountName}) {
      if (parts.back() == file) member.file = file;
    }
    // What is of ranks, and what is of one dump.
    const bool counts = member.file == kRankCountName;
    const bool of_ranks = counts || rank_of_name(member.part.substr(0, member.part.find('/')));
    if (member.file.empty() || (counts && parts.size() != 2) ||
        of_ranks_.value_or(of_ranks) != of_ranks) {
      refuse(name, "belongs to no dump");
    }
    of_ranks_ = of_ranks;
    if (!seen_.insert(member).second) refuse(name, "is there twice");
    return member;
  }

  /// The place of a dump below the first directory; empty where none is called so.
  static std::optional<std::string> part_of(std::span<const std::string_view> names) {
    const bool of_rank = !names.empty() && rank_of_name(names.front());
    const auto inner = names.subspan(of_rank ? 1 : 0);
    if (inner.size() > 1 || (inner.size() == 1 && !is_process_name(inner.front()))) {
      return std::nullopt;
    }
    return fmt::format("{}", fmt::join(names, "/"));
  }

  void accept_directory(std::string_view name, const std::vector<std::string_view>& parts) {
    const auto part = part_of(std::span(parts).subspan(std::min<std::size_t>(parts.size(), 1)));
    if (!part) refuse(name, "is a directory inside another");
    if (!directories_.emplace(*part).second) refuse(name, "is a second directory");
    expect_directory(name, parts.empty() ? "" : parts.front());
  }

  void expect_directory(std::string_view name, std::string_view directory) {
    if (!directory_) directory_ = directory;
    if (*directory_ != directory) refuse(name, "is in another directory than the rest");
  }

  /// Of several dumps what all of them have together is bounded as one trace is.
  std::uint64_t bytes_of(archive_entry* entry, const Member& member) {
    constexpr std::uint64_t kLargestText = std::uint64_t{256} << 20U;
    const la_int64_t bytes = archive_entry_size(entry);
    const std::uint64_t largest = largest_member(packed_bytes_) - announced_;
    if (bytes < 0 || static_cast<std::uint64_t>(bytes) > largest ||
        (member.file != kTraceName && static_cast<std::uint64_t>(bytes) > kLargestText)) {
      throw core::damaged_dump(
          fmt::format("{}: {} would have {} bytes, which is too much for a pack of this size",
                      name_,
                      member.name(),
                      bytes),
          "if you trust it, unpack it with tar --zstd -xf and use the directory");
    }
    announced_ += static_cast<std::uint64_t>(bytes);
    return static_cast<std::uint64_t>(bytes);
  }

  std::string name_;
  core::FileDescriptor file_;
  std::uint64_t packed_bytes_;
  const PackProgress& progress_;
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> zstd_;
  std::vector<std::byte> packed_;
  std::vector<std::byte> plain_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  std::uint64_t consumed_ = 0;
  bool inside_frame_ = false;
  bool full_ = false;  ///< the last call filled its buffer, so there may be more without input
  std::optional<std::string> directory_;
  std::set<std::string, std::less<>> directories_;  ///< that have an entry
  std::optional<bool> of_ranks_;
  std::set<Member> seen_;
  std::uint64_t announced_ = 0;  ///< bytes so far
  std::exception_ptr failure_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
};

/// Reads a pack from its first byte to its last. It is trusted in nothing: exactly the two files of
/// a dump may be in it, or those of the dumps of ranks and processes, each as long as it says.
/// @throws core::Error{kDumpUnknown} when it holds anything else; {kDumpDamaged}; {kIo}
PackedDumps read_pack(const fs::path& pack,
                      const MakeTraceFile& make_trace,
                      const PackProgress& progress) {
  expect_pack(pack);
  return PackReader(pack, progress).read_all(make_trace);
}

}  // namespace

PackContents read_pack(const fs::path& pack, const PackProgress& progress) {
  const auto make = [&](const std::string& part, std::uint64_t bytes) {
    if (!part.empty()) {
      const std::string name = core::printable(pack.string());
      throw core::usage_error(fmt::format("{}: holds the dumps of several {}",
                                          name,
                                          is_process_name(part) ? "processes" : "ranks"),
                              fmt::format("unpack it first: repro-check unpack {}", name));
    }
    core::TemporaryFile made = create_temporary(bytes);
    return OpenTrace{std::move(made.file), "", "", std::move(made.name)};
  };
  PackedDumps packed = read_pack(pack, make, progress);
  return std::move(packed.dumps.begin()->second);
}

std::string name_inside(const fs::path& pack, const char* file) {
  return fmt::format("{}: {}", core::printable(pack.string()), file);
}

namespace {

[[noreturn]] void refuse_existing(const std::string& name) {
  throw core::usage_error(fmt::format("{}: already exists", name),
                          "add --force to replace it, or name another file with -o");
}

void put_in_place(const fs::path& working,
                  const fs::path& final,
                  bool replace_existing,
                  const std::string& name) {
  const auto rename_with = [&](unsigned flags) {
    const int done = ::renameat2(AT_FDCWD, working.c_str(), AT_FDCWD, final.c_str(), flags);
    return done == 0 ? 0 : errno;
  };
  sync_path(working);
  const unsigned flags = replace_existing ? 0U : RENAME_NOREPLACE;
  int code = rename_with(flags);
  if (flags != 0 && (code == EINVAL || code == ENOSYS)) {  // not every file system knows the flag
    std::error_code ignored;
    code = fs::exists(final, ignored) ? EEXIST : rename_with(0);
  }
  if (code == EEXIST) refuse_existing(name);
  if (code != 0) {
    throw core::io_error(fmt::format(
        "{}: cannot move the pack to its place: {}", name, std::generic_category().message(code)));
  }
  sync_path(final.parent_path());
}

/// Takes away what was made and not put in its place.
struct RemoveAll {
  void operator()(const fs::path* working) const noexcept {
    std::error_code ignored;
    fs::remove_all(*working, ignored);
  }
};

/// Checks all of a dump, and adds it to what the summary says.
void verify(const core::DumpSource& dump, const PackProgress& progress, PackSummary& summary) {
  const core::TraceSummary& trace = dump.manifest().trace;
  const std::uint64_t total = trace.stored_bytes;
  std::uint64_t done = 0;
  core::ContentCheck whole;
  whole.progress = [&](std::uint64_t bytes) {
    done += bytes;
    if (progress) progress(PackPhase::kVerifying, done, total);
  };
  core::verify_contents(dump, whole);
  summary.operators += trace.operator_calls();
  if (trace.partial && summary.partial.empty()) summary.partial = trace.partial->reason;
}

/// A part of the ranks proves nothing about all of them.
/// @param expected  how many there were; 0 = not known
/// @param where     for messages
void expect_whole_ranks(const std::vector<RankDump>& ranks,
                        std::uint32_t expected,
                        const fs::path& where) {
  const std::size_t count = std::max<std::size_t>(expected, ranks.size());
  for (std::size_t rank = 0; rank < count; ++rank) {
    if (rank < ranks.size() && ranks[rank].rank == rank) continue;
    throw core::incomplete_dump(fmt::format("{}: rank {} is missing{}",
                                            core::printable(where.string()),
                                            rank,
                                            expected > 0 ? fmt::format(" of {}", expected) : ""),
                                "put the dumps of all ranks into one directory first");
  }
}

/// The dumps of all ranks; none where `dump` is one dump itself.
std::vector<RankDump> whole_ranks(const fs::path& dump) {
  std::error_code code;
  if (fs::exists(dump / kManifestName, code)) return {};
  std::vector<RankDump> ranks = rank_dumps(dump);
  if (!ranks.empty()) expect_whole_ranks(ranks, read_rank_count(dump), dump);
  return ranks;
}

/// The directory inside the archive: what people find when they open it with `tar`.
std::string archive_directory(const fs::path& dump) {
  constexpr std::size_t kLongest = 64;
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  std::error_code code;
  std::string name = fs::canonical(dump, code).filename().string().substr(0, kLongest);
  for (char& letter : name) {
    if (kPlain.find(letter) == std::string_view::npos) letter = '_';
  }
  return name.find_first_not_of('.') == std::string::npos ? "dump" : name;
}

/// Where a pack is put; a link to a file stays a link.
fs::path place_for(const fs::path& pack, bool replace_existing, const std::string& name) {
  std::error_code code;
  fs::path place = fs::weakly_canonical(fs::absolute(pack), code);
  if (code) place = fs::absolute(pack);
  const fs::file_status status = fs::status(place, code);
  if (!fs::exists(status)) return place;
  if (!fs::is_regular_file(status)) {
    throw core::usage_error(fmt::format("{}: cannot be replaced: it is not a file", name));
  }
  if (!replace_existing) refuse_existing(name);
  return place;
}

}  // namespace

PackSummary pack_dump(const fs::path& dump,
                      const fs::path& pack,
                      const PackOptions& options,
                      const PackProgress& progress) {
  if (is_pack(dump)) {
    throw core::usage_error(fmt::format("{}: is packed already", core::printable(dump.string())));
  }
  const std::string name = core::printable(pack.string());
  const fs::path final = place_for(pack, options.replace_existing, name);
  PackSummary summary;
  PackedFiles files;
  const auto add = [&](const fs::path& directory, const std::string& inside) {
    verify(*open_dump(directory), progress, summary);
    files.add_dump(directory, inside);
    for (const fs::path& process : process_dumps(directory)) {
      verify(*open_dump(process), progress, summary);
      files.add_dump(process, inside + process.filename().string() + "/");
    }
  };
  if (const std::vector<RankDump> ranks = whole_ranks(dump); ranks.empty()) {
    const fs::path directory = locate_dump(dump);
    add(directory, archive_directory(directory) + "/");
  } else {
    const std::string inside = archive_directory(dump) + "/";
    if (read_rank_count(dump) > 0) files.add(dump / kRankCountName, inside + kRankCountName);
    for (const RankDump& rank : ranks) {
      add(rank.path, inside + rank.path.filename().string() + "/");
    }
  }
  summary.plain_bytes = files.bytes;

  const fs::path working = temporary_beside(pack);
  const core::FileDescriptor made = create_plain(working);
  const core::TemporaryName unless_placed(working.string());
  const auto show = [&](std::uint64_t done) {
    if (progress) progress(PackPhase::kPacking, done, summary.plain_bytes);
  };
  PackWriter writer(made.get(), name, options.level);
  for (const PackedFile& file : files.files) writer.add(file, show);
  summary.packed_bytes = writer.finish();
  if (summary.plain_bytes > largest_member(summary.packed_bytes)) {
    throw core::usage_error(
        fmt::format("{}: {} bytes become {}, and `unpack` would refuse such a compression rate",
                    name,
                    summary.plain_bytes,
                    summary.packed_bytes),
        "keep the directory: nearly all its content repeats");
  }
  put_in_place(working, final, options.replace_existing, name);
  return summary;
}

namespace {

/// Writes what is left of a dump, and checks all of it.
void finish_unpacked(const fs::path& pack,
                     const fs::path& directory,
                     PackContents contents,
                     const PackProgress& progress,
                     PackSummary& summary) {
  summary.plain_bytes += contents.manifest.size() + contents.trace_bytes;
  write_whole(create_plain(directory / kManifestName).get(),
              std::as_bytes(std::span(contents.manifest)),
              kManifestName);
  if (contents.trace.file.get() < 0) contents.trace.file = open_plain(directory / kTraceName);
  verify(*open_contents(pack, std::move(contents)), progress, summary);
  for (const char* file : {kTraceName, kManifestName}) sync_path(directory / file);
  sync_path(directory);
}

}  // namespace

PackSummary unpack_dump(const fs::path& pack,
                        const fs::path& directory,
                        bool replace_existing,
                        const PackProgress& progress) {
  std::error_code code;
  if (fs::is_directory(pack, code)) {
    throw core::usage_error(fmt::format("{}: is a directory: there is nothing to unpack",
                                        core::printable(pack.string())));
  }
  expect_pack(pack);
  const fs::path working = temporary_beside(directory);
  const RecordingPlace place = prepare_replacement(directory, working, replace_existing);
  std::unique_ptr<const fs::path, RemoveAll> unless_published(&place.working);
  PackedDumps packed = read_pack(
      pack,
      [&](const std::string& part, std::uint64_t bytes) {
        const fs::path file = working / part / kTraceName;
        if (!part.empty()) fs::create_directories(file.parent_path());
        core::FileDescriptor made = create_plain(file);
        expect_free_space(directory, bytes);
        return OpenTrace{std::move(made), "", file, {}};
      },
      progress);
  PackSummary summary;
  summary.packed_bytes = fs::file_size(pack, code);
  summary.plain_bytes = packed.rank_count.size();
  if (!packed.rank_count.empty()) {
    write_whole(create_plain(working / kRankCountName).get(),
                std::as_bytes(std::span(packed.rank_count)),
                kRankCountName);
    sync_path(working / kRankCountName);
  }
  expect_whole_ranks(rank_dumps(working), read_rank_count(working), pack);
  for (auto& [part, contents] : packed.dumps) {
    finish_unpacked(pack, working / part, std::move(contents), progress, summary);
  }
  sync_path(working);
  publish(place);
  static_cast<void>(unless_published.release());
  return summary;
}

}  // namespace repro_check::store
