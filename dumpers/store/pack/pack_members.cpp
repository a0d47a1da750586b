// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/pack/pack_members.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text/printable.h"
#include "dumpers/store/directory/dump_directory.h"

namespace repro_check::store {
namespace {

using core::Error;
using core::ErrorKind;

constexpr const char* kPackHint = "give a file that `repro-check pack` has made";

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

bool leads_elsewhere(std::string_view part) { return part.empty() || part == "." || part == ".."; }

}  // namespace

void PackMembers::refuse(std::string_view name, const char* why) const {
  constexpr std::size_t kLongest = 200;
  throw Error(
      ErrorKind::kDumpUnknown,
      fmt::format("{}: is no packed dump: \"{}\" {}", pack_, core::printable(name, kLongest), why),
      kPackHint);
}

void PackMembers::expect_directory(std::string_view name, const std::string& directory) {
  if (!directory_) directory_ = directory;
  if (*directory_ != directory) refuse(name, "is in another directory than the rest");
}

PackMember PackMembers::known(std::string_view name, std::string_view base) {
  const bool is_manifest = base == kManifestName;
  if (!is_manifest && base != kTraceName) refuse(name, "belongs to no dump");
  bool& seen = is_manifest ? has_manifest_ : has_trace_;
  if (seen) refuse(name, "is there twice");
  seen = true;
  return is_manifest ? PackMember{PackMember::Kind::kManifest, kManifestName, 0}
                     : PackMember{PackMember::Kind::kTrace, kTraceName, 0};
}

PackMember PackMembers::accept(archive_entry* entry, std::uint64_t largest) {
  const std::string_view name = path_of(entry);
  const std::vector<std::string_view> parts = parts_of(name);
  for (const std::string_view part : parts) {
    if (leads_elsewhere(part)) refuse(name, "leads out of its directory");
  }
  if (archive_entry_filetype(entry) == AE_IFDIR) {
    if (parts.size() > 1) refuse(name, "is a directory inside another");
    if (std::exchange(has_directory_entry_, true)) refuse(name, "is a second directory");
    expect_directory(name, std::string(parts.empty() ? "" : parts.front()));
    return {};
  }
  if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr ||
      archive_entry_sparse_count(entry) != 0) {
    refuse(name, "is no plain file");
  }
  if (parts.empty() || parts.size() > 2) refuse(name, "belongs to no dump");
  expect_directory(name, std::string(parts.size() == 2 ? parts.front() : ""));
  PackMember member = known(name, parts.back());
  const la_int64_t bytes = archive_entry_size(entry);
  constexpr std::uint64_t kLargestManifest = std::uint64_t{256} << 20U;
  const bool is_manifest = member.kind == PackMember::Kind::kManifest;
  if (bytes < 0 || static_cast<std::uint64_t>(bytes) > largest ||
      (is_manifest && static_cast<std::uint64_t>(bytes) > kLargestManifest)) {
    throw Error(ErrorKind::kDumpDamaged,
                fmt::format("{}: {} says that it has {} bytes, more than so small a pack is "
                            "unpacked to",
                            pack_,
                            member.name,
                            bytes),
                "if you trust it: tar --zstd -xf, and read the directory");
  }
  member.bytes = static_cast<std::uint64_t>(bytes);
  return member;
}

void PackMembers::expect_all() const {
  if (has_manifest_ && has_trace_) return;
  throw Error(ErrorKind::kDumpUnknown,
              fmt::format("{}: is no packed dump: it holds no {}",
                          pack_,
                          has_manifest_ ? kTraceName : kManifestName),
              kPackHint);
}

}  // namespace repro_check::store
