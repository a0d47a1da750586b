// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect_command.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>

#include "cmd/choice.h"
#include "cmd/inspect_views.h"
#include "cmd/logging.h"
#include "cmd/output.h"
#include "cmd/reference.h"
#include "cmd/verdict.h"
#include "core/error.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/partial_dump.h"

namespace repro_check::cmd {
namespace {

[[noreturn]] void reject(const std::string& message, const std::string& hint) {
  throw core::Error(core::ErrorKind::kUsage, message, hint);
}

ViewForm view_form(const std::string& format) {
  if (format == "text") return ViewForm::kText;
  return stdout_is_terminal() ? ViewForm::kPrettyJson : ViewForm::kJson;
}

ListForm list_form(const std::string& format) {
  if (format == "text") return stdout_is_terminal() ? ListForm::kColumns : ListForm::kTabs;
  return stdout_is_terminal() ? ListForm::kPrettyJson : ListForm::kJson;
}

/// What a list that was cut short, or that is empty, ends with. Nothing is thrown: what has been
/// printed is the document, and no report can follow it.
core::ExitCode end_of_list(const core::DumpSource& dump,
                           const ListOutcome& outcome,
                           bool may_be_empty) {
  if (outcome.failure) return report_exception(*outcome.failure);
  if (outcome.unknown > 0) {
    const std::string message =
        fmt::format("--where: of {} operators no statistics are recorded", outcome.unknown);
    const std::string hint = "record with dump.level \"stats\" or \"tensor\"";
    if (outcome.shown == 0) {
      return report_exception(core::Error(core::ErrorKind::kNotComparable, message, hint));
    }
    log_warning(message + ": " + hint);
  }
  if (outcome.shown > 0 || may_be_empty) return core::ExitCode::kReproducible;
  log_warning(fmt::format("no operator of {} was selected", dump.op_count()));
  return core::ExitCode::kNotComparable;
}

}  // namespace

std::vector<std::string> InspectCommand::examples() const {
  return {"repro-check inspect repro-check-out/baseline",
          "repro-check inspect DUMP --list --operator 'aten::*norm*' --range 40:60",
          "repro-check inspect DUMP --list --where 'nan>0 or inf>0'",
          "repro-check inspect DUMP --modules",
          "repro-check inspect DUMP --generators --format json",
          "repro-check inspect DUMP --op 41",
          "repro-check inspect DUMP --op 41 --tensor out:0 --stats --values=20",
          "repro-check inspect DUMP --op 41 --tensor in:self --export self.npy",
          "repro-check inspect --partial KILLED --list"};
}

void InspectCommand::define(CLI::App& app) {
  app.add_option("dump", dump_, "Dump to look into")->type_name("DUMP")->required();
  define_selection(app);
  app.add_option("--op", op_, "Show all of one operator")->type_name("INDEX");
  app.add_option("--tensor", tensor_, "Show one of its tensors: in:SLOT or out:SLOT")
      ->type_name("SIDE:SLOT");
  app.add_flag("--stats", stats_, "Statistics of that tensor");
  app.add_flag_function(
      "--values{10}",
      [this](std::int64_t count) {
        values_ = static_cast<std::uint64_t>(std::max<std::int64_t>(0, count));
      },
      "The first elements of that tensor; --values=N so many (10)");
  app.add_flag("--verify", verify_, "Check every stored byte against its digest");
  app.add_option("--export", export_, "Write that tensor to a .npy file")->type_name("FILE.npy");
  app.add_flag("--partial", partial_, "Read what a recording that was cut short has left");
  define_references(app, references_);
  restrict_to(app.add_option("--format", format_, "Format"), {"text", "json"});
}

void InspectCommand::define_selection(CLI::App& app) {
  app.add_flag("--list", list_, "List operators, one line each");
  app.add_option(
         "--operator", operator_, "List those with such a name; /RE/ is a regular expression")
      ->type_name("GLOB");
  app.add_option("--module", module_, "List those with such a module path; /RE/ as well")
      ->type_name("GLOB");
  app.add_option("--range", range_, "List op FIRST up to, not including, END")
      ->type_name("FIRST:END");
  app.add_option(
         "--where", where_, "List those with such an output: nan>0, max>=1e4 and dtype=half")
      ->type_name("CONDITION");
  app.add_flag("--modules", modules_, "The module tree: operators, NaN and Inf of each module");
  app.add_flag("--generators",
               generators_,
               "The operators that drew random numbers, and where the generators stood");
}

bool InspectCommand::is_list() const {
  return list_ || operator_ || module_ || range_ || where_ || generators_;
}

OpSelection InspectCommand::selection() const {
  OpSelection selection;
  if (operator_) selection.operators.emplace(*operator_);
  if (module_) selection.modules.emplace(*module_);
  if (range_) parse_range(*range_, selection);
  if (where_) selection.where.emplace(*where_);
  return selection;
}

void InspectCommand::check_combination() const {
  // A range that is none must be said before the dump is opened.
  static_cast<void>(selection());
  if (modules_ && (is_list() || op_ || verify_)) reject("--modules is about the whole dump", "give it alone");
  if (list_ && generators_) reject("--generators is a list of its own", "leave out --list");
  if (is_list() && op_) {
    reject("--op shows one operator, --list and its filters many", "leave one of them out");
  }
  if (verify_ && (is_list() || op_)) reject("--verify is about the whole dump", "give it alone");
  if (tensor_ && !op_) reject("--tensor needs --op", "for example --op 41 --tensor out:0");
  if ((stats_ || values_ || export_) && !tensor_) {
    reject("--stats, --values and --export need --tensor", "for example --op 41 --tensor out:0");
  }
  if (export_) require_writable(*export_);
}

core::ExitCode InspectCommand::run(const GlobalOptions& globals) {
  check_combination();
  try {
    const std::vector<std::filesystem::path> references(references_.begin(), references_.end());
    const auto dump =
        partial_ ? store::open_partial(dump_, references) : store::open_dump(dump_, references);
    return show(*dump, globals);
  } catch (const core::Error& error) {
    const auto report = unreadable_dump(dump_, error);
    if (!report) throw;
    const std::vector<comparators::Report> reports{*report};
    write_stdout(render_reports(
        reports, ReportStyle{format_, render_options(globals, stdout_is_terminal())}));
    return worst_exit(reports);
  }
}

core::ExitCode InspectCommand::show_list(const core::DumpSource& dump) const {
  const ListForm form = list_form(format_);
  if (!generators_) {
    const ListOutcome outcome = list_operators(dump, selection(), form, write_stdout);
    return end_of_list(dump, outcome, false);
  }
  const bool is_selected = operator_ || module_ || range_ || where_;
  const ListOutcome outcome = list_generators(dump, selection(), form, write_stdout);
  if (outcome.shown == 0 && !is_selected) log_info("no operator drew random numbers");
  return end_of_list(dump, outcome, !is_selected);
}

core::ExitCode InspectCommand::show(const core::DumpSource& dump,
                                    const GlobalOptions& globals) const {
  if (is_list()) return show_list(dump);
  if (modules_) {
    list_modules(dump, list_form(format_), write_stdout);
    return core::ExitCode::kReproducible;
  }
  const ViewForm form = view_form(format_);
  if (verify_) {
    write_stdout(verified_view(dump, form));
    return core::ExitCode::kReproducible;
  }
  if (!op_) {
    write_stdout(summary_view(dump, form, globals.verbosity));
    return core::ExitCode::kReproducible;
  }
  if (*op_ >= dump.op_count()) {
    throw core::Error(
        core::ErrorKind::kNotComparable,
        fmt::format("there is no op {}: the dump has {} operators", *op_, dump.op_count()));
  }
  if (!tensor_) {
    write_stdout(op_view(dump, *op_, form, globals.verbosity));
  } else {
    write_stdout(tensor_view(dump, *op_, {*tensor_, stats_, values_, export_}, form));
  }
  return core::ExitCode::kReproducible;
}

}  // namespace repro_check::cmd
