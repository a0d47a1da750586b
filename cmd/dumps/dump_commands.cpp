// SPDX-License-Identifier: Apache-2.0
// The verbs that make one form of a recording of another: `pack`, `unpack`, `recover`, `import`.
#include "cmd/dumps/dump_commands.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cmd/options/choice.h"
#include "cmd/recording/progress.h"
#include "cmd/render/json/say.h"
#include "cmd/render/text.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/output.h"
#include "cmd/terminal/signals.h"
#include "core/error.h"
#include "dumpers/store/directory/pack_name.h"
#include "dumpers/store/pack.h"
#include "dumpers/store/recovery/recovery.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

/// What all of them share: something is read, something is made, and a summary says what came of
/// it.
class MakingCommand : public Command {
 protected:
  void define_paths(CLI::App& app, const char* from, const char* what, const char* type) {
    app.add_option(from, from_, what)->type_name(type)->required();
  }
  CLI::Option* define_out(CLI::App& app, const char* what, const char* type) {
    return app.add_option("-o,--out", out_, what)->type_name(type);
  }
  void define_rest(CLI::App& app, const char* force) {
    app.add_flag("--force", force_, force);
    restrict_to(app.add_option("--format", format_, "Format of the summary"), {"text", "json"});
  }

  /// Shows progress while `make` runs, and prints the summary that it returns, as JSON or said by
  /// `text` and `lines`. What cannot be read is a report, as it is for every verb.
  core::ExitCode carry_out(const GlobalOptions& globals,
                           const std::function<Json(Progress&)>& make,
                           const char* text,
                           std::span<const ViewLine> lines) const {
    Progress progress(progress_style(globals, stderr_is_terminal(), &std::getenv), stderr);
    progress.begin(1, 0, "");
    try {
      const Json summary = make(progress);
      progress.clear();
      write_stdout(format_ == "json" ? to_document(cleaned(summary), false)
                                     : say(text, summary) + "\n" + say_lines(lines, summary, 2));
      return core::ExitCode::kReproducible;
    } catch (const core::Error& error) {
      progress.clear();
      return report_unreadable(from_, error, format_, globals);
    }
  }

  std::string from_;
  std::optional<std::string> out_;
  bool force_ = false;
  std::string format_ = "text";
};

// Dumps and packs.

class PackingCommand : public MakingCommand {
 protected:
  core::ExitCode carry_out_packing(
      const GlobalOptions& globals,
      const fs::path& pack,
      const fs::path& dump,
      const std::function<store::PackSummary(const store::PackProgress&)>& make,
      const char* text) const {
    constexpr std::array kLines{ViewLine{"partial", "{}", "partial"}};
    const auto summary = [&](Progress& progress) {
      const store::PackSummary made = make(packing_on(progress));
      const auto& partial = made.trace.partial;
      return Json{{"format", "repro-check-pack"},
                  {"version", "1.0"},
                  {"pack", pack.string()},
                  {"dump", dump.string()},
                  {"operators", made.trace.operator_calls()},
                  {"bytes", made.plain_bytes},
                  {"packed_bytes", made.packed_bytes},
                  {"partial", partial ? Json(partial->reason) : Json(nullptr)}};
    };
    return carry_out(globals, summary, text, kLines);
  }
};

class PackCommand final : public PackingCommand {
 public:
  [[nodiscard]] std::string name() const override { return "pack"; }
  [[nodiscard]] std::string summary() const override {
    return "Make one compressed file of a dump, for keeping or sending";
  }
  [[nodiscard]] std::vector<std::string> examples() const override {
    return {"repro-check pack repro-check-out/baseline",
            "repro-check pack repro-check-out/baseline -o kept/v1.tar.zst --level 19",
            "repro-check diff kept/v1.tar.zst repro-check-out/candidate"};
  }
  void define(CLI::App& app) override {
    define_paths(app, "dump", "Dump to pack", "DUMP");
    define_out(app, "The file to make; else DUMP.tar.zst", "FILE");
    app.add_option("--level",
                   level_,
                   fmt::format("Compression: 1 is fastest, {} smallest ({})",
                               store::kHighestPackLevel,
                               store::kPackLevel))
        ->type_name("N")
        ->check(CLI::Range(1, store::kHighestPackLevel).description(""));
    define_rest(app, "Replace a file that exists");
  }
  core::ExitCode run(const GlobalOptions& globals) override {
    const fs::path file = out_ ? fs::path(*out_) : store::default_pack(from_);
    require_writable(file);
    const GuardedFile temporary(store::temporary_beside(file).string());
    const auto make = [&](const store::PackProgress& progress) {
      return store::pack_dump(from_, file, {level_, force_}, progress);
    };
    return carry_out_packing(
        globals,
        file,
        from_,
        make,
        "PACKED {dump}, {operators:operator}, {bytes:bytes} to {packed_bytes:bytes}: {pack}");
  }

 private:
  int level_ = store::kPackLevel;
};

class UnpackCommand final : public PackingCommand {
 public:
  [[nodiscard]] std::string name() const override { return "unpack"; }
  [[nodiscard]] std::string summary() const override {
    return "Make the dump again that was packed, and check every byte of it";
  }
  [[nodiscard]] std::vector<std::string> examples() const override {
    return {"repro-check unpack kept/v1.tar.zst", "repro-check unpack kept/v1.tar.zst -o baseline"};
  }
  void define(CLI::App& app) override {
    define_paths(app, "pack", "File that `pack` has made", "FILE");
    define_out(app, "Directory of the dump; else FILE without .tar.zst", "DIR");
    define_rest(app, "Replace a dump that exists");
  }
  core::ExitCode run(const GlobalOptions& globals) override {
    const fs::path dump = out_ ? fs::path(*out_) : store::default_dump(from_);
    // In this order: the directory can be removed when it is empty.
    const fs::path working = store::temporary_beside(dump);
    const GuardedFile manifest((working / "manifest.json").string());
    const GuardedFile trace((working / "trace.h5").string());
    const GuardedFile directory(working.string());
    const auto make = [&](const store::PackProgress& progress) {
      return store::unpack_dump(from_, dump, force_, progress);
    };
    return carry_out_packing(
        globals,
        from_,
        dump,
        make,
        "UNPACKED {pack}, {operators:operator}, {packed_bytes:bytes} to {bytes:bytes}: {dump}");
  }
};

// Dumps of journals.

class RecoveringCommand : public MakingCommand {
 protected:
  core::ExitCode carry_out_recovery(
      const GlobalOptions& globals,
      const char* phase,
      const char* text,
      const std::function<core::TraceSummary(const store::RecoveryProgress&)>& make) const {
    constexpr std::array kLines{
        ViewLine{"partial", "{reason}", "partial"},
        ViewLine{"unfinished", "{:operator}", "partial/unfinished"},
        ViewLine{"lost", "the bytes of {:content}", "partial/lost_contents"},
    };
    const auto summary = [&](Progress& progress) {
      const core::TraceSummary trace = make([&](std::uint64_t done, std::uint64_t total) {
        progress.share(phase, done, total, [](std::uint64_t count) { return format_count(count); });
      });
      Json document{{"format", "repro-check-recording"},
                    {"version", "1.0"},
                    {"dump", out_.value_or(from_)},
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
    };
    return carry_out(globals, summary, text, kLines);
  }
  [[nodiscard]] store::DumpWriterOptions writing() const {
    store::DumpWriterOptions options;
    options.replace_existing = force_;
    return options;
  }
};

class RecoverCommand final : public RecoveringCommand {
 public:
  [[nodiscard]] std::string name() const override { return "recover"; }
  [[nodiscard]] std::string summary() const override {
    return "Make a dump of what a killed recording has left";
  }
  [[nodiscard]] std::vector<std::string> examples() const override {
    return {"repro-check recover repro-check-out/candidate",
            "repro-check recover killed -o what-there-was"};
  }
  void define(CLI::App& app) override {
    define_paths(app, "recording", "Directory of a recording that was cut short", "DUMP");
    define_out(app, "Directory of the dump; else it takes the recording's place", "DIR");
    define_rest(app, "Replace a dump that exists at --out");
  }
  core::ExitCode run(const GlobalOptions& globals) override {
    if (force_ && !out_) {
      throw core::Error(core::ErrorKind::kUsage,
                        "--force is about the dump at --out",
                        "leave it out: in its own place a recording is always replaced");
    }
    const auto make = [&](const store::RecoveryProgress& progress) {
      return store::recover_dump(
          from_, out_ ? std::optional<fs::path>(*out_) : std::nullopt, writing(), progress);
    };
    return carry_out_recovery(
        globals,
        "recovering",
        "RECOVERED {operators:operator}, {tensors:tensor}, {bytes:bytes}: {dump}",
        make);
  }
};

class ImportCommand final : public RecoveringCommand {
 public:
  [[nodiscard]] std::string name() const override { return "import"; }
  [[nodiscard]] std::string summary() const override {
    return "Make a dump of a journal that was recorded without HDF5";
  }
  [[nodiscard]] std::vector<std::string> examples() const override {
    return {"repro-check import recording/journal.bin -o dump"};
  }
  void define(CLI::App& app) override {
    define_paths(app, "recording", "Journal, or the directory that it is in", "JOURNAL");
    define_out(app, "Directory of the dump", "DIR")->required();
    define_rest(app, "Replace a dump that exists");
  }
  core::ExitCode run(const GlobalOptions& globals) override {
    const auto make = [&](const store::RecoveryProgress& progress) {
      return store::import_journal(from_, *out_, writing(), progress);
    };
    return carry_out_recovery(
        globals,
        "importing",
        "IMPORTED {operators:operator}, {tensors:tensor}, {bytes:bytes}: {dump}",
        make);
  }
};

}  // namespace

std::unique_ptr<Command> pack_command() { return std::make_unique<PackCommand>(); }
std::unique_ptr<Command> unpack_command() { return std::make_unique<UnpackCommand>(); }
std::unique_ptr<Command> recover_command() { return std::make_unique<RecoverCommand>(); }
std::unique_ptr<Command> import_command() { return std::make_unique<ImportCommand>(); }

}  // namespace repro_check::cmd
