// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/pack.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/text/printable.h"
#include "core/trace/content_check.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/file/plain_file.h"
#include "dumpers/store/pack_file.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::Error;
using core::ErrorKind;

[[noreturn]] void refuse_existing(const std::string& name) {
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: is already there", name),
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
    throw Error(ErrorKind::kIo,
                fmt::format("{}: cannot move the pack to its place: {}",
                            name,
                            std::generic_category().message(code)));
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

void verify(const core::DumpSource& dump, const PackProgress& progress) {
  const std::uint64_t total = dump.manifest().trace.stored_bytes;
  std::uint64_t done = 0;
  core::ContentCheck whole;
  whole.progress = [&](std::uint64_t bytes) {
    done += bytes;
    if (progress) progress(PackPhase::kVerifying, done, total);
  };
  core::verify_contents(dump, whole);
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
    throw Error(ErrorKind::kUsage, fmt::format("{}: is no file that can be replaced", name));
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
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: is packed already", core::printable(dump.string())));
  }
  const std::string name = core::printable(pack.string());
  const fs::path final = place_for(pack, options.replace_existing, name);
  PackSummary summary;
  {
    const auto source = open_dump(dump);
    verify(*source, progress);
    summary.trace = source->manifest().trace;
  }
  const fs::path directory = locate_dump(dump);
  const std::string inside = archive_directory(directory) + "/";
  const core::FileDescriptor manifest = open_plain(directory / kManifestName);
  const core::FileDescriptor trace = open_plain(directory / kTraceName);
  const std::uint64_t manifest_bytes = size_of(manifest, kManifestName);
  summary.plain_bytes = manifest_bytes + size_of(trace, kTraceName);

  const fs::path working = temporary_beside(pack);
  const core::FileDescriptor made = create_plain(working);
  const core::TemporaryName unless_placed(working.string());
  const std::array files{
      PackedFile{inside + kManifestName, manifest, (directory / kManifestName).string()},
      PackedFile{inside + kTraceName, trace, (directory / kTraceName).string()}};
  const auto show = [&](std::uint64_t done) {
    if (progress) progress(PackPhase::kPacking, done, summary.plain_bytes);
  };
  summary.packed_bytes = write_pack(made.get(), name, options.level, files, show);
  if (summary.plain_bytes - manifest_bytes > largest_member(summary.packed_bytes)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: {} bytes become {}, and nobody would unpack so few to so many",
                            name,
                            summary.plain_bytes,
                            summary.packed_bytes),
                "keep the directory: nearly all that it holds is alike");
  }
  put_in_place(working, final, options.replace_existing, name);
  return summary;
}

PackSummary unpack_dump(const fs::path& pack,
                        const fs::path& directory,
                        bool replace_existing,
                        const PackProgress& progress) {
  std::error_code code;
  if (fs::is_directory(pack, code)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: is a directory: there is nothing to unpack",
                            core::printable(pack.string())));
  }
  expect_pack(pack);
  const fs::path working = temporary_beside(directory);
  const RecordingPlace place = prepare_replacement(directory, working, replace_existing);
  std::unique_ptr<const fs::path, RemoveAll> unless_published(&place.working);
  PackContents contents = read_pack(
      pack,
      [&](std::uint64_t bytes) {
        core::FileDescriptor file = create_plain(working / kTraceName);
        expect_free_space(file, core::printable(directory.string()), bytes);
        return OpenTrace{std::move(file), "", working / kTraceName, {}};
      },
      progress);
  PackSummary summary;
  summary.plain_bytes = contents.manifest.size() + contents.trace_bytes;
  summary.packed_bytes = fs::file_size(pack, code);
  write_whole(create_plain(working / kManifestName).get(),
              std::as_bytes(std::span(contents.manifest)),
              kManifestName);
  {
    const auto dump = open_contents(pack, std::move(contents));
    verify(*dump, progress);
    summary.trace = dump->manifest().trace;
  }
  for (const char* file : {kTraceName, kManifestName}) sync_path(working / file);
  sync_path(working);
  publish(place);
  static_cast<void>(unless_published.release());
  return summary;
}

}  // namespace repro_check::store
