// SPDX-License-Identifier: Apache-2.0
// `replay`: executes one recorded operator again, by itself; what it found, as text and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/render/json_form.h"
#include "cmd/render/page.h"
#include "cmd/render/text.h"
#include "cmd/replay/replay.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "dumpers/store/directory/dump_directory.h"

namespace repro_check::cmd {
namespace {

/// Distinct results listed for one setting.
constexpr std::size_t kShownResults = 5;

std::string op_text(const ReplayFindings& findings) {
  const core::OpRecord& op = findings.op;
  const std::string place = place_text(op.site.get());
  return fmt::format("op {} {}{}",
                     op.index,
                     escape_name(op.op->full_name()),
                     place.empty() ? "" : " (" + place + ")");
}

std::string setting_name(const ReplaySetting& setting) {
  std::string text = setting.isa.empty() ? "" : escape_name(setting.isa) + ", ";
  return text + format_count(static_cast<std::uint64_t>(setting.round.threads), "thread");
}

const char* recorded_text(const replay::Result& result) {
  if (!result.as_recorded) return "the record has no result";
  return *result.as_recorded ? "as recorded" : "not as recorded";
}

/// `max 1.2e-07 from the recorded output`, of the output that is farthest.
std::string gap_text(const replay::Result& result) {
  const replay::OutputDistance* worst = nullptr;
  for (const replay::OutputDistance& output : result.to_recorded) {
    if (output.differing == 0) continue;
    if (worst == nullptr || output.max_abs.value_or(INFINITY) > worst->max_abs.value_or(INFINITY)) {
      worst = &output;
    }
  }
  if (worst == nullptr) return "";
  return fmt::format(", {} of {} differ, max {}",
                     format_count(worst->differing),
                     format_count(worst->elements),
                     worst->max_abs ? format_error(*worst->max_abs) : "nan");
}

void add_setting(Page& page, const ReplaySetting& setting) {
  const auto& results = setting.round.results;
  page.prose("setting",
             fmt::format("{} ({}): {}, {}",
                         setting_name(setting),
                         setting.cpu_capability,
                         format_count(setting.round.sequence.size(), "call"),
                         format_count(results.size(), "result")));
  for (std::size_t i = 0; i < std::min(results.size(), kShownResults); ++i) {
    page.prose("",
               fmt::format("{} {}, {}{}",
                           core::to_hex(results[i].digest).substr(0, 12),
                           format_count(results[i].calls, "call"),
                           recorded_text(results[i]),
                           gap_text(results[i])));
  }
  if (results.size() > kShownResults) {
    page.prose("", fmt::format("... and {} more: --format json", results.size() - kShownResults));
  }
}

void add_float64(Page& page,
                 const std::string& side,
                 const std::optional<replay::ReferenceDistance>& distance) {
  if (!distance) return;
  if (!distance->problem.empty()) {
    return page.prose("float64", side + "no distance: " + distance->problem);
  }
  for (const replay::OutputDistance& output : distance->outputs) {
    std::string measured = output.rmse ? fmt::format("RMSE {}, max {}",
                                                     format_error(*output.rmse),
                                                     format_error(*output.max_abs))
                                       : "no finite numbers";
    if (output.incomparable > 0) {
      measured += fmt::format(", NaN or infinity against a number {} times", output.incomparable);
    }
    page.prose("float64",
               fmt::format("{}output {} from the float64 result: {}", side, output.slot, measured));
  }
}

void add_nearer(Page& page, const ReplayFindings& findings) {
  const auto ratio = findings.reference_ratio();
  if (!ratio) return;
  if (*ratio == 1) return page.prose("", "both are equally far from it");
  const std::string by =
      std::isfinite(*ratio) && *ratio > 0
          ? fmt::format(" by a factor of {}", format_error(std::max(*ratio, 1 / *ratio)))
          : "";
  page.prose(
      "", fmt::format("{} is nearer to it{}", *ratio > 1 ? findings.against : findings.dump, by));
}

Json setting_json(const ReplaySetting& setting) {
  Json json{{"isa", json_of(OrNull{setting.isa})},
            {"cpu_capability", json_text(setting.cpu_capability)}};
  describe(JsonWriter(json), setting.round);
  return json;
}

Json float64_json(const ReplayFindings& findings) {
  if (!findings.baseline) return nullptr;
  const auto ratio = findings.reference_ratio();
  Json nearer = nullptr;
  if (ratio) nearer = *ratio == 1 ? "neither" : *ratio > 1 ? "against" : "dump";
  return {{"dump", json_of(findings.baseline)},
          {"against", json_of(findings.candidate)},
          {"ratio", json_of(ratio)},
          {"nearer", std::move(nearer)}};
}

/// The verdict line alone, without a newline.
std::string replay_headline(const ReplayFindings& findings) {
  const ReplayVerdict& verdict = findings.verdict();
  const auto most = std::ranges::max_element(
      findings.settings, {}, [](const ReplaySetting& s) { return s.round.results.size(); });
  const bool none = most == findings.settings.end();
  const std::string sentence =
      fmt::format(fmt::runtime(verdict.sentence),
                  fmt::format("{} at {}",
                              format_count(findings.calls(), "call"),
                              format_count(findings.settings.size(), "setting")),
                  format_count(findings.distinct(), "distinct result"),
                  format_count(none ? 0 : most->round.results.size(), "distinct result"),
                  format_count(none ? 0 : most->round.sequence.size(), "call"),
                  none ? "" : setting_name(*most));
  return fmt::format("{}: {} {}", verdict.words, op_text(findings), sentence);
}

/// `REPEATS at every setting: op 41 aten::addmm (...)...`, and what stands below it.
std::string replay_text(const ReplayFindings& findings) {
  Page page;
  page.prose("dump", findings.dump);
  const bool two = !findings.against.empty();
  if (two) {
    page.prose("against",
               fmt::format("{}, op {}: recorded with {}",
                           findings.against,
                           findings.against_op,
                           findings.same_inputs ? "the same inputs"
                           : findings.other_arguments.empty()
                               ? "other inputs"
                               : "other arguments: " + findings.other_arguments));
  }
  page.prose(
      "recorder",
      "LibTorch " + findings.libtorch + (findings.device.empty() ? "" : ", on " + findings.device));
  for (const ReplaySetting& setting : findings.settings) add_setting(page, setting);
  add_float64(page, two ? findings.dump + ": " : "", findings.baseline);
  add_float64(page, two ? findings.against + ": " : "", findings.candidate);
  add_nearer(page, findings);
  for (const std::string& note : findings.notes) page.prose("note", note);
  return replay_headline(findings) + "\n" + page.str(false);
}

/// docs/replay.schema.json
std::string replay_json(const ReplayFindings& findings, bool pretty) {
  const core::OpRecord& op = findings.op;
  Json against = nullptr;
  if (!findings.against.empty()) {
    against = {{"dump", clean_utf8(findings.against)},
               {"op", findings.against_op},
               {"same_inputs", findings.same_inputs}};
  }
  Json settings = Json::array();
  for (const ReplaySetting& setting : findings.settings) settings.push_back(setting_json(setting));
  const Json document{{"format", "repro-check-replay"},
                      {"version", "1.0"},
                      {"verdict", findings.verdict().name},
                      {"headline", clean_utf8(replay_headline(findings))},
                      {"exit_code", static_cast<int>(findings.verdict().exit)},
                      {"dump", clean_utf8(findings.dump)},
                      {"op",
                       {{"index", op.index},
                        {"operator", clean_utf8(op.op->full_name())},
                        {"place", clean_utf8(core::place_of(op.site.get()))}}},
                      {"against", std::move(against)},
                      {"libtorch", clean_utf8(findings.libtorch)},
                      {"device", json_of(OrNull{findings.device})},
                      {"calls", findings.calls()},
                      {"distinct", findings.distinct()},
                      {"settings", std::move(settings)},
                      {"float64", float64_json(findings)},
                      {"notes", json_of(findings.notes)}};
  return to_document(document, pretty);
}

constexpr unsigned kMostCalls = 100'000;
constexpr int kMostThreads = 4096;
constexpr std::uint64_t kMostSeconds = 31'536'000;  // a year

bool is_isa(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

class ReplayCommand final : public Command {
 public:
  ReplayCommand()
      : Command({"replay",
                 "Execute one recorded operator again, and check whether its result repeats"}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    ReplayFindings findings;
    try {
      findings = replay(plan());
    } catch (const core::Error& error) {
      return report_unreadable(error, globals);
    }
    if (format_ == "json") {
      write_document(output_, replay_json(findings, !output_ && stdout_is_terminal()));
    } else {
      write_document(output_,
                     globals.quiet ? replay_headline(findings) + "\n" : replay_text(findings));
    }
    return findings.verdict().exit;
  }

 private:
  [[nodiscard]] ReplayPlan plan() const {
    if (calls_ == 0 || calls_ > kMostCalls)
      throw core::usage_error("-n takes a number from 1 to 100000");
    for (const int count : threads_) {
      if (count < 1 || count > kMostThreads)
        throw core::usage_error("--threads takes numbers from 1 to 4096");
    }
    if (timeout_ && (*timeout_ == 0 || *timeout_ > kMostSeconds)) {
      throw core::usage_error("--timeout takes a number from 1 to 31536000");
    }
    for (const std::string& isa : isas_) {
      if (!is_isa(isa)) {
        throw core::usage_error("--isa: \"" + isa + "\" is no name of an instruction set",
                                "as ATEN_CPU_CAPABILITY takes them: default, avx2, avx512");
      }
    }
    if (output_) require_writable(*output_);
    ReplayPlan plan;
    ReplayQuestion& question = plan.question;
    question.recorded = {dump_, {references_.begin(), references_.end()}, op_};
    question.how = {op_, calls_, threads_, device_};
    question.float64 = dtype_ == "float64";
    if (against_) {
      question.against = ReplaySide{*against_, {}, 0};
      question.recorded.references.emplace_back(*against_);
    }
    plan.isas = isas_;
    if (recorder_) plan.recorder = *recorder_;
    if (timeout_) plan.timeout = std::chrono::seconds(*timeout_);
    return plan;
  }

  [[nodiscard]] core::ExitCode report_unreadable(const core::Error& error,
                                                 const GlobalOptions& globals) const {
    const bool is_other = against_ && std::string_view(error.what()).starts_with(*against_);
    const std::string& dump = is_other ? *against_ : dump_;
    store::refuse_bare_folder(dump, error);
    const auto report = unreadable_dump(dump, error);
    if (!report) throw core::Error(error);
    const std::vector<comparators::Report> reports{*report};
    const bool to_terminal = !output_ && stdout_is_terminal();
    const ReportStyle style{format_, render_options(globals, to_terminal)};
    write_document(output_, render_reports(reports, style));
    return worst_exit(reports);
  }

  std::string dump_ = value(&dump_, "dump DUMP", {.takes = Takes::kDump, .required = true});
  std::uint64_t op_ = value(&op_, "--op INDEX", {.required = true}, 0);
  unsigned calls_ = value(&calls_, "-n,--calls N", {}, 20);
  std::vector<int> threads_ = value(&threads_, "--threads N", {.commas = true});
  std::vector<std::string> isas_ = value(&isas_, "--isa NAME", {.commas = true});
  std::string dtype_ = word(&dtype_, "--dtype float64|none", "float64");
  std::string device_ = value(&device_, "--device DEVICE");
  std::optional<std::string> against_ = value(&against_, "--against DUMP", {.takes = Takes::kDump});
  std::optional<std::string> recorder_ =
      value(&recorder_, "--recorder FILE", {.takes = Takes::kFile});
  std::optional<std::uint64_t> timeout_ = value(&timeout_, "--timeout SECONDS");
  std::vector<std::string> references_ = references(&references_);
  std::optional<std::string> output_ = value(&output_, "--output FILE", {.takes = Takes::kFile});
  std::string format_ = word(&format_, "--format text|json", "text");
};

}  // namespace

std::unique_ptr<Command> replay_command() { return std::make_unique<ReplayCommand>(); }

}  // namespace repro_check::cmd
