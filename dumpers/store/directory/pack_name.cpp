// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/directory/pack_name.h"

#include <fmt/format.h>
#include <unistd.h>

#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "core/system/file_descriptor.h"
#include "core/text/printable.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/file/plain_file.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::Error;
using core::ErrorKind;

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

/// `out/` names `out`.
fs::path without_slash(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
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
  throw Error(ErrorKind::kDumpUnknown,
              there ? fmt::format("{}: is no packed dump: it is not compressed with zstd", name)
                    : fmt::format("{}: no such file", name),
              "give a file that `repro-check pack` has made");
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
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: is not called <name>{}, so the dump has no name",
                            core::printable(pack.string()),
                            kPackSuffix),
                "name its directory with -o DIR");
  }
  const std::string name = pack.filename().string();
  return pack.parent_path() / name.substr(0, name.size() - std::string_view(kPackSuffix).size());
}

}  // namespace repro_check::store
