// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/options/compare_options.h"
#include "cmd/recording/default_places.h"
#include "cmd/recording/progress.h"
#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "cmd/reports/rank_pairs.h"
#include "cmd/reports/rank_slices.h"
#include "cmd/reports/report_flags.h"
#include "cmd/reports/verdict.h"
#include "cmd/run/runs.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "comparators/compare.h"
#include "comparators/ranks/ranks.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {
namespace {

class DiffCommand final : public Command {
 public:
  DiffCommand() : Command({"diff", "Compare the first dump with each of the others"}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    report_.check_output();
    choose_dumps();
    comparators::CompareOptions options = compare_options(policy_.spec());
    options.spec.resume = resume_;
    if (resume_ && options.spec.numbers) {
      throw usage_error("--resume compares operators, which --numbers does not judge",
                        "leave out one of the two");
    }
    options.verify_all = verify_ == "all";
    options.max_items = report_.max_items();
    options.keep_trail = report_.wants_trail();
    const comparators::RankRange asked = ranks_.range();
    const std::vector<RankPair> ranks = rank_pairs(baseline_, candidates_.front(), asked);
    if (!ranks.empty() && candidates_.size() > 1) {
      throw usage_error("ranks are compared between two runs", "compare one run after the other");
    }
    if (ranks.empty() && ranks_.is_given()) {
      throw usage_error("--ranks: there are no dumps of those ranks",
                        "give two directories of `repro-check exec`, with a dump a rank");
    }
    std::optional<OpLines> lines;
    if (ranks.empty() && candidates_.size() == 1 && report_.wants_lines()) {
      options.observer = lines.emplace().observer(report_.wants_all());
    }
    Progress progress(globals);
    options.progress = comparison_on(progress);
    progress.begin(1, 0, "");
    if (!ranks.empty()) return judge_all(ranks, options, progress, globals);
    const std::vector<comparators::Report> reports{judge_all(options, progress)};
    progress.clear();
    report_.emit(reports, report_.style(globals, "text"), lines ? &*lines : nullptr);
    return worst_exit(reports);
  }

 private:
  void choose_dumps() {
    if (!candidates_.empty()) return;
    if (!baseline_.empty()) {
      throw usage_error("diff takes two dumps or more, and one was given",
                        "repro-check diff " + shell_quote(baseline_) + " CANDIDATE");
    }
    const auto [earlier, later] = last_two_alike();
    log_info(fmt::format("comparing {} with {}", later.string(), earlier.string()));
    baseline_ = earlier.string();
    candidates_ = {later.string()};
  }

  /// Rank by rank. JSON Lines are a line a pair.
  [[nodiscard]] core::ExitCode judge_all(const std::vector<RankPair>& ranks,
                                         const comparators::CompareOptions& options,
                                         Progress& progress,
                                         const GlobalOptions& globals) const {
    const OpenOptions opening{.partial = partial_,
                              .references = {references_.begin(), references_.end()}};
    std::size_t number = 0;
    std::vector<JudgedPair> judged = judge_ranks(ranks, [&](const RankPair& pair) {
      progress.begin(++number, ranks.size(), pair.candidate.string());
      return judge(pair.baseline, pair.candidate, options, opening);
    });
    progress.clear();
    const ReportStyle style = report_.style(globals, "text");
    RankSlice slice{"diff",
                    {baseline_, candidates_.front()},
                    ranks_.range(),
                    ranks_of(baseline_, candidates_.front())};
    if (report_.wants_lines()) slice.lines = lines_of(judged, style.options);
    const std::vector<comparators::Report> reports = leading_first(std::move(judged));
    report_.emit(style, [&](std::string_view format, const auto& given, const TextSink& sink) {
      sink(format == "jsonl" ? slice_text(slice) : find_format(format)->render(reports, given));
    });
    return worst_exit(reports);
  }

  [[nodiscard]] comparators::Report judge_all(const comparators::CompareOptions& options,
                                              Progress& progress) const {
    const OpenOptions opening{.partial = partial_,
                              .references = {references_.begin(), references_.end()},
                              .unpacking = packing_on(progress),
                              .named = true};
    if (candidates_.size() == 1) return judge(baseline_, candidates_.front(), options, opening);
    if (partial_) {
      throw core::usage_error("--partial compares two dumps",
                              "compare one dump after the other with the first");
    }
    std::vector<comparators::Report> reports;
    std::vector<std::filesystem::path> dumps{baseline_};
    for (const std::string& candidate : candidates_) {
      progress.begin(dumps.size(), candidates_.size(), candidate);
      reports.push_back(judge(baseline_, candidate, options, opening));
      dumps.emplace_back(candidate);
    }
    return sum_up(std::move(reports), assess_dumps(dumps, opening.references, options.max_items));
  }

  std::string baseline_ = value(&baseline_, "baseline DUMP", {.takes = Takes::kDump});
  std::vector<std::string> candidates_ =
      value(&candidates_, "candidate DUMP", {.takes = Takes::kDump});
  PolicyFlags policy_ = group(&policy_);
  std::string verify_ = word(&verify_, "--verify all|differing", "all");
  bool partial_ = flag(&partial_, "--partial");
  bool resume_ = flag(&resume_, "--resume");
  RankRangeFlag ranks_ = group(&ranks_);
  std::vector<std::string> references_ = references(&references_);
  ReportFlags report_ = group(&report_);
};

}  // namespace

std::unique_ptr<Command> diff_command() { return std::make_unique<DiffCommand>(); }

}  // namespace repro_check::cmd
