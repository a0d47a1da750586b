// SPDX-License-Identifier: Apache-2.0
// `audit`: what one recording of a program proves of it, or makes suspect.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/audit/audit_view.h"
#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/options/config_options.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/progress.h"
#include "cmd/recording/recording.h"
#include "cmd/recording/space.h"
#include "cmd/render/text.h"
#include "cmd/reports/report_flags.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/logging.h"
#include "comparators/audit/audit.h"
#include "core/error.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

std::vector<const comparators::AuditRule*> rules_of(const std::vector<std::string>& names) {
  std::vector<const comparators::AuditRule*> rules;
  for (const std::string& name : names) {
    const auto* rule = comparators::find_audit_rule(name);
    if (rule == nullptr) {
      std::vector<std::string> known;
      for (const auto& each : comparators::audit_rules()) known.emplace_back(each.name());
      throw usage_error(
          "--check " + name + ": no rule is called so",
          near_hint(name, known, fmt::format("rules are {}", fmt::join(known, ", "))));
    }
    rules.push_back(rule);
  }
  return rules;
}

comparators::AuditFailure failure_of(std::string_view word) {
  using comparators::AuditFailure;
  return word == "never"   ? AuditFailure::kNever
         : word == "proof" ? AuditFailure::kProof
                           : AuditFailure::kSuspicion;
}

/// Of the program, or of all its ranks, and of no other process.
Audited audit_dumps(const std::string& dump, std::vector<const comparators::AuditRule*> rules) {
  comparators::Audit audit(std::move(rules));
  Audited audited;
  audited.dump = dump;
  const auto see = [&](const fs::path& place, std::optional<std::uint32_t> rank) {
    const auto opened = store::open_named(place);
    audit.see(*opened, rank);
    audited.sources.push_back(opened->manifest().sources);
    for (const core::ChildProcess& process : opened->manifest().processes) {
      if (!process.recorded) continue;
      log_info(fmt::format("{}: a process of its own, audited by itself: repro-check audit {}",
                           escape_name(process.name),
                           shell_quote((place / process.name).string())));
    }
  };
  const auto ranks = store::rank_dumps(dump);
  for (const store::RankDump& rank : ranks) see(rank.path, rank.rank);
  if (ranks.empty()) see(dump, std::nullopt);
  audited.report = audit.finish();
  return audited;
}

class AuditCommand final : public Command {
 public:
  AuditCommand() : Command({"audit", "Find what one recording of a program proves to be wrong"}) {}

  void define(Options& options) override {
    Command::define(options);
    options.command("command COMMAND", &command_);
  }

  core::ExitCode run(const GlobalOptions& globals) override {
    if (dump_.has_value() == !command_.empty()) {
      throw usage_error("audit takes either a recording or, behind --, a program",
                        "repro-check audit DUMP, or repro-check audit -- python train.py");
    }
    report_.check_output();
    require_audit_formats(report_);
    const auto rules = rules_of(checks_);
    if (dump_) return judge(*dump_, rules, globals);
    return record(rules, globals);
  }

 private:
  [[nodiscard]] core::ExitCode judge(const std::string& dump,
                                     const std::vector<const comparators::AuditRule*>& rules,
                                     const GlobalOptions& globals) const {
    Audited audited = audit_dumps(dump, rules);
    audited.exit_code =
        comparators::exit_code_of(audited.report, failure_of(fail_on_), !rules.empty());
    return emit_audit(audited, report_, globals);
  }

  /// Records the program, all its steps, and audits what that gave.
  [[nodiscard]] core::ExitCode record(const std::vector<const comparators::AuditRule*>& rules,
                                      const GlobalOptions& globals) const {
    std::vector<configs::ConfigOverride> overrides{{"/dump/level", quoted(level_)},
                                                   {"/dump/depth", quoted("top")}};
    if (seed_) overrides.push_back({"/seed", std::to_string(*seed_)});
    if (out_) overrides.push_back({"/dump/directory", quoted(fs::absolute(*out_).string())});
    const configs::Config config = config_of_program(command_, overrides);
    RecordingJob job;
    job.run = choose_run(config, std::nullopt);
    job.run.name = "audit";
    job.dump = fs::proximate(config.dump_directory(job.run));
    const OutputLocks held = hold_alone({job.run.dump.directory});
    const RunOutputs outputs({job.run.dump.directory});
    job.replace_existing = force_ || outputs.may_replace(job.dump);
    require_free(job);
    require_recorder_of(job.run);
    say_kept_seed(config);
    Progress progress(globals);
    progress.begin(1, 1, job.run.name);
    RecordingResult result = record_where_it_fits(job, {}, progress);
    progress.clear();
    result.summary.location = job.dump.string();
    if (!result.totals) {
      const ReportStyle style = report_.style(globals, "text");
      return report_failed_run(result, "", style.format == "json" ? "json" : "text", globals);
    }
    return judge(job.dump.string(), rules, globals);
  }

  std::optional<std::string> dump_ = value(&dump_, "dump DUMP", {.takes = Takes::kDump});
  std::vector<std::string> checks_ = value(&checks_, "--check RULE", {.commas = true});
  std::string fail_on_ = word(&fail_on_, "--fail-on suspicion|proof|never", "proof");
  std::string level_ = word(&level_, "--level digest|tensor", "digest", {.heading = "The program"});
  std::optional<std::string> out_ = value(&out_, "--out DIR", {.takes = Takes::kDirectory});
  bool force_ = flag(&force_, "--force");
  std::optional<std::uint64_t> seed_ = value(&seed_, "--seed N");
  ReportFlags report_ = group(&report_);
  std::vector<std::string> command_;
};

}  // namespace

std::unique_ptr<Command> audit_command() { return std::make_unique<AuditCommand>(); }

}  // namespace repro_check::cmd
