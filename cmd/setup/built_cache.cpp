// SPDX-License-Identifier: Apache-2.0
#include "cmd/setup/built_cache.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "cmd/terminal/logging.h"
#include "core/error.h"
#include "core/system/file_descriptor.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAbi = "-cxx11-";

fs::path home_folder() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  const passwd* user = ::getpwuid(::getuid());
  return user != nullptr ? user->pw_dir : "";
}

core::Error io_error(const fs::path& file, const std::error_code& error) {
  return {core::ErrorKind::kIo, file.string() + ": " + error.message()};
}

/// A build may be adding to it and taking away.
Built look_into(const fs::path& folder) {
  const std::string name = folder.filename().string();
  Built built{name.substr(0, name.find(kAbi)), folder, {}, 0};
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    const std::uintmax_t bytes = entry->is_regular_file(gone) ? entry->file_size(gone) : 0;
    if (!gone) built.bytes += bytes;
    const std::string file = entry.depth() == 0 ? entry->path().filename().string() : "";
    std::string product = file == "probe.so" ? "probe" : "";
    if (file.starts_with("repro-check-recorder-")) product = "recorder";
    // Of one release in several environments there are several recorders.
    if (!product.empty() && std::ranges::count(built.products, product) == 0) {
      built.products.push_back(std::move(product));
    }
  }
  std::ranges::sort(built.products);
  return built;
}

/// Folders such as `2.13.0+cpu-cxx11-0.1.0-0123456789ab`, by name.
std::vector<Built> look_around(const fs::path& cache) {
  std::vector<Built> all;
  std::error_code error;
  for (fs::directory_iterator entry(cache, error), end; !error && entry != end;
       entry.increment(error)) {
    const bool ours = entry->path().filename().string().find(kAbi) != std::string::npos;
    std::error_code gone;
    if (ours && entry->is_directory(gone)) all.push_back(look_into(entry->path()));
  }
  if (error && error != std::errc::no_such_file_or_directory) throw io_error(cache, error);
  std::ranges::sort(all, {}, &Built::folder);
  return all;
}

bool has_no_product(const Built& built) { return built.products.empty(); }

/// Held by whoever builds it, until the process ends. What cannot be locked is taken to be free.
bool is_being_built(const core::FileDescriptor& lock) {
  return lock.get() >= 0 && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace

fs::path built_cache() {
  const char* named = std::getenv("XDG_CACHE_HOME");
  const fs::path given = named != nullptr ? named : "";
  return (given.is_absolute() ? given : home_folder() / ".cache") / "repro-check";
}

std::vector<Built> list_built(const fs::path& cache) {
  std::vector<Built> all = look_around(cache);
  std::erase_if(all, has_no_product);
  return all;
}

std::vector<Built> remove_built(const fs::path& cache) {
  std::vector<Built> removed;
  for (const Built& built : look_around(cache)) {
    const core::FileDescriptor lock(::open((built.folder / "lock").c_str(), O_RDWR | O_CLOEXEC));
    if (is_being_built(lock)) {
      log_warning("what is being built for PyTorch " + built.torch + " stays");
      continue;
    }
    std::error_code error;
    fs::remove_all(built.folder, error);
    if (error) throw io_error(built.folder, error);
    removed.push_back(built);
  }
  std::erase_if(removed, has_no_product);
  std::error_code not_empty;
  fs::remove(cache, not_empty);
  return removed;
}

}  // namespace repro_check::cmd
