// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/recovery/partial_dump.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text/printable.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/recovery/recording.h"
#include "dumpers/store/reference_dump.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;

class UnfinishedDump final : public core::DumpSource {
 public:
  UnfinishedDump(std::string location,
                 const fs::path& directory,
                 const std::vector<fs::path>& references)
      : location_(std::move(location)),
        recording_(directory),
        journal_(recording_.journal()),
        manifest_(recording_.manifest(core::printable(location_), 0)),
        reference_(manifest_.trace.reference, references) {
    // Nobody has looked at every byte yet, so nobody can say that it is whole.
    if (!manifest_.trace.partial) {
      manifest_.trace.partial.emplace().reason = "recorded to its end, and never folded";
    }
    manifest_.trace.contents = journal_.contents().size();
    manifest_.trace.stored_bytes = 0;
    for (const auto& [key, spot] : journal_.contents()) {
      listed_.push_back(&key);
      if (spot.place != journal::ContentPlace::kReference) {
        manifest_.trace.stored_bytes += spot.size;
      }
    }
  }

  [[nodiscard]] const std::string& location() const override { return location_; }
  [[nodiscard]] const core::RunManifest& manifest() const override { return manifest_; }
  [[nodiscard]] std::uint64_t op_count() const override { return journal_.op_count(); }

  [[nodiscard]] core::OpRecord op_head(std::uint64_t index) const override {
    core::OpRecord record = journal_.record(index);
    record.arguments.clear();
    record.results.clear();
    record.tensors.clear();
    record.substitutions.clear();
    record.generator.reset();
    record.wall_ns = 0;
    return record;
  }

  [[nodiscard]] core::OpRecord op(std::uint64_t index) const override {
    core::OpRecord record = journal_.record(index);
    for (core::TensorRecord& tensor : record.tensors) {
      const core::ContentKey key = tensor.content_key();
      tensor.stored = tensor.stored && (recording_.is_referred(key) || has_content(key));
    }
    return record;
  }

  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    if (recording_.is_referred(key)) return reference_.has_content(key);
    const auto [answer, is_new] = held_.try_emplace(key, false);
    std::vector<std::byte> bytes;
    if (is_new) answer->second = recording_.read(key, bytes);
    return answer->second;
  }

  [[nodiscard]] std::optional<core::ContentSlice> find_slice(
      const core::ContentKey& key) const override {
    const auto found = journal_.slices().find(key);
    return found == journal_.slices().end() ? std::nullopt : std::optional(found->second);
  }

  void read_content(const core::ContentKey& key, std::vector<std::byte>& into) const override {
    if (recording_.is_referred(key)) return reference_.read_content(location_, key, into);
    if (recording_.read(key, into)) return;
    throw core::Error(
        core::ErrorKind::kNotComparable,
        fmt::format("{}: content {} is not stored", location_, core::content_name(key)),
        "the recording was cut short before its bytes reached the disk");
  }

  [[nodiscard]] std::string missing_reference() const override { return reference_.missing(); }

  [[nodiscard]] std::uint64_t content_count() const override { return listed_.size(); }
  /// Bytes that do not match are not there: has_content() says so.
  [[nodiscard]] std::optional<core::ContentKey> content(std::uint64_t position) const override {
    const core::ContentKey& key = *listed_.at(position);
    const bool readable = recording_.is_referred(key) ? reference_.given() : has_content(key);
    return readable ? std::optional(key) : std::nullopt;
  }

 private:
  std::string location_;
  Recording recording_;
  const journal::RecordedJournal& journal_;  ///< of the recording
  core::RunManifest manifest_;
  FoundReference reference_;
  std::vector<const core::ContentKey*> listed_;  ///< as content()
  mutable std::map<core::ContentKey, bool> held_;
};

}  // namespace

std::unique_ptr<core::DumpSource> open_partial(const fs::path& directory,
                                               const std::vector<fs::path>& references) {
  std::error_code code;
  const bool is_file = fs::is_regular_file(directory, code);
  const fs::path place =
      is_file && directory.filename() == kJournalName ? locate_journal(directory) : directory;
  const bool unfinished =
      fs::exists(place / kJournalName, code) && !fs::exists(place / kManifestName, code);
  if (!unfinished) return open_dump(directory, references);
  return std::make_unique<UnfinishedDump>(directory.string(), place, references);
}

}  // namespace repro_check::store
