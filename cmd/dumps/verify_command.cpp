// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cmd/dumps/dump_commands.h"
#include "cmd/options/choice.h"
#include "cmd/recording/progress.h"
#include "cmd/render/color.h"
#include "cmd/render/json/say.h"
#include "cmd/render/text.h"
#include "cmd/render/words.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "core/trace/content_check.h"
#include "dumpers/store/directory/pack_name.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/pack.h"

namespace repro_check::cmd {
namespace {

using References = std::vector<std::filesystem::path>;
using core::ErrorKind;

/// What came out for one dump.
struct Verified {
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

Verified verify(const std::string& dump, const References& references, Progress& progress) {
  Verified result;
  result.word = "VERIFIED";
  result.document = {{"dump", dump},
                     {"status", "verified"},
                     {"contents", 0},
                     {"bytes", 0},
                     {"partial", nullptr},
                     {"reference", nullptr},
                     {"message", nullptr},
                     {"hint", nullptr}};
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
         escape_name(result.unchecked) + " (say where it is: --reference DIR)\n";
}

class VerifyCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "verify"; }
  [[nodiscard]] std::string summary() const override {
    return "Check what dumps hold against their digests";
  }
  [[nodiscard]] std::vector<std::string> examples() const override {
    return {"repro-check verify repro-check-out/baseline repro-check-out/candidate",
            "repro-check verify DUMP --format json"};
  }
  void define(CLI::App& app) override {
    app.add_option("dumps", dumps_, "Dumps to check")->type_name("DUMP")->required();
    define_references(app, references_);
    restrict_to(app.add_option("--format", format_, "Format"), {"text", "json"});
  }

  core::ExitCode run(const GlobalOptions& globals) override {
    const References references(references_.begin(), references_.end());
    Progress progress(progress_style(globals, stderr_is_terminal(), &std::getenv), stderr);
    core::ExitCode code = core::ExitCode::kReproducible;
    std::string text;
    Json document{
        {"format", "repro-check-verification"}, {"version", "1.2"}, {"dumps", Json::array()}};
    for (std::size_t i = 0; i < dumps_.size(); ++i) {
      progress.begin(i + 1, dumps_.size(), dumps_[i]);
      const Verified result = verify(dumps_[i], references, progress);
      code = worse(code, result.code);
      text += text_of(result);
      document["dumps"].push_back(result.document);
    }
    const bool is_terminal = stdout_is_terminal();
    write_stdout(format_ == "json" ? to_document(cleaned(document), is_terminal)
                                   : wrapped(text, text_columns(is_terminal, &std::getenv)));
    return code;
  }

 private:
  std::vector<std::string> dumps_;
  std::vector<std::string> references_;
  std::string format_ = "text";
};

}  // namespace

std::unique_ptr<Command> verify_command() { return std::make_unique<VerifyCommand>(); }

}  // namespace repro_check::cmd
