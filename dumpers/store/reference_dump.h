// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/trace/dump.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/contents/content_writer.h"

namespace repro_check::store {

/// A dump that a recording may refer to, and what is stored in it.
struct ReferenceDump {
  core::TraceReference identity;  ///< without a word of how many contents
  std::unordered_set<core::ContentKey, ContentKeyHash> stored;
};

/// @throws core::Error{kUsage} when there is no dump, when its digests follow another rule or when
///         it refers to a dump itself; otherwise as open_dump()
ReferenceDump read_reference(const std::filesystem::path& directory);

/// The dump that a manifest refers to, as far as it was given.
class FoundReference {
 public:
  /// @param places  where it may be; it is taken where the digest of its index tells that it is the
  ///                one, and its index has that digest
  FoundReference(const std::optional<core::TraceReference>& wanted,
                 const std::vector<std::filesystem::path>& places);

  [[nodiscard]] bool has_content(const core::ContentKey& key) const {
    return dump_ && dump_->has_content(key);
  }
  /// The dump itself, for a content of it that the dump at `location` refers to.
  /// @throws core::Error{kNotComparable} when it was not given, {kDumpDamaged} when it lacks the
  ///         content
  [[nodiscard]] const core::DumpSource& holding(const std::string& location,
                                                const core::ContentKey& key) const;
  [[nodiscard]] bool given() const noexcept { return dump_ != nullptr; }
  /// As core::DumpSource::missing_reference().
  [[nodiscard]] const std::string& missing() const noexcept { return missing_; }

 private:
  std::unique_ptr<core::DumpSource> dump_;
  std::string missing_;
};

}  // namespace repro_check::store
