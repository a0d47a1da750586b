// SPDX-License-Identifier: Apache-2.0
#include "core/system/ownership.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"

namespace repro_check::core {
namespace {

namespace fs = std::filesystem;

std::string user_name(uid_t user) {
  const passwd* known = ::getpwuid(user);
  return known != nullptr ? fmt::format("user {}", known->pw_name) : fmt::format("user {}", user);
}

/// In a user namespace, as of a container without root, all users from outside have one number:
/// folders of the system belong to it there.
bool is_unmapped(uid_t user) {
  std::uint64_t number = 0;
  if (!(std::ifstream("/proc/sys/kernel/overflowuid") >> number) || number != user) return false;
  std::ifstream map("/proc/self/uid_map");
  bool is_known = false;
  for (std::uint64_t first = 0, outside = 0, count = 0; map >> first >> outside >> count;) {
    is_known = true;
    if (first <= number && number < first + count) return false;
  }
  return is_known;
}

class Checker {
 public:
  explicit Checker(const fs::path& beside) : owners_{0, ::geteuid()} {
    if (beside.empty()) return;
    std::error_code error;
    fs::path place = fs::canonical(beside, error);
    struct stat found {};
    if (error || ::stat(place.c_str(), &found) != 0) return;
    owners_.insert(found.st_uid);
    while (place.has_relative_path()) {
      place = place.parent_path();
      trusted_.insert(place.string());
    }
  }

  std::string refusal(const fs::path& path) {
    constexpr unsigned kMostLinks = 40;  // as the kernel
    fs::path place = "/";
    std::vector<fs::path> waiting;
    put(fs::absolute(path).relative_path(), waiting);
    std::string why = refusal_of(place);
    for (unsigned links = 0; why.empty() && !waiting.empty();) {
      const fs::path name = std::move(waiting.back());
      waiting.pop_back();
      if (name.empty() || name == ".") continue;
      if (name == "..") {
        place = place.parent_path();
        continue;
      }
      const fs::path at = place / name;
      if (trusted_.contains(at.string())) {
        place = at;
        continue;
      }
      struct stat found {};
      if (::lstat(at.c_str(), &found) != 0) {
        return errno == ENOENT || errno == ENOTDIR ? "" : said(at, std::strerror(errno));
      }
      if (!S_ISLNK(found.st_mode)) {
        why = refusal_of(at);
        place = at;
        continue;
      }
      if (++links > kMostLinks) return said(at, "has too many links");
      if (why = refusal_of_link(at, place, found); !why.empty()) return why;
      std::error_code error;
      const fs::path target = fs::read_symlink(at, error);
      if (error) return said(at, error.message());
      if (target.is_absolute()) place = "/";
      put(target.relative_path(), waiting);
    }
    return why;
  }

 private:
  static std::string said(const fs::path& path, const std::string& what) {
    return path.string() + ": " + what;
  }

  static void put(const fs::path& path, std::vector<fs::path>& waiting) {
    const std::vector<fs::path> names(path.begin(), path.end());
    waiting.insert(waiting.end(), names.rbegin(), names.rend());
  }

  /// Each file and folder is looked at once.
  const std::string& refusal_of(const fs::path& path) {
    const auto [known, is_new] = known_.try_emplace(path.string());
    if (is_new && !trusted_.contains(path.string())) known->second = ask(path);
    return known->second;
  }

  [[nodiscard]] std::string ask(const fs::path& path) const {
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0) return said(path, std::strerror(errno));
    const bool is_folder = S_ISDIR(found.st_mode);
    if (!is_folder && !S_ISREG(found.st_mode)) return said(path, "is no file");
    if (!owners_.contains(found.st_uid) && !(is_folder && is_unmapped(found.st_uid))) {
      return said(path, "belongs to " + user_name(found.st_uid));
    }
    if (is_folder && (found.st_mode & S_ISVTX) != 0) return "";
    const std::string writers = writers_of(found);
    return writers.empty() ? "" : said(path, writers + " can write to it");
  }

  [[nodiscard]] std::string refusal_of_link(const fs::path& link,
                                            const fs::path& folder,
                                            const struct stat& found) const {
    if (!owners_.contains(found.st_uid)) {
      return said(link, "is a link that belongs to " + user_name(found.st_uid));
    }
    struct stat around {};
    const bool is_trusted = trusted_.contains(folder.string());
    if (!is_trusted && (::lstat(folder.c_str(), &around) != 0 || !writers_of(around).empty())) {
      return said(link, "is a link in a folder that others can write to");
    }
    return "";
  }

  /// Those who can write to it beside its owner; empty if there are none.
  [[nodiscard]] std::string writers_of(const struct stat& found) const {
    if ((found.st_mode & S_IWOTH) != 0) return "other users";
    return (found.st_mode & S_IWGRP) != 0 && has_others(found.st_gid) ? "its group" : "";
  }

  /// True if a group has members that are none of the owners, or is not known.
  [[nodiscard]] bool has_others(gid_t group) const {
    const struct group* known = ::getgrgid(group);
    if (known == nullptr) return true;
    std::set<std::string> members;
    for (char** member = known->gr_mem; *member != nullptr; ++member) members.insert(*member);
    bool is_first_of_others = false;
    ::setpwent();
    while (const passwd* user = ::getpwent()) {
      if (owners_.contains(user->pw_uid)) {
        members.erase(user->pw_name);
      } else if (user->pw_gid == group) {
        is_first_of_others = true;
      }
    }
    ::endpwent();
    return is_first_of_others || !members.empty();
  }

  std::set<uid_t> owners_;
  std::set<std::string> trusted_;
  std::map<std::string, std::string> known_;
};

}  // namespace

std::string refusal(const fs::path& path, const fs::path& beside) {
  return Checker(beside).refusal(path);
}

std::string refusal_of_tree(const fs::path& path, const fs::path& beside) {
  Checker checker(beside);
  std::string why = checker.refusal(path);
  std::error_code error;
  fs::recursive_directory_iterator entries(
      path, fs::directory_options::follow_directory_symlink, error);
  for (; why.empty() && !error && entries != fs::recursive_directory_iterator();
       entries.increment(error)) {
    why = checker.refusal(entries->path());
  }
  if (why.empty() && error) why = path.string() + ": " + error.message();
  return why;
}

PrivateFolder::PrivateFolder(const fs::path& prefix) {
  std::string name = fs::absolute(prefix).string() + "XXXXXX";
  std::error_code error;
  fs::create_directories(fs::path(name).parent_path(), error);
  if (error || ::mkdtemp(name.data()) == nullptr) {
    const std::string why = error ? error.message() : std::strerror(errno);
    throw usage_error(
        fmt::format(
            "{}: a folder cannot be made there: {}", fs::path(name).parent_path().string(), why),
        "choose a place that can be written");
  }
  path_ = name;
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!keeps_) fs::remove_all(path_, ignored);
}

}  // namespace repro_check::core
