// SPDX-License-Identifier: Apache-2.0
#include "cmd/diff_command.h"

#include <CLI/App.hpp>
#include <cmath>
#include <utility>

#include "cmd/choice.h"
#include "cmd/output.h"
#include "cmd/reference.h"
#include "cmd/verdict.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

using configs::CompareSpec;
using configs::EqualNan;
using configs::PolicyKind;

void require_allowance(const char* flag, const std::optional<double>& value) {
  if (!value || (std::isfinite(*value) && *value >= 0)) return;
  throw core::Error(core::ErrorKind::kUsage,
                    std::string(flag) + " must be a finite number, 0 or more");
}

}  // namespace

std::vector<std::string> DiffCommand::examples() const {
  return {"repro-check diff repro-check-out/baseline repro-check-out/candidate",
          "repro-check diff A B --policy tolerance --rtol 1e-5 --atol 1e-8",
          "repro-check diff A B --format json --all > report.json"};
}

void DiffCommand::define(CLI::App& app) {
  app.add_option("baseline", baseline_, "Dump that is taken as right")
      ->type_name("DUMP")
      ->required();
  app.add_option("candidate", candidate_, "Dump that is judged by it")
      ->type_name("DUMP")
      ->required();
  restrict_to(app.add_option("--policy", policy_, "What counts as equal (bitwise)"),
              {"bitwise", "tolerance"});
  app.add_option("--rtol", rtol_, "Relative tolerance; together with --atol")->type_name("X");
  app.add_option("--atol", atol_, "Absolute tolerance; together with --rtol")->type_name("X");
  restrict_to(app.add_option("--equal-nan", equal_nan_, "When NaN equals NaN"),
              {"bits", "any", "never"});
  restrict_to(app.add_option_function<std::string>(
                  "--signed-zero",
                  [this](const std::string& mode) { signed_zero_ = mode == "distinct"; },
                  "Whether +0 and -0 are the same"),
              {"distinct", "same"});
  restrict_to(app.add_option("--align",
                             align_,
                             "What pairs two operators: their names in order, or the place alone "
                             "(keyed)"),
              {"keyed", "strict"});
  restrict_to(
      app.add_option(
          "--order", order_, "relaxed: another order passes where all is bit-equal (strict)"),
      {"strict", "relaxed"});
  restrict_to(app.add_option(
                  "--verify", verify_, "Stored bytes that are checked against their digests (all)"),
              {"all", "differing"});
  app.add_flag(
      "--partial", partial_, "Take recordings that were cut short, and compare as far as they go");
  define_references(app, references_);
  report_.define(app);
}

CompareSpec DiffCommand::spec() const {
  const bool has_tolerance = rtol_ || atol_;
  if (rtol_.has_value() != atol_.has_value()) {
    throw core::Error(core::ErrorKind::kUsage,
                      std::string(rtol_ ? "--rtol" : "--atol") + " needs " +
                          (rtol_ ? "--atol" : "--rtol") + " beside it",
                      "give both, or neither for the defaults of each dtype");
  }
  require_allowance("--rtol", rtol_);
  require_allowance("--atol", atol_);
  if (has_tolerance && policy_ == "bitwise") {
    throw core::Error(core::ErrorKind::kUsage,
                      "--rtol and --atol mean nothing under --policy bitwise",
                      "leave them out, or use --policy tolerance");
  }
  CompareSpec spec;
  const bool tolerance = has_tolerance || policy_ == "tolerance";
  spec.policy = tolerance ? PolicyKind::kTolerance : PolicyKind::kBitwise;
  spec.rtol = rtol_;
  spec.atol = atol_;
  if (equal_nan_) {
    spec.equal_nan = *equal_nan_ == "bits"  ? EqualNan::kBits
                     : *equal_nan_ == "any" ? EqualNan::kAny
                                            : EqualNan::kNever;
  }
  spec.signed_zero_distinct = signed_zero_;
  if (align_ == "strict") spec.align = configs::AlignMode::kStrict;
  if (order_ == "relaxed") spec.order = configs::OperatorOrder::kRelaxed;
  return spec;
}

core::ExitCode DiffCommand::run(const GlobalOptions& globals) {
  comparators::CompareOptions options;
  options.spec = spec();
  options.verify_all = verify_ == "all";
  options.max_items = report_.max_items();
  report_.check_output();
  const std::vector<comparators::Report> reports{
      judge(baseline_, candidate_, options, {partial_, {references_.begin(), references_.end()}})};
  report_.emit(reports, report_.style(globals, "text"));
  return worst_exit(reports);
}

}  // namespace repro_check::cmd
