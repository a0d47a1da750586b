// SPDX-License-Identifier: Apache-2.0
// `audit`: what one recording of a program proves of it, or makes suspect.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/audit/audit_artefact.h"
#include "cmd/audit/audit_line.h"
#include "cmd/audit/audit_view.h"
#include "cmd/audit/batch.h"
#include "cmd/audit/sweep.h"
#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/options/config_options.h"
#include "cmd/render/text.h"
#include "cmd/reports/program_to_judge.h"
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

/// The rules about what a model draws, which have a name together.
constexpr std::string_view kLiveness = "liveness";
constexpr std::array<std::string_view, 3> kOfLiveness{
    "draws-repeat", "drawn-once", "dropout-in-eval"};

std::vector<const comparators::AuditRule*> rules_of(const std::vector<std::string>& names) {
  std::vector<const comparators::AuditRule*> rules;
  for (const std::string& name : names) {
    if (name == kLiveness) {
      for (const std::string_view each : kOfLiveness) {
        rules.push_back(comparators::find_audit_rule(each));
      }
      continue;
    }
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

/// Each run calls its model so many times with the inputs of its first call, and drops out.
void repeat_calls(configs::Config& config, std::uint64_t calls) {
  const auto repeat = [&](configs::RunSpec& run) {
    run.calls.resize(1);
    run.calls.resize(calls, run.calls.front());
    run.disable_dropout = false;
  };
  if (config.base) repeat(*config.base);
  std::ranges::for_each(config.runs, repeat);
}

/// @throws core::Error{kUsage} where an entry is about a finding that no rule makes
void require_known(const std::vector<configs::ExpectedSpec>& expected) {
  for (std::size_t at = 0; at < expected.size(); ++at) {
    if (comparators::rule_of_finding(expected[at].id) != nullptr) continue;
    std::vector<std::string> known;
    for (const auto& each : comparators::audit_rules()) known.emplace_back(each.name());
    throw usage_error(
        fmt::format("/audit/expected/{}/id: no rule finds \"{}\"", at, expected[at].id),
        near_hint(expected[at].id, known, "`findings` of a JSON report has the ids"));
  }
}

using SeeDump = std::function<void(std::unique_ptr<core::DumpSource> dump,
                                   const fs::path& place,
                                   std::optional<std::uint32_t> rank)>;

/// Of the program, or of all its ranks, and of no other process.
void for_each_dump(const std::string& dump, Audited& audited, const SeeDump& see) {
  audited.dump = dump;
  const auto open = [&](const fs::path& place, std::optional<std::uint32_t> rank) {
    auto opened = store::open_named(place);
    audited.sources.push_back(opened->manifest().sources);
    for (const core::ChildProcess& process : opened->manifest().processes) {
      if (!process.recorded) continue;
      log_info(fmt::format("{}: a process of its own, audited by itself: repro-check audit {}",
                           escape_name(process.name),
                           shell_quote((place / process.name).string())));
    }
    see(std::move(opened), place, rank);
  };
  const auto ranks = store::rank_dumps(dump);
  for (const store::RankDump& rank : ranks) open(rank.path, rank.rank);
  if (ranks.empty()) open(dump, std::nullopt);
}

Audited audit_dumps(const std::string& dump, comparators::AuditPlan plan) {
  comparators::Audit audit(std::move(plan));
  Audited audited;
  for_each_dump(dump, audited, [&](const auto& opened, const auto& /*place*/, auto rank) {
    audit.see(*opened, rank);
  });
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
    const bool has_program = !command_.empty() || (config_.given() && !dump_);
    if (dump_.has_value() == has_program || (config_.given() && !command_.empty())) {
      throw usage_error(
          "audit takes one of a recording or an exported model, a configuration and, behind --, a "
          "program",
          "repro-check audit DUMP, or repro-check audit -- python train.py; a configuration beside "
          "a recording says which findings are expected");
    }
    report_.check_output();
    require_audit_formats(report_);
    check_sweep();
    if (!calls_ && dump_ && is_artefact(*dump_) && asks_liveness()) calls_ = kUsualCalls;
    if (calls_) take_model();
    comparators::AuditPlan plan;
    plan.today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
    if (dump_ && !config_.given()) {
      if (!config_.flags().empty()) {
        throw usage_error(config_.flags().front() + " means nothing of a recording without -c",
                          "leave it out, or give the configuration that it changes");
      }
      return judge(*dump_, std::move(plan), globals);
    }
    if (!dump_ && !calls_ && config_.given() && is_artefact(config_.file())) {
      return judge(config_.file(), std::move(plan), globals);
    }
    if (!command_.empty()) config_.take_command(command_);
    const bool has_sweep = !sweep_.empty();
    if (!dump_) {
      // What is executed again needs its inputs.
      config_.set("/dump/level", cmd::quoted(has_sweep ? "tensor" : level_));
      config_.set("/dump/depth", cmd::quoted("top"));
    }
    configs::Config config = config_.load(out_);
    if (calls_) repeat_calls(config, *calls_);
    plan.expected = config.audit.expected;
    require_known(plan.expected);
    if (dump_) return judge(*dump_, std::move(plan), globals);
    const configs::RunSpec& run = choose_run(config, std::nullopt);
    if (const auto items = batch_asked(sweep_)) {
      return record_batch(config, *items, plan, globals);
    }
    if (run.program || has_sweep || calls_) {
      plan.rules = rules_of(checks_);  // before it runs
      return record(config, "audit", globals, [&](const std::string& dump) {
        return judge(dump, std::move(plan), globals);
      });
    }
    return judge(run.model.path.string(), std::move(plan), globals);
  }

 private:
  static constexpr std::uint64_t kUsualCalls = 4;

  [[nodiscard]] bool asks_liveness() const {
    return std::ranges::find(checks_, kLiveness) != checks_.end();
  }

  /// The exported model is recorded, in place of being looked at.
  void take_model() {
    if (!dump_ || !is_artefact(*dump_) || config_.given() || !command_.empty()) {
      throw usage_error("--calls takes an exported model and nothing else",
                        "repro-check audit model.pt --calls 4");
    }
    config_.take_file(*dump_);
    dump_.reset();
    config_.set("/model/mode", cmd::quoted(mode_));
  }

  /// @throws core::Error{kUsage}, before anything runs
  void check_sweep() const {
    const bool is_batch = batch_asked(sweep_).has_value();
    if (!is_batch) SweepAsked check_words(sweep_);
    if (alone_ && !(is_batch && dump_)) {
      throw usage_error("--alone goes with a recording and --sweep batch",
                        "repro-check audit BATCH --sweep batch --alone ONE");
    }
    if (is_batch && dump_ && !alone_) {
      throw usage_error("--sweep batch of a recording needs one of a single item as well",
                        "record the program with one item, and give that with --alone DUMP");
    }
  }

  /// Executes the calls of the recording again.
  [[nodiscard]] Audited sweep(const std::string& dump, comparators::AuditPlan plan) const {
    if (is_artefact(dump)) {
      throw usage_error("--sweep executes the calls of a recording, and " + dump + " is a model",
                        "repro-check record " + shell_quote(dump) +
                            " --level tensor -o REC, then repro-check audit REC --sweep ...");
    }
    const auto recorder = recorder_ ? std::optional<fs::path>(*recorder_) : std::nullopt;
    const auto asked = alone_ ? std::nullopt : std::optional<SweepAsked>(sweep_);
    plan.rules = asked ? asked->rules() : std::vector{comparators::batch_rule()};
    Audited audited;
    std::vector<std::unique_ptr<core::DumpSource>> held;
    std::vector<comparators::SweptDump> swept;
    for_each_dump(dump, audited, [&](auto opened, const fs::path& place, auto rank) {
      const core::DumpSource& source = *held.emplace_back(std::move(opened));
      if (asked) {
        swept.push_back(asked->sweep(source, place, recorder));
      } else {
        const fs::path other =
            rank ? fs::path(*alone_) / fmt::format("rank-{}", *rank) : fs::path(*alone_);
        const auto single = store::open_named(other);
        swept.push_back(sweep_batch({source, place}, {*single, other}, recorder));
      }
      swept.back().rank = rank;
    });
    audited.report = comparators::audit_sweep(swept, std::move(plan));
    return audited;
  }

  [[nodiscard]] core::ExitCode judge(const std::string& dump,
                                     comparators::AuditPlan plan,
                                     const GlobalOptions& globals) const {
    Audited audited;
    if (!sweep_.empty()) {
      audited = sweep(dump, std::move(plan));
    } else if (is_artefact(dump)) {
      audited.dump = dump;
      audited.report = audit_artefact(dump, checks_, std::move(plan));
      audited.sources.emplace_back();
    } else {
      plan.rules = rules_of(checks_);
      audited = audit_dumps(dump, std::move(plan));
    }
    audited.exit_code = comparators::exit_code_of(
        audited.report, audit_failure(fail_on_), !checks_.empty() || !sweep_.empty());
    return emit_audit(audited, report_, globals);
  }

  using Judge = std::function<core::ExitCode(const std::string& dump)>;

  /// Records the program, all its steps.
  /// @param name  of the recording
  [[nodiscard]] core::ExitCode record(const configs::Config& config,
                                      const std::string& name,
                                      const GlobalOptions& globals,
                                      const Judge& judge) const {
    return record_to_judge(
        config, {name, force_, report_.style(globals, "text").format}, globals, judge);
  }

  /// Records the program with one item, then with all of them, and sweeps that.
  [[nodiscard]] core::ExitCode record_batch(const configs::Config& config,
                                            std::uint64_t items,
                                            const comparators::AuditPlan& plan,
                                            const GlobalOptions& globals) {
    const configs::Config all = with_batch(config, items);
    const core::ExitCode failed =
        record(with_batch(config, 1), "audit-alone", globals, [&](const std::string& dump) {
          alone_ = dump;
          return core::ExitCode::kReproducible;
        });
    if (!alone_) return failed;
    return record(
        all, "audit", globals, [&](const std::string& dump) { return judge(dump, plan, globals); });
  }

  std::optional<std::string> dump_ = value(&dump_, "dump DUMP", {.takes = Takes::kDump});
  std::vector<std::string> checks_ = value(&checks_, "--check RULE", {.commas = true});
  std::optional<std::uint64_t> calls_ = value(&calls_, "--calls N", {.range = {{3, 1000}}});
  std::string mode_ = word(&mode_, "--mode as_saved|train|eval", "as_saved");
  std::vector<std::string> sweep_ =
      value(&sweep_, "--sweep SETTING", {.commas = true, .excludes = "--check"});
  std::optional<std::string> alone_ = value(&alone_, "--alone DUMP", {.takes = Takes::kDump});
  std::string fail_on_ = word(&fail_on_, "--fail-on suspicion|proof|never", "proof");
  std::string level_ = word(&level_, "--level digest|tensor", "digest", {.heading = "The program"});
  std::optional<std::string> out_ = value(&out_, "-o,--out DIR", {.takes = Takes::kDirectory});
  bool force_ = flag(&force_, "--force");
  ConfigOptions config_ = group(&config_, false, false);
  ReportFlags report_ = group(&report_);
  std::optional<std::string> recorder_ =
      value(&recorder_, "--recorder FILE", {.takes = Takes::kFile});
  std::vector<std::string> command_;
};

}  // namespace

std::unique_ptr<Command> audit_command() { return std::make_unique<AuditCommand>(); }

}  // namespace repro_check::cmd
