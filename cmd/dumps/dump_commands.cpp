// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/recording/program_recording.h"
#include "cmd/recording/progress.h"
#include "cmd/render/color.h"
#include "cmd/render/say.h"
#include "cmd/render/text.h"
#include "cmd/reports/rank_pairs.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/output.h"
#include "cmd/terminal/signals.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/report_words.h"
#include "comparators/ranks/ranks.h"
#include "configs/spec/run_config.h"
#include "core/error.h"
#include "core/trace/dump.h"
#include "dumpers/imports/import_dump.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/pack.h"
#include "dumpers/store/recovery/recovery.h"

namespace repro_check::cmd {
namespace {

using core::ErrorKind;

namespace fs = std::filesystem;

/// What was given on the command line.
struct MakingArguments {
  std::string from;
  std::optional<std::string> out;
  std::optional<std::string> pattern;
  int level = store::kPackLevel;
  bool force = false;
};

/// A verb: something is read, something is made, and a summary says what came of it.
struct Making {
  Command::About about;
  std::string from;          ///< options, as Options has them
  Takes takes;               ///< what is read
  bool takes_whole = false;  ///< a dump, and not what is left of one
  std::string out;
  Takes makes = Takes::kDirectory;
  bool has_level = false;
  std::string pattern = {};  ///< empty: it takes none
  std::string force;
  /// Makes it, and the summary.
  std::function<Json(const MakingArguments&, Progress&)> make;
  const char* said;  ///< the summary's first line
};

class MakingCommand final : public Command {
 public:
  explicit MakingCommand(Making verb) : Command(verb.about), verb_(std::move(verb)) {}

  void define(Options& options) override {
    options.value(verb_.from, &given_.from, {.takes = verb_.takes, .required = true});
    options.value(verb_.out, &given_.out, {.takes = verb_.makes});
    if (verb_.has_level) {
      options.value(fmt::format("--level N  Compression: 1 is fastest, {} smallest ({})",
                                store::kHighestPackLevel,
                                store::kPackLevel),
                    &given_.level,
                    {.range = {{1, store::kHighestPackLevel}}});
    }
    if (!verb_.pattern.empty()) options.value(verb_.pattern, &given_.pattern);
    options.flag(verb_.force, &given_.force);
    options.word("--format text|json  Format of the summary", &format_);
  }

  /// What cannot be read is a report, as it is for every verb.
  core::ExitCode run(const GlobalOptions& globals) override {
    Progress progress(globals);
    progress.begin(1, 0, "");
    try {
      const Json made = verb_.make(given_, progress);
      progress.clear();
      const std::size_t columns = text_columns(stdout_is_terminal(), &std::getenv);
      const std::string text =
          say(verb_.said, made) + "\n" + say_lines(view_lines("made-dump"), made, 2);
      write_stdout(format_ == "json" ? to_document(cleaned(made), false) : wrapped(text, columns));
      return core::ExitCode::kReproducible;
    } catch (const core::Error& error) {
      progress.clear();
      if (verb_.takes_whole) store::refuse_bare_folder(given_.from, error);
      return report_unreadable(given_.from, error, format_, globals);
    }
  }

 private:
  Making verb_;
  MakingArguments given_;
  std::string format_ = "text";
};

Json pack_json(const fs::path& pack, const fs::path& dump, const store::PackSummary& made) {
  return {{"format", "repro-check-pack"},
          {"version", "1.0"},
          {"pack", pack.string()},
          {"dump", dump.string()},
          {"operators", made.operators},
          {"bytes", made.plain_bytes},
          {"packed_bytes", made.packed_bytes},
          {"partial", made.partial.empty() ? Json(nullptr) : Json(made.partial)}};
}

Json recording_json(const std::string& dump, const core::TraceSummary& trace) {
  Json document{{"format", "repro-check-recording"},
                {"version", "1.0"},
                {"dump", dump},
                {"operators", trace.operator_calls()},
                {"tensors", trace.tensors},
                {"bytes", trace.stored_bytes},
                {"partial", nullptr}};
  if (trace.partial) {
    document["partial"] = {{"reason", trace.partial->reason},
                           {"last", trace.partial->last},
                           {"unfinished", trace.partial->unfinished.size()},
                           {"lost_contents", trace.partial->lost_contents}};
  }
  return document;
}

store::RecoveryProgress recovery_on(Progress& progress) {
  return [&progress](std::uint64_t done, std::uint64_t total) {
    progress.share(
        "recovering", done, total, [](std::uint64_t count) { return format_count(count); });
  };
}

store::DumpWriterOptions writing(const MakingArguments& given) {
  store::DumpWriterOptions options;
  options.replace_existing = given.force;
  return options;
}

Json make_pack(const MakingArguments& given, Progress& progress) {
  const fs::path file = given.out ? fs::path(*given.out) : store::default_pack(given.from);
  require_writable(file);
  const GuardedFile temporary(store::temporary_beside(file).string());
  return pack_json(
      file,
      given.from,
      store::pack_dump(given.from, file, {given.level, given.force}, packing_on(progress)));
}

Json make_unpacked(const MakingArguments& given, Progress& progress) {
  const fs::path dump = given.out ? fs::path(*given.out) : store::default_dump(given.from);
  const GuardedWork removed_first;
  const store::PackProgress show = packing_on(progress);
  const auto step = [&](store::PackPhase phase, std::uint64_t done, std::uint64_t total) {
    if (interrupted()) throw core::Error(ErrorKind::kInterrupted, "interrupted");
    if (show) show(phase, done, total);
  };
  return pack_json(given.from, dump, store::unpack_dump(given.from, dump, given.force, step));
}

/// Of a program on several ranks: of all of them, partial where one of them is.
core::TraceSummary sum_of(const std::vector<MadeOfProgram>& made) {
  core::TraceSummary sum = made.front().dump;
  for (std::size_t i = 1; i < made.size(); ++i) {
    const store::MadeDump& dump = made[i].dump;
    sum.operators += dump.operators;
    sum.returned += dump.returned;
    sum.tensors += dump.tensors;
    sum.stored_bytes += dump.stored_bytes;
    if (!sum.partial) sum.partial = dump.partial;
  }
  return sum;
}

Json make_recovered(const MakingArguments& given, Progress& progress) {
  if (given.force && !given.out) {
    throw usage_error("--force is about the dump at --out",
                      "leave it out: in its own place a recording is always replaced");
  }
  if (given.out && fs::is_directory(given.from)) {
    const auto made = recover_program(given.from, *given.out, writing(given));
    if (!made.empty()) return recording_json(*given.out, sum_of(made));
  }
  const auto out = given.out ? std::optional<fs::path>(*given.out) : std::nullopt;
  return recording_json(
      given.out.value_or(given.from),
      store::recover_dump(given.from, out, writing(given), recovery_on(progress)));
}

/// Where an import goes that nobody names a place for: `repro-check-out/model` of `model.npz`.
fs::path default_import(const fs::path& from) {
  const fs::path name = from.has_filename() ? from.filename() : from.parent_path().filename();
  return fs::path(configs::kDefaultFolder) / (fs::is_directory(from) ? name : name.stem());
}

Json make_imported(const MakingArguments& given, Progress& progress) {
  const fs::path from = given.from;
  if (from.filename() == store::kJournalName || fs::exists(from / store::kJournalName)) {
    throw core::usage_error(escape_name(given.from) + ": is the journal of a recording",
                            "make a dump of it: repro-check recover " + shell_quote(given.from));
  }
  const GuardedWork removed_first;
  imports::ImportOptions options;
  options.pattern = given.pattern;
  options.tool_version = REPRO_CHECK_VERSION;
  options.writing = writing(given);
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    if (interrupted()) throw core::Error(ErrorKind::kInterrupted, "interrupted");
    progress.share(
        "importing", done, total, [](std::uint64_t count) { return format_count(count); });
  };
  const fs::path out = given.out ? fs::path(*given.out) : default_import(from);
  const imports::ImportSummary made = imports::import_dump(from, out, options);
  Json document = recording_json(out.string(), made.trace);
  document["files"] = made.files;
  document["ranks"] = made.ranks == 0 ? Json(nullptr) : Json(made.ranks);
  document["left_out"] = Json::array();
  for (const auto& [what, count] : made.left_out) {
    document["left_out"].push_back({{"what", what}, {"count", count}});
  }
  return document;
}

using References = std::vector<std::filesystem::path>;

/// What came out for one dump.
struct Verified {  // NOLINT(bugprone-exception-escape): of the JSON library's move
  Json document;
  core::ExitCode code = core::ExitCode::kReproducible;
  std::string word;       ///< how its line begins
  std::string unchecked;  ///< why what lies in another dump was not checked; empty = it was
};

std::unique_ptr<core::DumpSource> open_to_check(const std::string& dump,
                                                const References& references,
                                                Progress& progress) {
  if (!store::is_pack(dump)) return store::open_dump(dump, references);
  return store::open_pack(dump, references, packing_on(progress));
}

void check(const std::string& name,
           const References& references,
           Progress& progress,
           Verified& result) {
  const auto dump = open_to_check(name, references, progress);
  const core::TraceSummary& trace = dump->manifest().trace;
  result.unchecked = dump->missing_reference();
  const bool is_whole = result.unchecked.empty();
  if (trace.partial) result.document["partial"] = trace.partial->reason;
  if (trace.reference) {
    result.document["reference"] = {{"run", trace.reference->run_name},
                                    {"index_digest", core::to_hex(trace.reference->index_digest)},
                                    {"contents", trace.reference->contents},
                                    {"bytes", trace.reference->bytes},
                                    {"checked", is_whole}};
  }
  const std::uint64_t elsewhere = trace.reference && is_whole ? trace.reference->bytes : 0;
  std::uint64_t contents = 0;
  std::uint64_t done = 0;
  const auto show = [&] {
    progress.share("verifying", done, trace.stored_bytes + elsewhere, &format_bytes);
  };
  show();
  core::ContentCheck whole;
  whole.progress = [&](std::uint64_t bytes) {
    result.document["contents"] = ++contents;
    result.document["bytes"] = done += bytes;
    show();
  };
  core::verify_contents(*dump, whole);
}

/// A status, and the word for people.
std::pair<const char*, const char*> words_for(ErrorKind kind) {
  if (kind == ErrorKind::kDumpIncomplete) return {"incomplete", "INCOMPLETE"};
  if (kind == ErrorKind::kDumpUnknown) return {"unknown", "UNREADABLE"};
  if (kind == ErrorKind::kDumpDamaged) return {"damaged", "DAMAGED"};
  return {"not_checked", "NOT CHECKED"};
}

Json verified_json(const std::string& dump) {
  return {{"dump", dump},
          {"status", "verified"},
          {"contents", 0},
          {"bytes", 0},
          {"partial", nullptr},
          {"reference", nullptr},
          {"message", nullptr},
          {"hint", nullptr}};
}

Verified verify(const std::string& dump, const References& references, Progress& progress) {
  Verified result;
  result.word = "VERIFIED";
  result.document = verified_json(dump);
  try {
    check(dump, references, progress, result);
  } catch (const core::Error& error) {
    // These say nothing of the dumps that have not been looked at yet.
    if (error.kind() == ErrorKind::kUsage || error.kind() == ErrorKind::kInterrupted ||
        error.kind() == ErrorKind::kInternal) {
      throw;
    }
    result.code = core::exit_code_for(error.kind());
    std::tie(result.document["status"], result.word) = words_for(error.kind());
    result.document["message"] = error.what();
    if (!error.hint().empty()) result.document["hint"] = error.hint();
  }
  progress.clear();
  return result;
}

std::string text_of(const Verified& result) {
  const Json& document = result.document;
  if (result.code != core::ExitCode::kReproducible) {
    return result.word + say(" {message}[ ({hint})]\n", document);
  }
  std::string text = say("VERIFIED {dump}: {contents:content}, {bytes:bytes}: ", document);
  text += std::string(verified_text(result.unchecked.empty())) +
          say("[; a partial recording: {partial}]\n", document);
  if (result.unchecked.empty()) return text;
  return text + say("  not checked: {contents:content}, {bytes:bytes}: ", document["reference"]) +
         escape_name(result.unchecked) + " (give its place: --reference DIR)\n";
}

/// A directory that holds a dump a rank stands for those, and each for those of other processes in
/// it.
std::vector<std::string> with_inner(const std::vector<std::string>& dumps) {
  std::vector<std::string> all;
  for (const std::string& dump : dumps) {
    all.push_back(dump);
    for (const std::filesystem::path& process : store::process_dumps(dump)) {
      all.push_back(process.string());
    }
  }
  return all;
}

std::vector<std::string> with_ranks(const std::vector<std::string>& dumps) {
  std::vector<std::string> all;
  for (const std::string& dump : dumps) {
    const auto ranks = store::rank_dumps(dump);
    for (const store::RankDump& rank : ranks) all.push_back(rank.path.string());
    if (ranks.empty()) all.push_back(dump);
  }
  return all;
}

/// That ranks of a program left no dump there; empty where none is missing.
std::optional<Verified> missing_ranks(const std::string& dump) {
  const auto there = store::rank_dumps(dump);
  if (there.empty()) return std::nullopt;
  std::uint32_t expected = 0;
  Verified result;
  result.code = core::ExitCode::kDumpUnusable;
  result.document = verified_json(dump);
  try {
    expected = expected_ranks(dump);
  } catch (const core::Error& error) {
    std::tie(result.document["status"], result.word) = words_for(error.kind());
    result.document["message"] = error.what();
    return result;
  }
  comparators::RankList missing;
  for (std::uint32_t rank = 0, next = 0; rank < expected; ++rank) {
    while (next < there.size() && there[next].rank < rank) ++next;
    if (next == there.size() || there[next].rank != rank) missing.push_back(rank);
  }
  if (missing.empty()) return std::nullopt;
  std::tie(result.document["status"], result.word) = words_for(ErrorKind::kDumpIncomplete);
  result.document["message"] = fmt::format(
      "{}: {} of {} left no dump there", dump, comparators::numbered("rank", missing), expected);
  return result;
}

class VerifyCommand final : public Command {
 public:
  VerifyCommand() : Command({"verify", "Check the bytes in dumps against their digests"}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    const References references(references_.begin(), references_.end());
    Progress progress(globals);
    core::ExitCode code = core::ExitCode::kReproducible;
    std::string text;
    Json document{
        {"format", "repro-check-verification"}, {"version", "1.2"}, {"dumps", Json::array()}};
    const std::vector<std::string> dumps = with_inner(with_ranks(dumps_));
    for (std::size_t i = 0; i < dumps.size(); ++i) {
      progress.begin(i + 1, dumps.size(), dumps[i]);
      const Verified result = verify(dumps[i], references, progress);
      code = worse(code, result.code);
      text += text_of(result);
      document["dumps"].push_back(result.document);
    }
    for (const std::string& dump : dumps_) {
      const auto missing = missing_ranks(dump);
      if (!missing) continue;
      code = worse(code, missing->code);
      text += text_of(*missing);
      document["dumps"].push_back(missing->document);
    }
    const bool is_terminal = stdout_is_terminal();
    write_stdout(format_ == "json" ? to_document(cleaned(document), is_terminal)
                                   : wrapped(text, text_columns(is_terminal, &std::getenv)));
    return code;
  }

 private:
  std::vector<std::string> dumps_ =
      value(&dumps_, "dumps DUMP", {.takes = Takes::kDump, .required = true});
  std::vector<std::string> references_ = references(&references_);
  std::string format_ = word(&format_, "--format text|json  Format", "text");
};

}  // namespace

std::unique_ptr<Command> pack_command() {
  return std::make_unique<MakingCommand>(Making{
      .about = {"pack", "Compress a dump into one file, to keep or to send it"},
      .from = "dump DUMP  Dump to pack, or a directory with one dump per rank",
      .takes = Takes::kDump,
      .takes_whole = true,
      .out = "-o,--out FILE  File to write (DUMP.tar.zst)",
      .makes = Takes::kFile,
      .has_level = true,
      .force = "--force  Replace a file that exists",
      .make = make_pack,
      .said = "PACKED {dump}, {operators:operator}, {bytes:bytes} to {packed_bytes:bytes}: {pack}"
              "[\n  partial    {partial}]"});
}

std::unique_ptr<Command> unpack_command() {
  return std::make_unique<MakingCommand>(Making{
      .about = {"unpack", "Restore a packed dump, and check every byte"},
      .from = "pack FILE.tar.zst  File that `pack` wrote",
      .takes = Takes::kExisting,
      .out = "-o,--out DIR  Directory of the dump (FILE without .tar.zst)",
      .force = "--force  Replace a dump that exists",
      .make = make_unpacked,
      .said = "UNPACKED {pack}, {operators:operator}, {packed_bytes:bytes} to {bytes:bytes}: {dump}"
              "[\n  partial    {partial}]"});
}

std::unique_ptr<Command> recover_command() {
  return std::make_unique<MakingCommand>(
      Making{.about = {"recover", "Make a dump from a journal, for example of a killed recording"},
             .from = "recording JOURNAL  journal.bin, its directory, or the folder that `exec` "
                     "kept with the journals of all ranks",
             .takes = Takes::kExisting,
             .out = "-o,--out DIR  Directory of the dump (default: the recording's own directory)",
             .force = "--force  Replace a dump that exists at --out",
             .make = make_recovered,
             .said = "RECOVERED {operators:operator}, {tensors:tensor}, {bytes:bytes}: {dump}"});
}

std::unique_ptr<Command> import_command() {
  return std::make_unique<MakingCommand>(Making{
      .about = {"import", "Make a dump of tensors that another tool wrote"},
      .from = "files PATH  A file or folder of .safetensors, .npz, .npy or .pt (SGLang's dumper "
              "among them), or a folder that msprobe wrote",
      .takes = Takes::kExisting,
      .out = "-o,--out DIR  Directory of the dump (repro-check-out/NAME of PATH)",
      .pattern = "--pattern FORM  How the files are named: 'step{step}/rank{rank}/{name}.pt'; "
                 "{call} tells several of one name apart, * stands for anything",
      .force = "--force  Replace a dump that exists",
      .make = make_imported,
      .said = "IMPORTED {tensors:tensor} of {files:file}, {bytes:bytes}[, of {ranks:rank}]: "
              "{dump}"});
}

std::unique_ptr<Command> verify_command() { return std::make_unique<VerifyCommand>(); }

}  // namespace repro_check::cmd
