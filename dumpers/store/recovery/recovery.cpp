// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/recovery/recovery.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <map>
#include <new>
#include <system_error>
#include <utility>
#include <variant>

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

/// The directory of the journal that `path`, a directory or the journal itself, names.
/// @throws core::Error{kDumpUnknown} when there is none; {kUsage} when a complete dump is there
fs::path locate_journal(const fs::path& path) {
  std::error_code code;
  const std::string name = core::printable(path.string());
  fs::path directory = path;
  if (is_pack(path)) {
    throw core::usage_error(fmt::format("{}: is a packed dump, which holds no recording", name),
                            "give a journal.bin or the directory of a recording");
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
                                  : "diff and inspect can read it");
    }
    throw core::unknown_dump(fmt::format("{}: it holds no journal", name),
                             "give a journal.bin or the directory of a recording");
  }
  return directory;
}

/// What a recording that has no index yet has left in its directory: a journal gone through once,
/// whose records can then be read in any order. Holds some bytes an operator and each content's
/// place; the records stay in the file. Its files are opened by their fixed names, and never
/// through a link.
class Recording {
 public:
  /// Where the bytes of a content are.
  struct Spot {
    journal::ContentPlace place = journal::ContentPlace::kInline;
    std::uint64_t offset = 0;  ///< inline: in the journal itself
    std::uint64_t size = 0;
  };

  /// @throws as journal::JournalReader; core::Error{kDumpDamaged} also when the records make no
  ///         trace
  explicit Recording(fs::path directory)
      : directory_(std::move(directory)), reader_(directory_ / kJournalName) {
    while (const std::optional<journal::Event> event = reader_.next_event()) {
      std::visit([this](const auto& kind) { add(kind); }, *event);
      builder_.add(*event);
    }
    summary = builder_.finish();
    for (std::uint64_t index = 0; index < offsets_.size(); ++index) {
      if (offsets_[index] != kMissing) continue;
      if (!builder_.open.contains(index)) damaged(fmt::format("op {} is missing", index));
      unfinished.push_back(index);
    }
    if (std::cmp_greater_equal(last_producer_, offsets_.size())) {
      damaged("a tensor was produced by an operator that is not there");
    }
  }

  /// One more than the highest index of a whole record.
  [[nodiscard]] std::uint64_t op_count() const noexcept { return offsets_.size(); }
  [[nodiscard]] const core::RootNames& roots() const noexcept { return reader_.roots(); }
  [[nodiscard]] std::set<std::string> source_files() const { return reader_.source_files(); }
  [[nodiscard]] bool is_finished() const noexcept { return finished_.has_value(); }

  /// @param index  below op_count(); of one that is unfinished only its head
  [[nodiscard]] core::OpRecord record(std::uint64_t index) const {
    if (offsets_.at(index) != kMissing) return reader_.record_at(offsets_[index]);
    return {builder_.open.at(index)};
  }

  /// Whether the bytes of a content are in the dump that the recording refers to.
  [[nodiscard]] bool is_referred(const core::ContentKey& key) const {
    const auto found = contents.find(key);
    return found != contents.end() && found->second.place == journal::ContentPlace::kReference;
  }

  /// @param into  replaced; the bytes where the answer is true
  /// @return whether the bytes are here and match their digest
  bool read(const core::ContentKey& key, std::vector<std::byte>& into) const {
    const auto found = contents.find(key);
    if (found == contents.end() || is_referred(key)) return false;
    const Spot& spot = found->second;
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

  /// The manifest as the recording left it, or as it was known when it began, with `trace.partial`
  /// set unless everything is there.
  /// @param name  stands for the run's where the journal does not know it
  /// @throws core::Error{kDumpDamaged} when the manifest in the journal makes no sense
  [[nodiscard]] core::RunManifest manifest(const std::string& name,
                                           std::uint64_t lost_contents) const {
    const auto& text = finished_ ? finished_ : begun_;
    core::RunManifest manifest =
        text ? core::manifest_from_json_text(*text, name + ": the manifest in its journal")
             : bare_manifest(name);
    core::TraceSummary& trace = manifest.trace;
    trace.reference = reference();
    trace.slices = slices.size();
    const bool whole = finished_ && lost_contents == 0 && unfinished.empty() &&
                       trace.operators == op_count() && trace.tensors == totals_.tensors &&
                       has_all_blocks(trace);
    if (whole) return manifest;
    if (!trace.blocks && !(blocks.empty() && parameters.empty())) trace.blocks.emplace();
    if (trace.blocks) {
      trace.depth = core::kDepthBlocks;
      trace.blocks->rows = blocks.size();
      trace.blocks->parameters = parameters.size();
    }
    trace.operators = op_count();
    trace.tensors = totals_.tensors;
    trace.substitutions = totals_.substitutions;
    trace.drawing_operators = totals_.drawing_operators;
    trace.returned = totals_.returned;
    trace.partial = partial(lost_contents);
    return manifest;
  }

  std::vector<std::uint64_t> unfinished;  ///< below op_count(), entered and never left; ascending
  std::map<core::ContentKey, Spot> contents;
  Slices slices;  ///< contents that were not kept whole
  std::vector<core::BlockRow> blocks;
  std::vector<core::ParameterRow> parameters;
  journal::JournalSummary summary;

 private:
  static constexpr std::uint64_t kMissing = 0;  // the header is there, no entry

  void add(const core::OpRecord& record) {
    check(static_cast<const core::OpHead&>(record));
    if (record.index >= offsets_.size()) offsets_.resize(record.index + 1, kMissing);
    if (std::exchange(offsets_[record.index], reader_.begin()) != kMissing) {
      damaged(fmt::format("op {} is there twice", record.index));
    }
    for (const core::TensorRecord& tensor : record.tensors) {
      last_producer_ = std::max(last_producer_, tensor.producer);
    }
    totals_.tensors += record.tensors.size();
    totals_.substitutions += record.substitutions.size();
    totals_.drawing_operators += record.generator ? 1U : 0U;
    totals_.returned += core::is_returned(record) ? 1U : 0U;
    if (record.depth > 0) totals_.depth = "all";
  }
  void add(const core::OpHead& call) {
    ++entered_;
    check(call);
  }
  void add(const journal::StoredContent& content) {
    const bool is_inline = content.place == journal::ContentPlace::kInline;
    if (content.place == journal::ContentPlace::kReference && !referred_) {
      damaged("a content lies in another dump, and none was named");
    }
    const std::uint64_t offset = is_inline ? reader_.end() - content.size : content.offset;
    contents.try_emplace(content.key, Spot{content.place, offset, content.size});
  }
  void add(const core::TraceReference& dump) {
    if (referred_ && *referred_ != dump) damaged("it refers to two dumps");
    referred_ = dump;
  }
  void add(const journal::SlicedContent& sliced) { slices.try_emplace(sliced.key, sliced.slice); }
  void add(const journal::Begun& first) { begun_ = first.manifest; }
  void add(const journal::Finished& last) { finished_ = last.manifest; }
  void add(const journal::Block& block) { blocks.push_back(block.block); }
  void add(const journal::Parameter& read) { parameters.push_back(read.parameter); }
  void add(const journal::Failure& /*failure*/) {}

  [[nodiscard]] bool has_all_blocks(const core::TraceSummary& trace) const {
    const core::BlockSummary told = trace.blocks.value_or(core::BlockSummary{});
    return told.rows == blocks.size() && told.parameters == parameters.size();
  }

  /// Every operator is entered before it is recorded, in the order of the indices: an index that
  /// runs ahead would have us ask for memory without end.
  void check(const core::OpHead& call) const {
    if (call.index >= entered_) damaged(fmt::format("op {} was never entered", call.index));
    if (!call.op) damaged(fmt::format("op {} names no operator", call.index));
    if (call.parent < -1 || std::cmp_greater_equal(call.parent, call.index)) {
      damaged(fmt::format("op {} has the impossible parent {}", call.index, call.parent));
    }
  }

  [[noreturn]] void damaged(const std::string& what) const {
    throw core::damaged_dump(fmt::format("{}: {}", (directory_ / kJournalName).string(), what),
                             "no recorder has written this; record the run again");
  }

  /// Negative where it cannot be opened.
  [[nodiscard]] int file(journal::ContentPlace place) const {
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

  /// What is known of a run that said nothing about itself.
  [[nodiscard]] core::RunManifest bare_manifest(const std::string& name) const {
    core::RunManifest manifest;
    manifest.run_name = name;
    manifest.tool_version = "unknown";
    manifest.trace.level = contents.empty() ? "digest" : "tensor";
    manifest.trace.depth = totals_.depth;
    manifest.trace.digest_algorithm = core::kDigestAlgorithm;
    return manifest;
  }

  [[nodiscard]] std::optional<core::TraceReference> reference() const {
    if (!referred_) return std::nullopt;
    core::TraceReference reference = *referred_;
    for (const auto& [key, spot] : contents) {
      if (spot.place != journal::ContentPlace::kReference) continue;
      ++reference.contents;
      reference.bytes += spot.size;
    }
    return reference.contents == 0 ? std::nullopt : std::optional(reference);
  }

  [[nodiscard]] std::string reason(std::uint64_t lost_contents) const {
    if (!summary.failure.empty()) return core::printable(summary.failure);
    if (finished_ && lost_contents != 0) {
      return fmt::format("the bytes of {} tensor{} never reached the disk",
                         lost_contents,
                         lost_contents == 1 ? "" : "s");
    }
    if (summary.entered) {
      return fmt::format("stopped in op {} {}", *summary.entered, summary.entered_operator);
    }
    if (!summary.last) return "stopped before its first operator";
    return fmt::format("stopped after op {} {}", *summary.last, summary.last_operator);
  }

  [[nodiscard]] core::PartialTrace partial(std::uint64_t lost_contents) const {
    const bool inside = summary.entered && (!summary.last || *summary.entered > *summary.last);
    return {reason(lost_contents),
            inside ? *summary.entered : summary.last.value_or(0),
            inside ? summary.entered_operator : summary.last_operator,
            unfinished,
            lost_contents};
  }

  fs::path directory_;
  mutable journal::JournalReader reader_;
  mutable std::array<std::optional<core::FileDescriptor>, 3> files_;  ///< by place
  journal::SummaryBuilder builder_;
  std::vector<std::uint64_t> offsets_;  ///< of the records, by op index
  std::uint64_t entered_ = 0;
  std::int64_t last_producer_ = core::kNoProducer;
  core::TraceSummary totals_;                     ///< of the whole records, as far as these tell it
  std::optional<core::TraceReference> referred_;  ///< the dump that other contents are in
  std::optional<std::string> begun_;     ///< manifest as far as it was known in the beginning
  std::optional<std::string> finished_;  ///< of the whole recording
};

class UnfinishedDump final : public core::DumpSource {
 public:
  UnfinishedDump(std::string location,
                 const fs::path& directory,
                 const std::vector<fs::path>& references)
      : location_(std::move(location)),
        recording_(directory),
        manifest_(recording_.manifest(core::printable(location_), 0)),
        reference_(manifest_.trace.reference, references) {
    // Nobody has looked at every byte yet, so nobody can say that it is whole.
    if (!manifest_.trace.partial) {
      manifest_.trace.partial.emplace().reason = "complete, but the dump was not written";
    }
    manifest_.trace.contents = recording_.contents.size();
    manifest_.trace.stored_bytes = 0;
    for (const auto& [key, spot] : recording_.contents) {
      listed_.push_back(&key);
      if (spot.place != journal::ContentPlace::kReference) {
        manifest_.trace.stored_bytes += spot.size;
      }
    }
  }

  [[nodiscard]] const std::string& location() const override { return location_; }
  [[nodiscard]] const core::RunManifest& manifest() const override { return manifest_; }
  [[nodiscard]] std::uint64_t op_count() const override { return recording_.op_count(); }

  [[nodiscard]] core::OpRecord op_head(std::uint64_t index) const override {
    return {static_cast<core::OpHead>(recording_.record(index))};
  }

  [[nodiscard]] core::OpRecord op(std::uint64_t index) const override {
    core::OpRecord record = recording_.record(index);
    for (core::TensorRecord& tensor : record.tensors) {
      const core::ContentKey key = tensor.content_key();
      tensor.stored = tensor.stored && (recording_.is_referred(key) || has_content(key));
    }
    return record;
  }

  [[nodiscard]] std::uint64_t block_count() const override { return recording_.blocks.size(); }
  [[nodiscard]] core::BlockRow block(std::uint64_t position) const override {
    return recording_.blocks.at(position);
  }
  [[nodiscard]] std::uint64_t parameter_count() const override {
    return recording_.parameters.size();
  }
  [[nodiscard]] core::ParameterRow parameter(std::uint64_t position) const override {
    return recording_.parameters.at(position);
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
    const auto found = recording_.slices.find(key);
    return found == recording_.slices.end() ? std::nullopt : std::optional(found->second);
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
  Replay(const Recording& recording, DumpWriter& writer) : recording_(recording), writer_(writer) {}

  void run(const fs::path& journal, const RecoveryProgress& progress) {
    journal::JournalReader reader(journal);
    reader.name_roots(recording_.roots());
    while (std::optional<journal::Event> event = reader.next_event()) {
      std::visit(*this, *event);
      if (progress) progress(done_, recording_.op_count());
    }
    for (const std::uint64_t index : recording_.unfinished)
      writer_.append(recording_.record(index));
  }

  void operator()(const core::OpHead& call) {
    if (call.index < recording_.op_count()) writer_.enter(call);
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
  void operator()(const core::TraceReference& dump) { writer_.refer_to(dump); }
  void operator()(const journal::Block& block) { writer_.block(block.block); }
  void operator()(const journal::Parameter& read) { writer_.parameter(read.parameter); }
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

core::RunManifest completed(core::RunManifest manifest,
                            const Recording& recording,
                            const Completion& complete) {
  if (complete) complete(manifest, recording.source_files());
  return manifest;
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
                          "wait until it ends, or read it with `repro-check inspect --partial`");
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
                        const RecoveryProgress& progress,
                        const Completion& complete) {
  const fs::path directory = locate_journal(recording);
  refuse_busy(directory);
  const Recording recorded(directory);
  if (!recorded.is_finished()) {
    throw core::incomplete_dump(
        fmt::format("{}: the recording never finished: {} operators are whole",
                    recording.string(),
                    recorded.summary.completed),
        fmt::format("keep the recorded part: repro-check recover {} -o DUMP", directory.string()));
  }
  return replay_into(
      directory, recorded, dump, options, progress, [&](const std::set<core::ContentKey>& lost) {
        core::RunManifest manifest = recorded.manifest(name_of(directory), lost.size());
        if (!manifest.trace.partial) return completed(std::move(manifest), recorded, complete);
        const std::string which =
            lost.empty() ? "the journal does not match its manifest"
                         : fmt::format("the bytes of {} tensors do not match, the first of them {}",
                                       lost.size(),
                                       core::content_name(*lost.begin()));
        throw core::damaged_dump(fmt::format("{}: {}", recording.string(), which),
                                 "copy it again, or keep the good part: repro-check recover");
      });
}

MadeDump recover_dump(const fs::path& recording,
                      const std::optional<fs::path>& dump,
                      DumpWriterOptions options,
                      const RecoveryProgress& progress,
                      const Completion& complete) {
  const fs::path directory = locate_journal(recording);
  std::error_code code;
  if (fs::exists(directory / kManifestName, code)) {
    throw core::usage_error(fmt::format("{}: is a complete dump: there is nothing to recover",
                                        core::printable(recording.string())),
                            "diff and inspect can read it");
  }
  refuse_busy(directory);
  const Recording recorded(directory);
  if (!dump) {
    refuse_loss(directory, recorded.op_count());
    options.replace_existing = true;
  }
  return replay_into(directory,
                     recorded,
                     dump.value_or(directory),
                     options,
                     progress,
                     [&](const std::set<core::ContentKey>& lost) {
                       return completed(
                           recorded.manifest(name_of(directory), lost.size()), recorded, complete);
                     });
}

}  // namespace repro_check::store
