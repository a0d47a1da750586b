// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "cmd/inspect/inspect_list.h"
#include "cmd/inspect/inspect_tensor.h"
#include "cmd/inspect/inspect_view.h"
#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/render/color.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/recovery/recovery.h"

namespace repro_check::cmd {
namespace {

void reject_if(bool wrong, const char* message, const char* hint) {
  if (wrong) throw usage_error(message, hint);
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
    const std::string hint = dump.manifest().trace.level == "digest"
                                 ? "record with dump.level \"stats\" or \"tensor\""
                                 : "record it again: an older recorder took none";
    if (outcome.shown == 0) {
      return report_exception(core::not_comparable(message, hint));
    }
    log_warning(message + ": " + hint);
  }
  if (outcome.shown > 0 || may_be_empty) return core::ExitCode::kReproducible;
  log_warning(fmt::format("no operator of {} was selected; --list alone shows all of them",
                          dump.op_count()));
  return core::ExitCode::kNotComparable;
}

class InspectCommand final : public Command {
 public:
  InspectCommand() : Command({"inspect", "Show what a dump holds: operators, tensors, values"}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    check_combination();
    try {
      const auto ranks = store::rank_dumps(dump_);
      if (!ranks.empty() && is_summary()) return show_ranks(ranks);
      return show(*open(dump_), globals);
    } catch (const core::Error& error) {
      return report_unreadable(dump_, error, format_, globals);
    }
  }

 private:
  void check_combination() const {
    // A range that is none must be said before the dump is opened.
    static_cast<void>(selection());
    reject_if(modules_ && (is_list() || op_ || verify_),
              "--modules is about the whole dump",
              "use it without other options");
    reject_if(list_ && generators_, "--generators is a list of its own", "leave out --list");
    reject_if(is_list() && op_,
              "--op shows one operator, --list and its filters many",
              "leave one of them out");
    reject_if(verify_ && (is_list() || op_),
              "--verify is about the whole dump",
              "use it without other options");
    reject_if(tensor_ && !op_, "--tensor needs --op", "for example --op 41 --tensor out:0");
    reject_if(!tensor_ && (stats_ || values_ || slice_ || bits_ || against_),
              "--stats, --values, --slice, --bits and --against need --tensor",
              "for example --op 41 --tensor out:0");
    static_cast<void>(query());
    reject_if(against_ && stats_,
              "--stats is about one dump, --against about two",
              "leave one of them out");
    reject_if(
        bits_ && !values_ && !slice_ && !export_, "--bits stands beside values", "add --values");
    if (export_) check_export();
  }

  void check_export() const {
    reject_if(!op_, "--export needs --op", "for example --op 41 --tensor out:0");
    const ExportFormat format = export_format(*export_);
    reject_if(!tensor_ && format != ExportFormat::kSafetensors,
              "--export of a whole operator writes .safetensors",
              "or name one with --tensor");
    reject_if(against_ && format != ExportFormat::kCsv && format != ExportFormat::kJsonl,
              "--export of two dumps writes .csv or .jsonl",
              "or leave --against out");
    reject_if(against_ && as_, "--as is about one dump", "leave --against out");
    require_writable(*export_);
  }

  [[nodiscard]] bool has_filter() const { return operator_ || module_ || range_ || where_; }
  [[nodiscard]] bool is_list() const { return list_ || generators_ || has_filter(); }
  [[nodiscard]] Form form() const {
    if (format_ == "text") return stdout_is_terminal() ? Form::kColumns : Form::kTabs;
    return stdout_is_terminal() ? Form::kPrettyJson : Form::kJson;
  }
  [[nodiscard]] static std::size_t columns() {
    return text_columns(stdout_is_terminal(), &std::getenv);
  }
  void print(const std::string& view) const {
    write_stdout(is_json(form()) ? view : wrapped(view, columns()));
  }
  [[nodiscard]] OpSelection selection() const {
    OpSelection selection;
    if (operator_) selection.operators.emplace(*operator_);
    if (module_) selection.modules.emplace(*module_);
    if (range_) parse_range(*range_, selection);
    if (where_) selection.where.emplace(*where_);
    return selection;
  }

  [[nodiscard]] TensorQuery query() const {
    constexpr std::uint64_t kMostOfSlice = 1000;
    TensorQuery query{
        tensor_.value_or(""), stats_, values_, export_, std::nullopt, bits_, {}, columns()};
    if (slice_) query.slice = core::parse_subscript(*slice_);
    if (slice_ && !stats_ && !values_ && !export_) query.values = kMostOfSlice;
    reject_if(as_ && !export_, "--as is about --export", "add --export FILE");
    if (as_) query.as = export_dtype(*as_);
    return query;
  }

  [[nodiscard]] std::unique_ptr<core::DumpSource> open(const std::string& dump) const {
    const std::vector<std::filesystem::path> references(references_.begin(), references_.end());
    return partial_ ? store::open_partial(dump, references) : store::open_named(dump, references);
  }

  [[nodiscard]] core::ExitCode show(const core::DumpSource& dump,
                                    const GlobalOptions& globals) const {
    if (is_list()) return show_list(dump);
    if (modules_) {
      list_modules(dump, form(), write_stdout);
    } else if (verify_) {
      print(verified_view(dump, form()));
    } else if (!op_) {
      print(summary_view(dump, form(), globals.verbosity));
    } else if (*op_ >= dump.op_count()) {
      throw core::not_comparable(
          fmt::format("there is no op {}: the dump has {} operators", *op_, dump.op_count()),
          "they count from 0; --list shows them");
    } else if (against_) {
      return show_against(dump, globals);
    } else if (tensor_) {
      print(tensor_view(dump, *op_, query(), form()));
    } else if (export_) {
      export_op(*export_, dump, *op_, query().as);
    } else {
      print(op_view(dump, *op_, form(), globals.verbosity));
    }
    return core::ExitCode::kReproducible;
  }

  [[nodiscard]] bool is_summary() const { return !is_list() && !modules_ && !verify_ && !op_; }

  [[nodiscard]] core::ExitCode show_ranks(const std::vector<store::RankDump>& ranks) const {
    const RanksView view = ranks_view(dump_, ranks, form());
    print(view.text);
    return view.code;
  }

  [[nodiscard]] core::ExitCode show_list(const core::DumpSource& dump) const {
    if (!generators_) {
      return end_of_list(dump, list_operators(dump, selection(), form(), write_stdout), false);
    }
    const ListOutcome outcome = list_generators(dump, selection(), form(), write_stdout);
    if (outcome.shown == 0 && !has_filter()) log_info("no operator drew random numbers");
    return end_of_list(dump, outcome, !has_filter());
  }

  [[nodiscard]] core::ExitCode show_against(const core::DumpSource& dump,
                                            const GlobalOptions& globals) const {
    const auto is_readable = [&] {
      try {
        const core::OpRecord op = dump.op(*op_);
        static_cast<void>(read_values(dump, require_slot(op, *tensor_)));
        return true;
      } catch (const core::Error&) {
        return false;
      }
    };
    std::unique_ptr<core::DumpSource> other;
    TensorAgainst pair;
    const TensorQuery asked = query();
    try {
      other = open(*against_);
      pair = compare_tensor(dump, *op_, *other, asked);
    } catch (const core::Error& error) {
      // The report names the dump that is to blame.
      if (other != nullptr && !is_readable()) throw;
      return report_unreadable(*against_, error, format_, globals);
    }
    if (export_) export_pair(*export_, pair, asked);
    print(against_view(dump, *other, pair, asked, form()));
    return pair.equal ? core::ExitCode::kReproducible : core::ExitCode::kDivergence;
  }

  std::string dump_ = value(&dump_, "dump DUMP", {.takes = Takes::kDump, .required = true});
  bool list_ = flag(&list_, "--list");
  std::optional<std::string> operator_ = value(&operator_, "--operator GLOB");
  std::optional<std::string> module_ = value(&module_, "--module GLOB");
  std::optional<std::string> range_ = value(&range_, "--range FIRST:END");
  std::optional<std::string> where_ = value(&where_, "--where CONDITION");
  bool modules_ = flag(&modules_, "--modules");
  bool generators_ = flag(&generators_, "--generators");
  std::optional<std::uint64_t> op_ = value(&op_, "--op INDEX");
  std::optional<std::string> tensor_ = value(&tensor_, "--tensor SIDE:SLOT");
  bool stats_ = flag(&stats_, "--stats");
  std::optional<std::uint64_t> values_ = flag(&values_, "--values{10}");
  std::optional<std::string> slice_ = value(&slice_, "--slice SLICE");
  bool bits_ = flag(&bits_, "--bits");
  std::optional<std::string> against_ = value(&against_, "--against DUMP", {.takes = Takes::kDump});
  std::optional<std::string> export_ = value(&export_, "--export FILE", {.takes = Takes::kFile});
  std::optional<std::string> as_ = value(&as_, "--as DTYPE");
  bool verify_ = flag(&verify_, "--verify");
  bool partial_ = flag(&partial_, "--partial");
  std::vector<std::string> references_ = references(&references_);
  std::string format_ = word(&format_, "--format text|json", "text");
};

}  // namespace

std::unique_ptr<Command> inspect_command() { return std::make_unique<InspectCommand>(); }

}  // namespace repro_check::cmd
