// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/reference_dump.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/text/text.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/file/trace_file.h"
#include "dumpers/store/index/index.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::Error;

[[noreturn]] void refuse(const fs::path& directory,
                         const std::string& why,
                         const std::string& hint) {
  throw core::usage_error(
      fmt::format("{}: cannot be referred to: {}", core::printable(directory.string()), why), hint);
}

core::RunManifest referable(const fs::path& directory) {
  std::error_code code;
  if (!fs::exists(directory, code)) {
    refuse(directory,
           "there is no such directory",
           "record the dump that dump.reference names first, or leave dump.reference out");
  }
  core::RunManifest manifest = read_manifest(locate_dump(directory));
  if (manifest.trace.digest_algorithm != core::kDigestAlgorithm) {
    refuse(directory,
           fmt::format("its digests are \"{}\", ours \"{}\"",
                       core::printable(manifest.trace.digest_algorithm),
                       core::kDigestAlgorithm),
           "record it again, or leave dump.reference out");
  }
  if (manifest.trace.reference) {
    refuse(directory,
           fmt::format("it refers to another dump itself, that of run \"{}\"",
                       core::printable(manifest.trace.reference->run_name)),
           "name that one in dump.reference");
  }
  return manifest;
}

/// `run "baseline" (index digest 0f...)`
std::string description_of(const core::TraceReference& wanted) {
  return fmt::format("that of run \"{}\" with the index digest {}",
                     core::printable(wanted.run_name),
                     core::to_hex(wanted.index_digest));
}

/// The dump in `place` if it is the one; otherwise null, and `why` says why not.
std::unique_ptr<core::DumpSource> take(const core::TraceReference& wanted,
                                       const fs::path& place,
                                       std::string& why) {
  try {
    const auto is_wanted = [&](const core::RunManifest& manifest) {
      return manifest.trace.index_digest == wanted.index_digest && !manifest.trace.reference;
    };
    // The manifest of a directory tells without its index being read.
    if (is_pack(place) || is_wanted(read_manifest(locate_dump(place)))) {
      std::unique_ptr<core::DumpSource> dump = open_dump(place);
      if (is_wanted(dump->manifest())) return dump;
    }
    why += fmt::format("; {} is another", core::printable(place.string()));
  } catch (const Error& error) {
    why += fmt::format("; {}", error.what());
  }
  return nullptr;
}

}  // namespace

bool is_same_place(const fs::path& left, const fs::path& right) {
  std::error_code code;
  const auto resolved = [&code](const fs::path& path) {
    const fs::path whole = fs::weakly_canonical(fs::absolute(path, code), code);
    return whole.has_filename() ? whole : whole.parent_path();
  };
  const fs::path one = resolved(left);
  const fs::path other = code ? fs::path() : resolved(right);
  return !code && one == other;
}

ReferenceDump read_reference(const fs::path& directory) {
  const Hdf5Scope scope;
  const core::RunManifest manifest = referable(directory);
  const TraceFile file(locate_dump(directory) / kTraceName);
  const IndexReader index(file, manifest.trace.index_digest);
  ReferenceDump reference{{manifest.run_name, manifest.trace.index_digest}, {}};
  for (std::uint64_t i = 0; i < index.content_count(); ++i) {
    auto [key, place] = index.content(i);
    if (place != kInReference) reference.stored.insert(std::move(key));
  }
  return reference;
}

void require_reference(const fs::path& directory) { static_cast<void>(read_reference(directory)); }

FoundReference::FoundReference(const std::optional<core::TraceReference>& wanted,
                               const std::vector<fs::path>& places) {
  if (!wanted) return;
  std::string why;
  for (const fs::path& place : places) {
    dump_ = take(*wanted, place, why);
    if (dump_) return;
  }
  missing_ = fmt::format(
      "they are in the dump it refers to, {}, which is not given{}", description_of(*wanted), why);
}

const core::DumpSource& FoundReference::holding(const std::string& location,
                                                const core::ContentKey& key) const {
  if (!dump_) {
    throw core::not_comparable(fmt::format("{}: the bytes of content {} are missing: {}",
                                           location,
                                           core::content_name(key),
                                           missing_),
                               "give the place of that dump: --reference DIR");
  }
  if (!dump_->has_content(key)) {
    throw core::damaged_dump(fmt::format("{}: content {} should be in {}, which does not have it",
                                         location,
                                         core::content_name(key),
                                         dump_->location()),
                             "record the run again");
  }
  return *dump_;
}

}  // namespace repro_check::store
