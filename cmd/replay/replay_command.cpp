// SPDX-License-Identifier: Apache-2.0
#include "cmd/replay/replay_command.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <string_view>

#include "cmd/options/choice.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/output.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

[[noreturn]] void reject(const std::string& message, const std::string& hint) {
  throw core::Error(core::ErrorKind::kUsage, message, hint);
}

constexpr unsigned kMostCalls = 100'000;
constexpr int kMostThreads = 4096;
constexpr std::uint64_t kMostSeconds = 31'536'000;  // a year

bool is_isa(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

std::vector<std::string> ReplayCommand::examples() const {
  return {"repro-check replay repro-check-out/baseline --op 41",
          "repro-check replay A --op 41 -n 100 --threads 1,2,8 --isa default,avx2",
          "repro-check replay A --op 41 --against B --format json"};
}

void ReplayCommand::define(CLI::App& app) {
  app.add_option("dump", dump_, "Dump that holds the operator's inputs")
      ->type_name("DUMP")
      ->required();
  app.add_option("--op", op_, "Which operator")->type_name("INDEX")->required();
  app.add_option("-n,--calls", calls_, "Calls at each setting (20)")->type_name("N");
  app.add_option("--threads", threads_, "Thread counts to try (the recorded one)")
      ->type_name("N,...")
      ->delimiter(',');
  app.add_option("--isa",
                 isas_,
                 "Instruction sets to try, each in a process of its own: default, avx2, ...")
      ->type_name("NAME,...")
      ->delimiter(',');
  restrict_to(
      app.add_option(
          "--dtype", dtype_, "Precision of the result that recorded outputs are measured from"),
      {"float64", "none"});
  app.add_option("--device", device_, "Where to execute it (where it was recorded)")
      ->type_name("DEVICE");
  app.add_option("--against",
                 against_,
                 "Dump of the other side: which of the two is farther from the float64 result")
      ->type_name("DUMP");
  app.add_option("--recorder", recorder_, "Recorder to use")->type_name("FILE");
  app.add_option("--timeout", timeout_, "Kill a process that executes it after so many seconds")
      ->type_name("SECONDS");
  define_references(app, references_);
  app.add_option("--output", output_, "Write to a file instead of stdout")->type_name("FILE");
  restrict_to(app.add_option("--format", format_, "Format"), {"text", "json"});
}

ReplayPlan ReplayCommand::plan() const {
  if (calls_ == 0 || calls_ > kMostCalls) reject("-n takes a number from 1 to 100000", "");
  for (const int count : threads_) {
    if (count < 1 || count > kMostThreads) reject("--threads takes numbers from 1 to 4096", "");
  }
  if (timeout_ && (*timeout_ == 0 || *timeout_ > kMostSeconds)) {
    reject("--timeout takes a number from 1 to 31536000", "");
  }
  for (const std::string& isa : isas_) {
    if (!is_isa(isa)) {
      reject("--isa: \"" + isa + "\" is no name of an instruction set",
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

void ReplayCommand::write(const std::string& document) const {
  if (output_) {
    write_file(*output_, document);
  } else {
    write_stdout(document);
  }
}

core::ExitCode ReplayCommand::report_unreadable(const core::Error& error,
                                                const GlobalOptions& globals) const {
  const bool is_other = against_ && std::string_view(error.what()).starts_with(*against_);
  const auto report = unreadable_dump(is_other ? *against_ : dump_, error);
  if (!report) throw core::Error(error);
  const std::vector<comparators::Report> reports{*report};
  const bool to_terminal = !output_ && stdout_is_terminal();
  write(render_reports(reports, ReportStyle{format_, render_options(globals, to_terminal)}));
  return worst_exit(reports);
}

core::ExitCode ReplayCommand::run(const GlobalOptions& globals) {
  ReplayFindings findings;
  try {
    findings = replay(plan());
  } catch (const core::Error& error) {
    return report_unreadable(error, globals);
  }
  if (format_ == "json") {
    write(replay_json(findings, !output_ && stdout_is_terminal()));
  } else {
    write(globals.quiet ? replay_headline(findings) + "\n" : replay_text(findings));
  }
  return findings.verdict().exit;
}

}  // namespace repro_check::cmd
