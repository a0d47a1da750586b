// SPDX-License-Identifier: Apache-2.0
#include "cmd/setup/probe_cache.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <string_view>
#include <system_error>

#include "cmd/terminal/logging.h"
#include "core/error.h"
#include "core/system/file_descriptor.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "probe-";
constexpr std::string_view kAbi = "-cxx11-";
constexpr std::string_view kLibrary = ".so";
constexpr std::string_view kLock = ".lock";

fs::path home_folder() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  const passwd* user = ::getpwuid(::getuid());
  return user != nullptr ? user->pw_dir : "";
}

/// `probe-2.13.0+cpu-cxx11-0.1.0-0123456789ab`, of all files of one build; of others empty.
std::string build_of(const std::string& name) {
  if (!name.starts_with(kPrefix) || name.find(kAbi) == std::string::npos) return {};
  for (const std::string_view end : {kLibrary, kLock, std::string_view(".log")}) {
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  }
  const std::size_t unfinished = name.find(".building-");
  return unfinished == std::string::npos ? std::string() : name.substr(0, unfinished);
}

std::map<std::string, std::vector<fs::path>> files_of_builds(const fs::path& cache) {
  std::map<std::string, std::vector<fs::path>> builds;
  std::error_code error;
  for (fs::directory_iterator entry(cache, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string build = build_of(entry->path().filename().string());
    if (!build.empty()) builds[build].push_back(entry->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw core::Error(core::ErrorKind::kIo, cache.string() + ": " + error.message());
  }
  return builds;
}

void add_probes(const std::string& build,
                const std::vector<fs::path>& files,
                std::vector<BuiltProbe>& probes) {
  for (const fs::path& file : files) {
    if (file.extension() != kLibrary) continue;
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(file, error);
    if (error) continue;
    const std::size_t end = build.find(kAbi);
    probes.push_back({build.substr(kPrefix.size(), end - kPrefix.size()), file, bytes});
  }
}

/// Held by whoever builds it, until the process ends. What cannot be locked is taken to be free.
bool is_being_built(const core::FileDescriptor& lock) {
  return lock.get() >= 0 && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace

fs::path probe_cache() {
  const char* named = std::getenv("XDG_CACHE_HOME");
  const fs::path given = named != nullptr ? named : "";
  return (given.is_absolute() ? given : home_folder() / ".cache") / "repro-check";
}

std::vector<BuiltProbe> built_probes(const fs::path& cache) {
  std::vector<BuiltProbe> probes;
  for (const auto& [build, files] : files_of_builds(cache)) add_probes(build, files, probes);
  return probes;
}

std::vector<BuiltProbe> remove_built_probes(const fs::path& cache) {
  std::vector<BuiltProbe> removed;
  for (const auto& [build, files] : files_of_builds(cache)) {
    const std::string lock_name = (cache / build).string() + std::string(kLock);
    const core::FileDescriptor lock(::open(lock_name.c_str(), O_RDWR | O_CLOEXEC));
    if (is_being_built(lock)) {
      log_warning(build + " is being built, and stays");
      continue;
    }
    add_probes(build, files, removed);
    for (const fs::path& file : files) {
      std::error_code error;
      fs::remove_all(file, error);
      if (error) {
        throw core::Error(core::ErrorKind::kIo,
                          file.string() + " cannot be removed: " + error.message());
      }
    }
  }
  std::error_code not_empty;
  fs::remove(cache, not_empty);
  return removed;
}

}  // namespace repro_check::cmd
