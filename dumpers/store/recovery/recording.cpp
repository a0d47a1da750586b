// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/recovery/recording.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/text/printable.h"
#include "dumpers/store/directory/dump_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;

/// What is known of a run that said nothing about itself.
core::RunManifest bare_manifest(const journal::RecordedJournal& journal, const std::string& name) {
  core::RunManifest manifest;
  manifest.run_name = name;
  manifest.tool_version = "unknown";
  manifest.trace.level = journal.contents.empty() ? "digest" : "tensor";
  manifest.trace.depth = journal.totals.deepest == 0 ? "top" : "all";
  manifest.trace.digest_algorithm = core::kDigestAlgorithm;
  return manifest;
}

std::string reason_of(const journal::RecordedJournal& journal, std::uint64_t lost_contents) {
  const journal::JournalSummary& reached = journal.summary;
  if (!reached.failure.empty()) return core::printable(reached.failure);
  if (journal.finished && lost_contents != 0) {
    return fmt::format("the bytes of {} tensor{} never reached the disk",
                       lost_contents,
                       lost_contents == 1 ? "" : "s");
  }
  if (reached.entered) {
    return fmt::format("stopped in op {} {}", *reached.entered, reached.entered_operator);
  }
  if (reached.last)
    return fmt::format("stopped after op {} {}", *reached.last, reached.last_operator);
  return "stopped before its first operator";
}

core::PartialTrace partial_trace(const journal::RecordedJournal& journal,
                                 std::uint64_t lost_contents) {
  const journal::JournalSummary& reached = journal.summary;
  core::PartialTrace partial;
  partial.reason = reason_of(journal, lost_contents);
  const bool inside = reached.entered && (!reached.last || *reached.entered > *reached.last);
  partial.last = inside ? *reached.entered : reached.last.value_or(0);
  partial.last_operator = inside ? reached.entered_operator : reached.last_operator;
  partial.unfinished = journal.unfinished;
  partial.lost_contents = lost_contents;
  return partial;
}

std::optional<core::TraceReference> reference_of(const journal::RecordedJournal& journal) {
  if (!journal.reference) return std::nullopt;
  core::TraceReference reference{
      journal.reference->run_name, journal.reference->index_digest, 0, 0};
  for (const auto& [key, spot] : journal.contents) {
    if (spot.place != journal::ContentPlace::kReference) continue;
    ++reference.contents;
    reference.bytes += spot.size;
  }
  return reference.contents == 0 ? std::nullopt : std::optional(reference);
}

}  // namespace

fs::path locate_journal(const fs::path& path) {
  std::error_code code;
  const std::string name = core::printable(path.string());
  fs::path directory = path;
  if (is_pack(path)) {
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("{}: is a packed dump, which holds no recording", name),
                      "give the directory of a recording");
  }
  if (path.filename() == kJournalName && !fs::is_directory(path, code)) {
    directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  }
  if (!fs::exists(directory / kJournalName, code)) {
    const bool whole = fs::exists(directory / kManifestName, code);
    if (whole) {
      const fs::path beside = recording_beside(directory);
      throw core::Error(core::ErrorKind::kUsage,
                        fmt::format("{}: is a complete dump: there is nothing to do", name),
                        fs::exists(beside / kJournalName, code)
                            ? "the recording that was to replace it is " + beside.string()
                            : "diff and inspect read it as it is");
    }
    throw core::Error(core::ErrorKind::kDumpUnknown,
                      fmt::format("{}: there is no journal in this directory", name),
                      "give the directory of a recording");
  }
  return directory;
}

Recording::Recording(fs::path directory)
    : directory_(std::move(directory)), journal_(directory_ / kJournalName) {}

bool Recording::is_referred(const core::ContentKey& key) const {
  const auto found = journal_.contents.find(key);
  return found != journal_.contents.end() &&
         found->second.place == journal::ContentPlace::kReference;
}

/// Negative where it cannot be opened.
int Recording::file(journal::ContentPlace place) const {
  std::optional<core::FileDescriptor>& file = files_.at(static_cast<std::size_t>(place));
  if (!file) {
    const char* name = kJournalName;
    if (place == journal::ContentPlace::kTrace) name = kTraceName;
    if (place == journal::ContentPlace::kContents) name = kContentsName;
    file.emplace(
        ::open((directory_ / name).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  }
  return file->get();
}

bool Recording::read(const core::ContentKey& key, std::vector<std::byte>& into) const {
  const auto found = journal_.contents.find(key);
  if (found == journal_.contents.end() || is_referred(key)) return false;
  const journal::ContentSpot& spot = found->second;
  const int fd = file(spot.place);
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  // Before memory is asked for: a journal may speak of more than its files hold.
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (spot.offset > size || spot.size > size - spot.offset) return false;
  into.resize(spot.size);
  return core::read_at(fd, spot.offset, into) == spot.size &&
         core::digest_bytes(into) == key.digest;
}

core::RunManifest Recording::manifest(const std::string& name, std::uint64_t lost_contents) const {
  const auto& text = journal_.finished ? journal_.finished : journal_.begun;
  core::RunManifest manifest =
      text ? core::manifest_from_json_text(*text, name + ": the manifest in its journal")
           : bare_manifest(journal_, name);
  core::TraceSummary& trace = manifest.trace;
  trace.reference = reference_of(journal_);
  trace.slices = journal_.slices.size();
  const journal::JournalTotals& totals = journal_.totals;
  const bool whole = journal_.finished && lost_contents == 0 && journal_.unfinished.empty() &&
                     trace.operators == journal_.op_count() && trace.tensors == totals.tensors;
  if (whole) return manifest;
  trace.operators = journal_.op_count();
  trace.tensors = totals.tensors;
  trace.substitutions = totals.substitutions;
  trace.drawing_operators = totals.drawing_operators;
  trace.returned = totals.returned;
  trace.partial = partial_trace(journal_, lost_contents);
  return manifest;
}

}  // namespace repro_check::store
