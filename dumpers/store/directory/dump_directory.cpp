// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/directory/dump_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <span>
#include <system_error>
#include <vector>

#include "core/text/text.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/file/plain_file.h"

namespace repro_check::store {

namespace {

namespace fs = std::filesystem;
using core::Error;
using core::write_failed;

constexpr const char* kManifestTemporary = "manifest.json.tmp";
constexpr std::array<const char*, 6> kOurFiles{
    kManifestName, kTraceName, kContentsName, kJournalName, kManifestTemporary, kRankCountName};

/// `out/` names `out`.
fs::path without_slash(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

/// Of one of several ranks, or of another process.
bool is_inner_dump(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return (rank_of_name(name) || is_process_name(name)) && entry.is_directory() &&
         !entry.is_symlink();
}

std::vector<fs::path> inner_dumps(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, code)) {
    if (is_inner_dump(entry)) found.push_back(entry.path());
  }
  return found;
}

/// The first entry that no recording of ours has made; empty when there is none.
std::string foreign_entry(const fs::path& directory) {
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, code)) {
    const fs::path name = entry.path().filename();
    const bool ours =
        std::ranges::any_of(kOurFiles, [&](const char* file) { return name == file; });
    if (is_inner_dump(entry)) {
      const std::string inside = foreign_entry(entry.path());
      if (!inside.empty()) return name / inside;
    } else if (!ours || entry.is_directory()) {
      return name;
    }
  }
  if (code) read_failed(directory, "cannot list the directory", code.value());
  return {};
}

void remove_dump(const fs::path& directory) {
  // The manifest goes first: what is half removed must not look complete.
  remove_file(directory / kManifestName);
  for (const fs::path& inner : inner_dumps(directory)) remove_dump(inner);
  for (const char* name : kOurFiles) remove_file(directory / name);
  std::error_code code;
  fs::remove(directory, code);
  if (code) write_failed(directory, "cannot remove the directory", code.value());
}

void refuse_if_busy(const fs::path& directory) {
  for (const fs::path& inner : inner_dumps(directory)) refuse_if_busy(inner);
  if (!journal::is_being_written(directory / kJournalName)) return;
  throw core::usage_error(
      fmt::format("{}: another recording is being written there", directory.string()),
      "wait for it, or record to another directory");
}

/// What a link leads to belongs to somebody else: it is neither emptied nor written into.
void refuse_link(const fs::path& directory) {
  std::error_code code;
  if (!fs::is_symlink(fs::symlink_status(directory, code))) return;
  throw core::usage_error(fmt::format("{}: is a link, and the recording is made there first",
                                      core::printable(directory.string())),
                          "remove the link, or record to another directory");
}

/// Whether there is something in `directory` that may be replaced if the caller wants that.
bool holds_recording(const fs::path& directory) {
  std::error_code code;
  const fs::file_status status = fs::status(directory, code);
  if (!fs::exists(status)) return false;
  if (!fs::is_directory(status)) {
    throw core::usage_error(
        fmt::format("{}: is a file, and a dump is a directory", directory.string()),
        "name a directory that does not exist yet");
  }
  const std::string foreign = foreign_entry(directory);
  if (!foreign.empty()) {
    throw core::usage_error(
        fmt::format("{}: holds \"{}\", which belongs to no dump; nothing there is replaced",
                    directory.string(),
                    core::printable(foreign)),
        "name an empty directory, or one that does not exist yet");
  }
  return !fs::is_empty(directory, code);
}

/// Asked before anything is made, so that a recording that cannot end well does not begin.
void expect_space(const fs::path& directory, std::uint64_t needed) {
  const std::optional<std::uint64_t> free = core::free_space(directory);
  if (!free || *free >= needed) return;
  throw core::io_error(
      fmt::format("{}: {} MiB are free, and recording tensors needs at least {} MiB",
                  directory.string(),
                  *free >> 20U,
                  (needed + (std::uint64_t{1} << 20U) - 1) >> 20U),
      "free space, record to another disk (dump.directory), or lower dump.max_bytes");
}

void make_directory(const fs::path& directory) {
  std::error_code code;
  fs::create_directories(directory, code);
  if (code) write_failed(directory, "cannot create the directory", code.value());
}

/// A link to a directory stays a link: its target is what gets replaced.
fs::path final_place(const fs::path& directory) {
  std::error_code code;
  fs::path final = fs::weakly_canonical(fs::absolute(directory), code);
  if (code) read_failed(directory, "cannot resolve the path", code.value());
  if (has_pack_name(final) && !fs::is_directory(final, code)) {
    throw core::usage_error(
        fmt::format("{}: is the name of a packed dump, and a dump is a directory",
                    core::printable(directory.string())),
        fmt::format("leave {} out; `repro-check pack` packs a dump", kPackSuffix));
  }
  return final;
}

void expect_replaceable(const fs::path& directory, const fs::path& final, bool replace_existing) {
  refuse_if_busy(final);
  if (replace_existing) return;
  std::error_code code;
  const bool complete = fs::exists(final / kManifestName, code) || !rank_dumps(final).empty();
  throw core::usage_error(fmt::format("{}: {} is already there",
                                      directory.string(),
                                      complete ? "a dump" : "an unfinished recording"),
                          "add --force to replace it, or name another directory");
}

/// @return whether a recording has to be made beside `final`, since something is there
bool needs_another_place(const fs::path& directory,
                         const fs::path& final,
                         bool replace_existing,
                         std::uint64_t needed_space) {
  expect_space(final, needed_space);
  if (!holds_recording(final)) return false;
  expect_replaceable(directory, final, replace_existing);
  const fs::path working = recording_beside(final);
  refuse_link(working);
  if (holds_recording(working)) refuse_if_busy(working);
  return true;
}

}  // namespace

fs::path recording_beside(const fs::path& directory) {
  return without_slash(directory) += ".recording";
}

void require_place(const fs::path& directory, bool replace_existing, std::uint64_t needed_space) {
  needs_another_place(directory, final_place(directory), replace_existing, needed_space);
}

RecordingPlace prepare_place(const fs::path& directory,
                             bool replace_existing,
                             std::uint64_t needed_space) {
  const fs::path final = final_place(directory);
  if (!needs_another_place(directory, final, replace_existing, needed_space)) {
    make_directory(final);
    return {final, final};
  }
  const fs::path working = recording_beside(final);
  if (holds_recording(working)) remove_dump(working);
  make_directory(working);
  return {final, working};
}

RecordingPlace prepare_replacement(const fs::path& directory,
                                   const fs::path& working,
                                   bool replace_existing) {
  const fs::path final = final_place(directory);
  const bool replaces = holds_recording(final);
  if (replaces) expect_replaceable(directory, final, replace_existing);
  std::error_code code;
  make_directory(working.parent_path());
  const bool is_new = fs::create_directory(working, code);
  if (!is_new) write_failed(working, "cannot create the directory", code ? code.value() : EEXIST);
  return {final, working, replaces};
}

void require_discardable(const fs::path& directory) {
  if (holds_recording(directory)) refuse_if_busy(directory);
}

void discard_recording(const fs::path& directory) {
  require_discardable(directory);
  std::error_code code;
  if (fs::exists(directory, code)) remove_dump(directory);
}

void publish(const RecordingPlace& place) {
  if (place.working == place.final) return;
  constexpr const char* kRefused = "cannot move the dump to its place";
  const auto move = [&] {
    if (::rename(place.working.c_str(), place.final.c_str()) == 0) return;
    write_failed(place.final, kRefused, errno);
  };
  bool exchanged = false;
  if (!place.replaces || !holds_recording(place.final)) {
    move();
  } else if (::renameat2(
                 AT_FDCWD, place.working.c_str(), AT_FDCWD, place.final.c_str(), RENAME_EXCHANGE) ==
             0) {
    exchanged = true;
  } else if (errno != EINVAL && errno != ENOSYS) {
    write_failed(place.final, kRefused, errno);
  } else {
    // A file system that cannot exchange: for an instant neither is there, which readers refuse.
    remove_dump(place.final);
    move();
  }
  sync_path(place.final.parent_path());
  if (exchanged) remove_dump(place.working);
}

void write_file_atomically(const fs::path& file, std::string_view text) {
  const fs::path temporary = file.parent_path() / (file.filename().string() + ".tmp");
  constexpr mode_t kMode = 0666;
  // A link, or a file of another user, may lie in wait under a name that is known.
  remove_file(temporary);
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (fd < 0) write_failed(temporary, "cannot create", errno);
  int code = core::write_all(fd, text) ? 0 : errno;
  if (code == 0 && ::fsync(fd) != 0) code = errno;
  if (::close(fd) != 0 && code == 0) code = errno;
  if (code != 0) write_failed(temporary, "cannot write", code);
  if (::rename(temporary.c_str(), file.c_str()) != 0)
    write_failed(file, "cannot rename to it", errno);
  sync_path(file.parent_path());
}

void remove_file(const fs::path& file) {
  if (::unlink(file.c_str()) != 0 && errno != ENOENT) write_failed(file, "cannot remove", errno);
}

std::string read_text_file(const fs::path& file, std::uintmax_t limit) {
  // A FIFO must not hang us, and a dump must not lead out of its directory.
  const core::FileDescriptor opened(
      ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (opened.get() < 0 && errno == ELOOP) {
    throw core::damaged_dump(fmt::format("{}: is a link", file.string()),
                             "replace the link by a copy of the file");
  }
  if (opened.get() < 0) read_failed(file, "cannot open", errno);
  std::string text;
  std::vector<std::byte> block(std::size_t{64} << 10U);
  for (std::size_t got = block.size(); got == block.size() && text.size() <= limit;) {
    const auto read = core::read_at(opened.get(), text.size(), block);
    if (!read) read_failed(file, "cannot read", errno);
    got = *read;
    text.append(reinterpret_cast<const char*>(block.data()), got);
  }
  if (text.size() > limit) {
    throw core::damaged_dump(fmt::format("{}: larger than {} bytes", file.string(), limit));
  }
  return text;
}

core::RunManifest read_manifest(const fs::path& directory) {
  constexpr std::uintmax_t kLargest = std::uintmax_t{256} << 20U;
  const fs::path file = directory / kManifestName;
  return core::manifest_from_json_text(read_text_file(file, kLargest), file.string());
}

namespace {

bool begins_as_zstd(const fs::path& file) {
  constexpr std::string_view kMagic = "\x28\xb5\x2f\xfd";
  try {
    const core::FileDescriptor opened = open_plain(fs::canonical(file));
    std::string start(kMagic.size(), '\0');
    return read_some(opened.get(), 0, std::as_writable_bytes(std::span(start)), "") ==
               start.size() &&
           start == kMagic;
  } catch (const Error&) {
    return false;
  } catch (const fs::filesystem_error&) {
    return false;
  }
}

}  // namespace

bool has_pack_name(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.size() > std::string_view(kPackSuffix).size() && name.ends_with(kPackSuffix);
}

bool is_pack(const fs::path& path) {
  std::error_code code;
  if (!fs::is_regular_file(path, code)) return false;
  return has_pack_name(path) || begins_as_zstd(path);
}

void expect_pack(const fs::path& pack) {
  if (begins_as_zstd(pack)) return;
  std::error_code code;
  const std::string name = core::printable(pack.string());
  const bool there = fs::is_regular_file(pack, code);
  throw core::unknown_dump(
      there ? fmt::format("{}: is not a packed dump: it is not compressed with zstd", name)
            : fmt::format("{}: no such file", name),
      "give a file that `repro-check pack` wrote");
}

fs::path temporary_beside(const fs::path& path) {
  std::error_code code;
  fs::path beside = fs::weakly_canonical(fs::absolute(without_slash(path)), code);
  if (code) beside = without_slash(path);
  return beside += fmt::format(".{}.tmp", ::getpid());
}

fs::path default_pack(const fs::path& dump) {
  fs::path directory = without_slash(dump);
  std::error_code code;
  const fs::path file = directory.filename();
  if ((file == kManifestName || file == kTraceName) && !fs::is_directory(directory, code)) {
    directory = directory.parent_path();
  }
  const fs::path last = directory.filename();
  if (last.empty() || last == "." || last == "..") {
    directory = fs::weakly_canonical(fs::absolute(directory), code);
  }
  return directory += kPackSuffix;
}

fs::path default_dump(const fs::path& pack) {
  if (!has_pack_name(pack)) {
    throw core::usage_error(fmt::format("{}: is not called <name>{}, so the dump has no name",
                                        core::printable(pack.string()),
                                        kPackSuffix),
                            "name its directory with -o DIR");
  }
  const std::string name = pack.filename().string();
  return pack.parent_path() / name.substr(0, name.size() - std::string_view(kPackSuffix).size());
}

namespace {

constexpr const char* kUsualHint =
    "give a directory that `repro-check record`, `run` or `exec` wrote";

/// Dumps one level below, which is what the directory of a whole `run` holds.
std::string hint_for(const fs::path& directory) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> names;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, code)) {
    std::error_code ignored;
    if (fs::exists(entry.path() / kManifestName, ignored)) {
      names.push_back(core::printable(entry.path().string()));
    }
  }
  if (names.empty()) return kUsualHint;
  std::ranges::sort(names);
  if (names.size() > kShown) names.resize(kShown);
  return fmt::format("did you mean {}?", fmt::join(names, " or "));
}

[[noreturn]] void refuse_incomplete(const std::string& name, const fs::path& directory) {
  std::string message = fmt::format("{}: incomplete recording", name);
  const fs::path file = directory / kJournalName;
  std::error_code code;
  if (fs::exists(file, code)) {
    try {
      const journal::JournalSummary reached = journal::summarise(file);
      message += fmt::format(
          ": {} operator{} whole", reached.completed, reached.completed == 1 ? "" : "s");
      if (reached.entered) {
        message +=
            fmt::format("; op {} {} did not return", *reached.entered, reached.entered_operator);
      } else if (reached.last) {
        message += fmt::format("; the last was op {} {}", *reached.last, reached.last_operator);
      }
      if (!reached.failure.empty()) message += "; " + core::printable(reached.failure);
    } catch (const Error& failure) {
      message += fmt::format("; its journal cannot be read: {}", failure.what());
    }
  }
  std::string hint = "record the run again";
  if (journal::is_being_written(file)) {
    hint = "it is still being recorded: wait for it";
  } else if (fs::exists(file, code)) {
    hint += ", or keep the recorded part: repro-check recover " + name;
  }
  throw core::incomplete_dump(message, hint);
}

/// A link has a refusal of its own.
void refuse_unless_file(const fs::path& file) {
  std::error_code code;
  const fs::file_status status = fs::symlink_status(file, code);
  if (fs::is_regular_file(status) || fs::is_symlink(status)) return;
  throw core::damaged_dump(fmt::format("{}: is not a file", core::printable(file.string())),
                           "the dump is damaged; copy it again or record the run again");
}

/// Whether it holds neither manifest, journal, trace nor the dump of a rank.
bool is_bare_folder(const fs::path& path) {
  std::error_code code;
  if (!fs::is_directory(path, code)) return false;
  for (const char* name : {kManifestName, kJournalName, kTraceName}) {
    // What cannot be looked into may hold one.
    if (fs::exists(path / name, code) || code) return false;
  }
  return rank_dumps(path).empty();
}

}  // namespace

void refuse_bare_folder(const fs::path& dump, const core::Error& error) {
  if (error.kind() != core::ErrorKind::kDumpUnknown || !is_bare_folder(dump)) return;
  throw core::usage_error(fmt::format("{}: expected {}, {} or {}",
                                      error.what(),
                                      kManifestName,
                                      kJournalName,
                                      rank_directory({}, 0).string()),
                          error.hint());
}

fs::path locate_dump(const fs::path& path) {
  std::error_code code;
  const std::string name = core::printable(path.string());
  const fs::file_status status = fs::status(path, code);
  if (!fs::exists(status)) {
    throw core::unknown_dump(fmt::format("{}: no such directory", name), kUsualHint);
  }
  fs::path directory = path;
  if (!fs::is_directory(status)) {
    const fs::path file = path.filename();
    if (file != kManifestName && file != kTraceName) {
      throw core::unknown_dump(fmt::format("{}: is a file, not a dump", name), kUsualHint);
    }
    directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  }
  if (fs::exists(directory / kManifestName, code)) {
    refuse_unless_file(directory / kManifestName);
    return directory;
  }
  if (code == std::errc::permission_denied) {
    throw core::unknown_dump(fmt::format("{}: cannot be opened: {}", name, code.message()),
                             "ask its owner for permission to read it");
  }
  if (fs::exists(directory / kJournalName, code) || fs::exists(directory / kTraceName, code)) {
    refuse_incomplete(name, directory);
  }
  if (const auto ranks = rank_dumps(directory); !ranks.empty()) {
    throw core::usage_error(
        fmt::format(
            "{}: holds the dumps of {} rank{}", name, ranks.size(), ranks.size() == 1 ? "" : "s"),
        fmt::format("give one of them, {}, or all to `repro-check ranks`",
                    core::printable(ranks.front().path.string())));
  }
  throw core::unknown_dump(fmt::format("{}: there is no dump in this directory", name),
                           hint_for(directory));
}

}  // namespace repro_check::store
