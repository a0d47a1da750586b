// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/recovery/recovery.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <map>
#include <new>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/system/file_descriptor.h"
#include "core/text/text.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/file/hdf5.h"
#include "dumpers/store/file/trace_file.h"
#include "dumpers/store/index/index.h"
#include "dumpers/store/reference_dump.h"

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

/// The directory of the journal that `path`, a directory or the journal itself, names.
/// @throws core::Error{kDumpUnknown} when there is none; {kUsage} when a complete dump is there
fs::path locate_journal(const fs::path& path) {
  std::error_code code;
  const std::string name = core::printable(path.string());
  fs::path directory = path;
  if (is_pack(path)) {
    throw core::usage_error(fmt::format("{}: is a packed dump, which holds no recording", name),
                            "give the directory of a recording");
  }
  if (path.filename() == kJournalName && !fs::is_directory(path, code)) {
    directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  }
  if (!fs::exists(directory / kJournalName, code)) {
    const bool whole = fs::exists(directory / kManifestName, code);
    if (whole) {
      const fs::path beside = recording_beside(directory);
      throw core::usage_error(fmt::format("{}: is a complete dump: there is nothing to do", name),
                              fs::exists(beside / kJournalName, code)
                                  ? "the recording that was to replace it is " + beside.string()
                                  : "diff and inspect read it as it is");
    }
    throw core::unknown_dump(fmt::format("{}: there is no journal in this directory", name),
                             "give the directory of a recording");
  }
  return directory;
}

/// What a recording that has no index yet has left in its directory. Its files are opened by their
/// fixed names there, and never through a link.
class Recording {
 public:
  /// @throws as journal::RecordedJournal
  explicit Recording(std::filesystem::path directory);

  [[nodiscard]] const journal::RecordedJournal& journal() const noexcept { return journal_; }

  /// Whether the bytes of a content are in the dump that the recording refers to.
  [[nodiscard]] bool is_referred(const core::ContentKey& key) const;

  /// @param into  replaced; the bytes where the answer is true
  /// @return whether the bytes are here and match their digest
  bool read(const core::ContentKey& key, std::vector<std::byte>& into) const;

  /// The manifest as the recording left it, or as it was known when it began, with `trace.partial`
  /// set unless everything is there.
  /// @param name  stands for the run's where the journal does not know it
  /// @throws core::Error{kDumpDamaged} when the manifest in the journal makes no sense
  [[nodiscard]] core::RunManifest manifest(const std::string& name,
                                           std::uint64_t lost_contents) const;

 private:
  [[nodiscard]] int file(journal::ContentPlace place) const;

  std::filesystem::path directory_;
  journal::RecordedJournal journal_;
  mutable std::array<std::optional<core::FileDescriptor>, 3> files_;  ///< by place
};

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
    manifest_.trace.contents = journal_.contents.size();
    manifest_.trace.stored_bytes = 0;
    for (const auto& [key, spot] : journal_.contents) {
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
    return {static_cast<core::OpHead>(journal_.record(index))};
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
    const auto found = journal_.slices.find(key);
    return found == journal_.slices.end() ? std::nullopt : std::optional(found->second);
  }

  void read_content(const core::ContentKey& key, std::vector<std::byte>& into) const override {
    if (recording_.is_referred(key)) {
      return reference_.holding(location_, key).read_content(key, into);
    }
    if (recording_.read(key, into)) return;
    throw core::not_comparable(
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

namespace {

using core::Error;

/// Plays a recording into a writer, event by event, so that the dump is made as if it had been
/// recorded there.
class Replay {
 public:
  Replay(const Recording& recording, DumpWriter& writer)
      : recording_(recording), journal_(recording.journal()), writer_(writer) {}

  void run(const fs::path& journal, const RecoveryProgress& progress) {
    journal::JournalReader reader(journal);
    while (std::optional<journal::Event> event = reader.next_event()) {
      std::visit(*this, *event);
      if (progress) progress(done_, journal_.op_count());
    }
    for (const std::uint64_t index : journal_.unfinished) writer_.append(journal_.record(index));
  }

  void operator()(const core::OpHead& call) {
    if (call.index < journal_.op_count()) writer_.enter(call);
  }
  void operator()(const journal::StoredContent& content) { keep(content.key); }
  void operator()(core::OpRecord& record) {
    for (core::TensorRecord& tensor : record.tensors) {
      tensor.stored = tensor.stored && keep(tensor.content_key());
    }
    writer_.append(record);
    ++done_;
  }
  void operator()(const journal::SlicedContent& content) {
    if (keep(core::slice_key(content.key, content.slice))) {
      writer_.put_slice(content.key, content.slice);
    }
  }
  void operator()(const journal::Referred& dump) { writer_.refer_to(dump); }
  template <typename Other>  // failures and manifests: Recording knows of them
  void operator()(const Other& /*event*/) {}

  /// Contents whose bytes are not there.
  [[nodiscard]] const std::set<core::ContentKey>& lost() const noexcept { return lost_; }

 private:
  bool keep(const core::ContentKey& key) {
    if (writer_.has_content(key)) return true;
    if (recording_.is_referred(key)) {
      writer_.put_reference(key);
      return true;
    }
    if (lost_.contains(key)) return false;
    if (!recording_.read(key, bytes_)) {
      lost_.insert(key);
      return false;
    }
    return writer_.put_content(key, bytes_);
  }

  const Recording& recording_;
  const journal::RecordedJournal& journal_;
  DumpWriter& writer_;
  std::set<core::ContentKey> lost_;
  std::vector<std::byte> bytes_;
  std::uint64_t done_ = 0;
};

/// Makes the dump; `judge` says what its manifest is, or throws, when it is known what was lost.
template <typename Judge>
MadeDump replay_into(const fs::path& directory,
                     const Recording& recording,
                     const fs::path& dump,
                     const DumpWriterOptions& options,
                     const RecoveryProgress& progress,
                     Judge judge) {
  DumpWriter writer(dump, options);
  try {
    Replay replay(recording, writer);
    replay.run(directory / kJournalName, progress);
    core::RunManifest manifest = judge(replay.lost());
    MadeDump made{manifest.trace, {}};
    made.manifest = writer.finish(std::move(manifest));
    made.stored_bytes = writer.stored_bytes();
    return made;
  } catch (const Error& failure) {
    writer.fail(failure.what());
    throw;
  } catch (const std::bad_alloc&) {
    writer.fail("memory ran out");
    throw core::damaged_dump(
        fmt::format("{}: it needs more memory than there is", directory.string()));
  }
}

std::string name_of(const fs::path& directory) {
  std::error_code code;
  const fs::path whole = fs::absolute(directory, code).lexically_normal();
  return core::printable(
      (whole.has_filename() ? whole.filename() : whole.parent_path().filename()).string());
}

void refuse_busy(const fs::path& directory) {
  if (!journal::is_being_written(directory / kJournalName)) return;
  throw core::usage_error(fmt::format("{}: it is still being recorded", directory.string()),
                          "wait for it, or look into it with `repro-check inspect --partial`");
}

/// Operators that the trace of a recording lists by itself: none before it was closed.
std::uint64_t listed_operators(const fs::path& directory) {
  const Hdf5Scope scope;
  try {
    const TraceFile trace(directory / kTraceName);
    const GroupHandle index = trace.group("index");
    return TableReader(trace, index.get(), journal::kOpsTable.name).rows();
  } catch (const Error&) {
    return 0;
  }
}

/// What is recovered in place takes the place of the trace, which must not have held more.
void refuse_loss(const fs::path& directory, std::uint64_t found) {
  const std::uint64_t listed = listed_operators(directory);
  if (listed <= found) return;
  throw core::damaged_dump(
      fmt::format("{}: its journal holds {} operators, and {} beside it {}: that would be "
                  "replaced by less",
                  core::printable(directory.string()),
                  found,
                  kTraceName,
                  listed),
      "the journal is damaged; recover what it holds to another directory with -o");
}

}  // namespace

MadeDump import_journal(const fs::path& recording,
                        const fs::path& dump,
                        const DumpWriterOptions& options,
                        const RecoveryProgress& progress) {
  const fs::path directory = locate_journal(recording);
  refuse_busy(directory);
  const Recording recorded(directory);
  if (!recorded.journal().finished) {
    throw core::incomplete_dump(
        fmt::format("{}: the recording never finished: {} operators are whole",
                    recording.string(),
                    recorded.journal().summary.completed),
        fmt::format("keep what there is: repro-check recover {} -o DUMP", directory.string()));
  }
  return replay_into(
      directory, recorded, dump, options, progress, [&](const std::set<core::ContentKey>& lost) {
        core::RunManifest manifest = recorded.manifest(name_of(directory), lost.size());
        if (!manifest.trace.partial) return manifest;
        const std::string which =
            lost.empty() ? "the journal does not hold what its manifest says"
                         : fmt::format("the bytes of {} tensors do not match, the first of them {}",
                                       lost.size(),
                                       core::content_name(*lost.begin()));
        throw core::damaged_dump(fmt::format("{}: {}", recording.string(), which),
                                 "copy it again, or keep what is good: repro-check recover");
      });
}

MadeDump recover_dump(const fs::path& recording,
                      const std::optional<fs::path>& dump,
                      DumpWriterOptions options,
                      const RecoveryProgress& progress) {
  const fs::path directory = locate_journal(recording);
  std::error_code code;
  if (fs::exists(directory / kManifestName, code)) {
    throw core::usage_error(fmt::format("{}: is a complete dump: there is nothing to recover",
                                        core::printable(recording.string())),
                            "diff and inspect read it as it is");
  }
  refuse_busy(directory);
  const Recording recorded(directory);
  if (!dump) {
    refuse_loss(directory, recorded.journal().op_count());
    options.replace_existing = true;
  }
  return replay_into(directory,
                     recorded,
                     dump.value_or(directory),
                     options,
                     progress,
                     [&](const std::set<core::ContentKey>& lost) {
                       return recorded.manifest(name_of(directory), lost.size());
                     });
}

}  // namespace repro_check::store
