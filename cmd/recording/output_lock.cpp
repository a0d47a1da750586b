// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/output_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>

#include "cmd/recording/recording.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "core/text/text.h"
#include "core/trace/run_manifest.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// The processes that hold a lock on an inode, as the kernel lists them:
/// `7: FLOCK  ADVISORY  WRITE 4711 00:2d:1234 0 EOF`.
std::vector<std::string> holders_of(ino_t inode) {
  std::vector<std::string> holders;
  std::ifstream locks("/proc/locks");
  const std::string ending = ":" + std::to_string(inode);
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
    constexpr std::size_t kFields = 8;  // one that waits has an arrow more
    if (fields.size() != kFields || fields[1] != "FLOCK") continue;
    if (fields[5].ends_with(ending)) holders.push_back(fields[4]);
  }
  return holders;
}

/// `process 4711 (repro-check gate -c a.json)`; a process of another namespace has no name here.
std::string describe_holder(ino_t inode) {
  const std::string own = std::to_string(::getpid());
  for (const std::string& process : holders_of(inode)) {
    std::ifstream file("/proc/" + process + "/cmdline", std::ios::binary);
    std::string words{std::istreambuf_iterator<char>(file), {}};
    if (process == own || words.empty()) continue;
    std::ranges::replace(words, '\0', ' ');
    if (words.back() == ' ') words.pop_back();
    constexpr std::size_t kShown = 200;
    if (words.size() > kShown) words = words.substr(0, kShown) + "...";
    return fmt::format("process {} ({})", process, core::printable(words));
  }
  return "another command";
}

core::Error held(const fs::path& directory, ino_t inode) {
  return core::usage_error(
      fmt::format(
          "{}: {} is writing there", core::printable(directory.string()), describe_holder(inode)),
      "wait until it has ended, or give each command a directory of its own with --out");
}

core::Error cannot_create(const fs::path& directory, const std::error_code& why) {
  return core::usage_error(
      "cannot create directory " + core::printable(directory.string()) + ": " + why.message(),
      "choose another directory with --out");
}

/// Network and other file systems may know no lock of this kind, or none on a directory.
bool is_unsupported(int code) noexcept { return code != EWOULDBLOCK && code != EINTR; }

/// One place has one name here, however it was spelled.
fs::path whole_name(const fs::path& place) {
  std::error_code error;
  const fs::path absolute = fs::absolute(place, error);
  fs::path whole = fs::weakly_canonical(absolute, error);
  if (error) whole = absolute.lexically_normal();
  return whole.filename().empty() ? whole.parent_path() : whole;
}

std::map<fs::path, core::Digest>& noted() {
  static std::map<fs::path, core::Digest> places;
  return places;
}

constexpr const char* kRunFile = ".repro-check-run";

RunOutputs* current_run = nullptr;

}  // namespace

OutputLock::OutputLock(const fs::path& directory, Mode mode, std::chrono::milliseconds patience)
    : directory_(fs::absolute(directory).lexically_normal()) {
  try {
    do {
      descriptor_.close();
      make();
    } while (!take(mode, patience));
  } catch (...) {
    release();
    throw;
  }
}

OutputLock::~OutputLock() { release(); }

void OutputLock::release() noexcept {
  std::error_code error;
  for (const fs::path& made : made_) {
    if (!fs::remove(made, error)) break;
  }
  descriptor_.close();
}

void OutputLock::make() {
  std::error_code error;
  fs::path there = directory_;
  while (!fs::exists(there, error) && there.has_relative_path()) {
    if (!there.filename().empty()) made_.push_back(there);
    there = there.parent_path();
  }
  fs::create_directories(directory_, error);
  if (error) throw cannot_create(directory_, error);
}

bool OutputLock::take(Mode mode, std::chrono::milliseconds patience) {
  descriptor_ =
      core::FileDescriptor(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Whoever held it may just have taken the empty directory away.
  if (descriptor_.get() < 0 && errno == ENOENT) return false;
  // What cannot be opened is said by whoever writes there.
  if (descriptor_.get() < 0) return true;
  struct stat locked {};
  if (::fstat(descriptor_.get(), &locked) != 0) return true;
  const auto end = Clock::now() + patience;
  while (::flock(descriptor_.get(), (mode == Mode::kAlone ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
    if (is_unsupported(errno)) return true;
    if (errno == EINTR) continue;
    if (Clock::now() >= end) throw held(directory_, locked.st_ino);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  struct stat there {};
  return ::stat(directory_.c_str(), &there) == 0 && there.st_ino == locked.st_ino &&
         there.st_dev == locked.st_dev;
}

OutputLocks hold_alone(const std::vector<fs::path>& directories) {
  // In one order, so that what two commands share is held by one of them.
  std::set<fs::path> distinct;
  for (const fs::path& directory : directories) distinct.insert(whole_name(directory));
  OutputLocks locks;
  for (const fs::path& directory : distinct)
    locks.push_back(std::make_unique<OutputLock>(directory));
  return locks;
}

void note_own(const fs::path& place, const core::Digest& manifest) {
  const fs::path whole = whole_name(place);
  noted().insert_or_assign(whole, manifest);
  if (current_run != nullptr) current_run->note(whole, manifest);
}

void note_own_moved(const fs::path& from, const fs::path& to) {
  const fs::path whole = whole_name(from);
  std::map<fs::path, core::Digest> moved;
  for (const auto& [place, manifest] : noted()) {
    if (place == whole) moved[to] = manifest;
    if (place.parent_path() == whole) moved[to / place.filename()] = manifest;
  }
  std::erase_if(noted(), [&](const auto& entry) {
    return entry.first == whole || entry.first.parent_path() == whole;
  });
  for (const auto& [place, manifest] : moved) note_own(place, manifest);
}

void expect_own(const core::DumpSource& opened, const fs::path& place) {
  const auto found = noted().find(whole_name(place));
  if (found == noted().end() || found->second == opened.manifest().digest) return;
  throw core::run_failed(
      core::printable(place.string()) + ": another command recorded there in the meantime",
      "give each command a directory of its own (--out), or start one after the "
      "other");
}

std::unique_ptr<core::DumpSource> open_own(const fs::path& place,
                                           const std::vector<fs::path>& references) {
  auto opened = store::open_dump(store::leading_dump(place), references);
  expect_own(*opened, place);
  return opened;
}

RunOutputs::RunOutputs(const std::vector<fs::path>& directories) {
  for (const fs::path& place : directories) {
    const fs::path whole = whole_name(place);
    Directory& directory = directories_[whole];
    std::ifstream file(whole / kRunFile);
    directory.was_used = file.is_open();
    std::string digest;
    for (std::string name; file >> digest && std::getline(file >> std::ws, name);) {
      directory.dumps[name] = digest;
    }
    // There from the beginning: a run that is interrupted has left its part as well.
    constexpr mode_t kMode = 0666;
    core::FileDescriptor(
        ::open((whole / kRunFile).c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kMode));
  }
  current_run = this;
}

RunOutputs::~RunOutputs() {
  current_run = nullptr;
  for (const auto& [place, directory] : directories_) {
    std::error_code error;
    const bool is_alone = std::distance(fs::directory_iterator(place, error), {}) == 1;
    if (!error && is_alone) fs::remove(place / kRunFile, error);
  }
}

bool RunOutputs::may_replace(const fs::path& place) const {
  const fs::path whole = whole_name(place);
  const auto found = directories_.find(whole.parent_path());
  if (found == directories_.end() || !found->second.was_used) return false;
  std::ifstream manifest(store::leading_dump(whole) / "manifest.json", std::ios::binary);
  std::error_code ignored;
  if (!manifest) return fs::exists(whole / journal::kJournalName, ignored);
  const std::string text{std::istreambuf_iterator<char>(manifest), {}};
  const auto dump = found->second.dumps.find(whole.filename().string());
  return dump != found->second.dumps.end() &&
         dump->second == core::to_hex(core::manifest_digest(text));
}

void RunOutputs::discard_others(const std::vector<fs::path>& kept) {
  std::set<fs::path> places;
  for (const fs::path& place : kept) places.insert(whole_name(place));
  for (auto& each : directories_) {
    const fs::path& whole = each.first;
    auto& directory = each.second;
    std::erase_if(directory.dumps, [&](const auto& dump) {
      const fs::path place = whole / dump.first;
      if (places.contains(place)) return false;
      try {
        if (may_replace(place)) discard_with_log(place);
      } catch (const core::Error& error) {
        log_warning(std::string(error.what()) + "; it stays beside the runs of this command");
      }
      return true;
    });
  }
}

std::vector<fs::path> RunOutputs::used_before() const {
  std::vector<fs::path> used;
  for (const auto& [place, directory] : directories_) {
    if (directory.was_used) used.push_back(place);
  }
  return used;
}

void RunOutputs::note(const fs::path& place, const core::Digest& manifest) {
  const auto found = directories_.find(place.parent_path());
  if (found == directories_.end()) return;
  found->second.dumps[place.filename().string()] = core::to_hex(manifest);
  std::string text;
  for (const auto& [name, digest] : found->second.dumps)
    text += fmt::format("{} {}\n", digest, name);
  try {
    write_file(found->first / kRunFile, text);
  } catch (const core::Error& error) {
    // The next run asks for --force then.
    log_debug(error.what());
  }
}

}  // namespace repro_check::cmd
