// SPDX-License-Identifier: Apache-2.0
// `precision`: where a recorded result lost its digits.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/options/config_options.h"
#include "cmd/precision/precision.h"
#include "cmd/precision/precision_view.h"
#include "cmd/replay/replay.h"
#include "cmd/reports/program_to_judge.h"
#include "cmd/reports/report_flags.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "dumpers/replay/precision.h"
#include "dumpers/store/directory/dump_directory.h"

namespace repro_check::cmd {
namespace {

class PrecisionCommand final : public Command {
 public:
  PrecisionCommand()
      : Command({"precision", "Find the operators at which a recorded result lost its digits"}) {}

  void define(Options& options) override {
    Command::define(options);
    options.command("command COMMAND", &command_);
  }

  core::ExitCode run(const GlobalOptions& globals) override {
    if (dump_.has_value() == !command_.empty()) {
      throw core::usage_error(
          "precision takes either a recording or, behind --, a program",
          "repro-check precision DUMP, or repro-check precision -- python x.py");
    }
    if (!(at_least_ >= 0 && at_least_ <= replay::kAllDigits)) {
      throw core::usage_error("--at-least takes a number from 0 to 16");
    }
    if (timeout_ && (*timeout_ == 0 || *timeout_ > kLongestTimeout)) {
      throw core::usage_error("--timeout takes a number from 1 to 31536000");
    }
    report_.check_output();
    require_precision_formats(report_);
    if (export_) require_writable(*export_);
    if (dump_) return judge(*dump_, globals);
    std::vector<configs::ConfigOverride> overrides{{"/dump/level", quoted("tensor")},
                                                   {"/dump/depth", quoted("all")},
                                                   {"/dump/steps", cmd::quoted(steps_)}};
    if (seed_) overrides.push_back({"/seed", std::to_string(*seed_)});
    if (out_) {
      const std::string out = std::filesystem::absolute(*out_).string();
      overrides.push_back({"/dump/directory", quoted(out)});
    }
    return record_to_judge(config_of_program(command_, overrides),
                           {about.name, force_, report_.style(globals, "text").format},
                           globals,
                           [&](const std::string& dump) { return judge(dump, globals); });
  }

 private:
  [[nodiscard]] core::ExitCode judge(const std::string& dump, const GlobalOptions& globals) const {
    PrecisionPlan plan;
    plan.dump = dump;
    plan.references = {references_.begin(), references_.end()};
    plan.of = of_;
    if (export_) plan.values = *export_;
    if (at_least_ > 0) plan.at_least = at_least_;
    if (recorder_) plan.recorder = *recorder_;
    if (timeout_) plan.timeout = std::chrono::seconds(*timeout_);
    Json document;
    try {
      document = measure_precision(plan);
    } catch (const core::Error& error) {
      store::refuse_bare_folder(dump, error);
      return report_unreadable(dump, error, report_.style(globals, "text").format, globals);
    }
    emit_precision(document, report_, globals);
    return static_cast<core::ExitCode>(document["exit_code"].get<int>());
  }

  std::optional<std::string> dump_ = value(&dump_, "dump DUMP", {.takes = Takes::kDump});
  std::string of_ = value(&of_, "--of NAME");
  std::optional<std::string> export_ = value(&export_, "--export FILE", {.takes = Takes::kFile});
  double at_least_ = value(&at_least_, "--at-least DIGITS");
  std::optional<std::string> recorder_ =
      value(&recorder_, "--recorder FILE", {.takes = Takes::kFile});
  std::optional<std::uint64_t> timeout_ = value(&timeout_, "--timeout SECONDS");
  std::vector<std::string> references_ = references(&references_);
  std::string steps_ = value(&steps_, "--steps 0:3,100", {.heading = "The program"}, "0");
  std::optional<std::string> out_ = value(&out_, "--out DIR", {.takes = Takes::kDirectory});
  bool force_ = flag(&force_, "--force");
  std::optional<std::uint64_t> seed_ = value(&seed_, "--seed N");
  ReportFlags report_ = group(&report_);
  std::vector<std::string> command_;
};

}  // namespace

std::unique_ptr<Command> precision_command() { return std::make_unique<PrecisionCommand>(); }

}  // namespace repro_check::cmd
