// SPDX-License-Identifier: Apache-2.0
#include "cmd/dumps/verify_command.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "cmd/options/choice.h"
#include "cmd/recording/progress.h"
#include "cmd/recording/reference.h"
#include "cmd/render/json/json_text.h"
#include "cmd/render/text.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "core/trace/content_check.h"
#include "dumpers/store/directory/pack_name.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/pack.h"

namespace repro_check::cmd {
namespace {

/// What came out for one dump.
struct Verified {
  std::string dump;
  std::string status = "verified";  ///< verified | damaged | incomplete | unknown | not_checked
  core::ExitCode code = core::ExitCode::kReproducible;
  std::string message;
  std::string hint;
  std::uint64_t contents = 0;
  std::uint64_t bytes = 0;
  std::string partial;  ///< why the recording ended early, if it did
  std::optional<core::TraceReference> reference;
  std::string unchecked;  ///< why what lies in that was not checked; empty = it was
};

std::unique_ptr<core::DumpSource> open_to_check(
    const std::string& dump,
    const std::vector<std::filesystem::path>& references,
    Progress& progress) {
  if (!store::is_pack(dump)) return store::open_dump(dump, references);
  return store::open_pack(dump, references, packing_on(progress));
}

void check(Verified& result,
           const std::vector<std::filesystem::path>& references,
           Progress& progress) {
  const auto dump = open_to_check(result.dump, references, progress);
  const core::TraceSummary& trace = dump->manifest().trace;
  if (trace.partial) result.partial = trace.partial->reason;
  result.reference = trace.reference;
  result.unchecked = dump->missing_reference();
  const std::uint64_t elsewhere =
      trace.reference && result.unchecked.empty() ? trace.reference->bytes : 0;
  const auto show = [&] {
    progress.share("verifying", result.bytes, trace.stored_bytes + elsewhere, &format_bytes);
  };
  show();
  core::ContentCheck whole;
  whole.progress = [&](std::uint64_t bytes) {
    ++result.contents;
    result.bytes += bytes;
    show();
  };
  core::verify_contents(*dump, whole);
}

std::string status_word(core::ErrorKind kind) {
  if (kind == core::ErrorKind::kDumpIncomplete) return "incomplete";
  if (kind == core::ErrorKind::kDumpUnknown) return "unknown";
  return kind == core::ErrorKind::kDumpDamaged ? "damaged" : "not_checked";
}

/// Whether a failure says nothing of the dumps that have not been looked at yet.
bool is_of_one_dump(core::ErrorKind kind) {
  return kind != core::ErrorKind::kUsage && kind != core::ErrorKind::kInterrupted &&
         kind != core::ErrorKind::kInternal;
}

/// What the first word of its line is.
std::string_view headline_word(const std::string& status) {
  if (status == "damaged") return "DAMAGED";
  if (status == "incomplete") return "INCOMPLETE";
  return status == "unknown" ? "UNREADABLE" : "NOT CHECKED";
}

Verified verify(const std::string& dump,
                const std::vector<std::filesystem::path>& references,
                Progress& progress) {
  Verified result;
  result.dump = dump;
  try {
    check(result, references, progress);
  } catch (const core::Error& error) {
    if (!is_of_one_dump(error.kind())) throw;
    result.code = core::exit_code_for(error.kind());
    result.status = status_word(error.kind());
    result.message = error.what();
    result.hint = error.hint();
  }
  progress.clear();
  return result;
}

std::string text_of(const Verified& result) {
  if (result.status != "verified") {
    return fmt::format("{} {}{}\n",
                       headline_word(result.status),
                       escape_name(result.message),
                       result.hint.empty() ? "" : " (" + escape_name(result.hint) + ")");
  }
  std::string text = fmt::format(
      "VERIFIED {}: {}, {}: {}{}\n",
      escape_name(result.dump),
      format_count(result.contents, "content"),
      format_bytes(result.bytes),
      verified_text(result.unchecked.empty()),
      result.partial.empty() ? "" : "; a partial recording: " + escape_name(result.partial));
  if (!result.unchecked.empty()) {
    text += fmt::format("  not checked: {}, {}: {} (say where it is: --reference DIR)\n",
                        format_count(result.reference->contents, "content"),
                        format_bytes(result.reference->bytes),
                        escape_name(result.unchecked));
  }
  return text;
}

Json reference_json(const Verified& result) {
  if (!result.reference) return nullptr;
  return {{"run", clean_utf8(result.reference->run_name)},
          {"index_digest", core::to_hex(result.reference->index_digest)},
          {"contents", result.reference->contents},
          {"bytes", result.reference->bytes},
          {"checked", result.unchecked.empty()}};
}

Json json_of(const Verified& result) {
  const auto text = [](const std::string& value) {
    return value.empty() ? Json() : Json(clean_utf8(value));
  };
  Json out;
  out["dump"] = clean_utf8(result.dump);
  out["status"] = result.status;
  out["contents"] = result.contents;
  out["bytes"] = result.bytes;
  out["partial"] = text(result.partial);
  out["reference"] = reference_json(result);
  out["message"] = text(result.message);
  out["hint"] = text(result.hint);
  return out;
}

}  // namespace

std::vector<std::string> VerifyCommand::examples() const {
  return {"repro-check verify repro-check-out/baseline repro-check-out/candidate",
          "repro-check verify DUMP --format json"};
}

void VerifyCommand::define(CLI::App& app) {
  app.add_option("dumps", dumps_, "Dumps to check")->type_name("DUMP")->required();
  define_references(app, references_);
  restrict_to(app.add_option("--format", format_, "Format"), {"text", "json"});
}

core::ExitCode VerifyCommand::run(const GlobalOptions& globals) {
  const std::vector<std::filesystem::path> references(references_.begin(), references_.end());
  Progress progress(progress_style(globals, stderr_is_terminal(), &std::getenv), stderr);
  core::ExitCode code = core::ExitCode::kReproducible;
  std::string text;
  Json list = Json::array();
  for (std::size_t i = 0; i < dumps_.size(); ++i) {
    progress.begin(i + 1, dumps_.size(), dumps_[i]);
    const Verified result = verify(dumps_[i], references, progress);
    code = worse(code, result.code);
    text += text_of(result);
    list.push_back(json_of(result));
  }
  if (format_ == "json") {
    const Json document{
        {"format", "repro-check-verification"}, {"version", "1.2"}, {"dumps", std::move(list)}};
    text = to_document(document, stdout_is_terminal());
  }
  write_stdout(text);
  return code;
}

}  // namespace repro_check::cmd
