// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/recovery/recovery.h"

#include <fmt/format.h>

#include <new>
#include <set>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/text/printable.h"
#include "dumpers/journal/journal.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/file/hdf5_scope.h"
#include "dumpers/store/file/trace_file.h"
#include "dumpers/store/index/index_rows.h"
#include "dumpers/store/index/table_reader.h"
#include "dumpers/store/recovery/recording.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::Error;
using core::ErrorKind;

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
    for (const std::uint64_t index : journal_.unfinished()) writer_.append(journal_.record(index));
  }

  void operator()(const journal::EnteredOp& entered) {
    if (entered.index >= journal_.op_count()) return;
    writer_.enter({entered.index,
                   entered.op.get(),
                   entered.site.get(),
                   entered.parent,
                   entered.phase,
                   entered.depth,
                   entered.step,
                   entered.rank,
                   entered.lane});
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
core::TraceSummary replay_into(const fs::path& directory,
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
    core::TraceSummary trace = manifest.trace;
    writer.finish(std::move(manifest));
    trace.stored_bytes = writer.stored_bytes();
    return trace;
  } catch (const Error& failure) {
    writer.fail(failure.what());
    throw;
  } catch (const std::bad_alloc&) {
    writer.fail("memory ran out");
    throw Error(ErrorKind::kDumpDamaged,
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
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: it is still being recorded", directory.string()),
              "wait for it, or look into it with `repro-check inspect --partial`");
}

/// Operators that the trace of a recording lists by itself: none before it was closed.
std::uint64_t listed_operators(const fs::path& directory) {
  const Hdf5Scope scope;
  try {
    const TraceFile trace(directory / kTraceName);
    const GroupHandle index = trace.group("index");
    return TableReader(trace, index.get(), kOpsTable.name).rows();
  } catch (const Error&) {
    return 0;
  }
}

/// What is recovered in place takes the place of the trace, which must not have held more.
void refuse_loss(const fs::path& directory, std::uint64_t found) {
  const std::uint64_t listed = listed_operators(directory);
  if (listed <= found) return;
  throw Error(ErrorKind::kDumpDamaged,
              fmt::format("{}: its journal holds {} operators, and {} beside it {}: that would be "
                          "replaced by less",
                          core::printable(directory.string()),
                          found,
                          kTraceName,
                          listed),
              "the journal is damaged; recover what it holds to another directory with -o");
}

}  // namespace

core::TraceSummary import_journal(const fs::path& recording,
                                  const fs::path& dump,
                                  const DumpWriterOptions& options,
                                  const RecoveryProgress& progress) {
  const fs::path directory = locate_journal(recording);
  refuse_busy(directory);
  const Recording recorded(directory);
  if (!recorded.journal().finished()) {
    throw Error(
        ErrorKind::kDumpIncomplete,
        fmt::format("{}: the recording never finished: {} operators are whole",
                    recording.string(),
                    recorded.journal().summary().completed),
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
        throw Error(ErrorKind::kDumpDamaged,
                    fmt::format("{}: {}", recording.string(), which),
                    "copy it again, or keep what is good: repro-check recover");
      });
}

core::TraceSummary recover_dump(const fs::path& recording,
                                const std::optional<fs::path>& dump,
                                DumpWriterOptions options,
                                const RecoveryProgress& progress) {
  const fs::path directory = locate_journal(recording);
  std::error_code code;
  if (fs::exists(directory / kManifestName, code)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: is a complete dump: there is nothing to recover",
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
