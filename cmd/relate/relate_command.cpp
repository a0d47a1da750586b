// SPDX-License-Identifier: Apache-2.0
// `relate`: two computations of one quantity, whose tensors may be cut otherwise.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/options/config_options.h"
#include "cmd/relate/passes_view.h"
#include "cmd/relate/shadow.h"
#include "cmd/relate/trainings_view.h"
#include "cmd/relate/weights_view.h"
#include "cmd/replay/replay.h"
#include "cmd/reports/program_to_judge.h"
#include "cmd/reports/report_flags.h"
#include "comparators/relate/arrival.h"
#include "comparators/relate/training_judgement.h"
#include "comparators/relate/two_passes.h"
#include "comparators/relate/weights.h"
#include "configs/parser/config_parser.h"
#include "core/error.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

using Dumps = std::vector<std::unique_ptr<core::DumpSource>>;

/// One dump, or those of the ranks of a run.
Dumps dumps_of(const std::string& location, const std::vector<store::RankDump>& ranks) {
  Dumps dumps;
  dumps.reserve(ranks.size() + 1);
  for (const store::RankDump& rank : ranks) dumps.push_back(store::open_dump(rank.path.string()));
  if (ranks.empty()) dumps.push_back(store::open_named(location));
  return dumps;
}

comparators::WeightSide side_of(const std::string& location) {
  std::vector<std::string> prefixes;
  const auto ranks = store::rank_dumps(location);
  for (const store::RankDump& rank : ranks) {
    prefixes.push_back(ranks.size() > 1 ? fmt::format("rank {}: ", rank.rank) : "");
  }
  if (ranks.empty()) prefixes.emplace_back();
  return comparators::read_weights(dumps_of(location, ranks), prefixes);
}

/// Beyond any length that is decoded.
constexpr std::uint64_t kMostPasses = 1'000'000;

class RelateCommand final : public Command {
 public:
  RelateCommand() : Command({"relate", "Compare two programs that compute the same quantity"}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    report_.check_output();
    require_weight_formats(report_);
    if (least_ < 0 || least_ > 1) {
      throw core::usage_error(fmt::format("--min-related {}: is no share from 0 to 1", least_),
                              "0.9 asks for nine of ten elements");
    }
    if (timeout_ && (*timeout_ == 0 || *timeout_ > kLongestTimeout)) {
      throw core::usage_error("--timeout takes a number from 1 to 31536000");
    }
    core::ExitCode failed = core::ExitCode::kReproducible;
    const auto a = dump_of(a_, "relate-a", globals, failed);
    const auto b = a ? dump_of(b_, "relate-b", globals, failed) : std::nullopt;
    if (!b) return failed;
    if (weights_) return relate_weights(*a, *b, globals);
    if (!store::rank_dumps(*a).empty()) {
      throw core::usage_error(*a + ": holds the dumps of ranks, and A has to be of one process",
                              "record the same training in one process, and give that first; "
                              "`repro-check ranks` judges ranks by themselves");
    }
    const auto ranks = store::rank_dumps(*b);
    if (training_ || !ranks.empty()) return relate_trainings(*a, *b, ranks, globals);
    return relate_passes(*a, *b, globals);
  }

 private:
  [[nodiscard]] core::ExitCode relate_weights(const std::string& a,
                                              const std::string& b,
                                              const GlobalOptions& globals) const {
    const comparators::WeightSide sender = side_of(a);
    const comparators::WeightSide receiver = side_of(b);
    return emit_weights(
        comparators::judge_arrival(sender, receiver, least_), sender, a, b, report_, globals);
  }

  [[nodiscard]] core::ExitCode relate_passes(const std::string& a,
                                             const std::string& b,
                                             const GlobalOptions& globals) const {
    const comparators::TwoPasses passes =
        comparators::relate_passes(pass_of(a, 1), pass_of(b, passes_));
    std::unique_ptr<ShadowDump> shadow;
    std::vector<std::uint64_t> cuts;
    if (comparators::can_be_judged(passes, least_) == comparators::NoVerdict::kNone) {
      shadow = shadow_of(plan_of(passes.a.dump()), passes);
      cuts = shadow->cut_operators();
    }
    const auto report = comparators::judge_passes(
        passes, least_, [&](std::size_t i) { return shadow->values(i); }, cuts);
    return emit_passes(passes, report, shadow.get(), report_, globals);
  }

  [[nodiscard]] core::ExitCode relate_trainings(const std::string& a,
                                                const std::string& b,
                                                const std::vector<store::RankDump>& ranks,
                                                const GlobalOptions& globals) const {
    Dumps single;
    single.push_back(store::open_named(a, {references_.begin(), references_.end()}));
    if (const std::string& depth = single.front()->manifest().trace.depth; depth != "all") {
      throw core::not_comparable(a + ": is recorded at depth " + depth +
                                     ", and float64 executes what is inside of its operators",
                                 "record it again with --level tensor --depth all");
    }
    const comparators::TwoTrainings trainings =
        comparators::relate_trainings(comparators::read_training(std::move(single)),
                                      comparators::read_training(dumps_of(b, ranks)));
    std::unique_ptr<ShadowDump> shadow;
    std::vector<std::uint64_t> cuts;
    if (comparators::can_be_judged(trainings, least_) == comparators::NoVerdict::kNone) {
      shadow = shadow_of(plan_of(trainings.a.dump_of(trainings.single())), trainings);
      cuts = shadow->cut_operators();
    }
    const auto report = comparators::judge_trainings(
        trainings,
        least_,
        [&](std::size_t i, std::size_t output) { return shadow->numbers(i, output); },
        cuts);
    return emit_trainings(trainings, report, {a, b}, shadow.get(), report_, globals);
  }

  [[nodiscard]] ShadowPlan plan_of(const core::DumpSource& dump) const {
    ShadowPlan plan;
    plan.dump = dump.location();
    plan.references = {references_.begin(), references_.end()};
    if (recorder_) plan.recorder = *recorder_;
    if (timeout_) plan.timeout = std::chrono::seconds(*timeout_);
    return plan;
  }

  /// Where an argument is a configuration, its run is recorded as it is needed here.
  /// @return the dump; empty where the run failed, which is then reported
  std::optional<std::string> dump_of(const std::string& given,
                                     const std::string& name,
                                     const GlobalOptions& globals,
                                     core::ExitCode& failed) const {
    const std::filesystem::path path = given;
    if (path.extension() != ".json" || path.filename() == store::kManifestName) return given;
    const configs::Config config = configs::load_config(
        path, {{"/dump/level", quoted("tensor")}, {"/dump/depth", quoted("all")}});
    std::optional<std::string> dump;
    failed = record_to_judge(config,
                             {name, false, report_.style(globals, "text").format},
                             globals,
                             [&](const std::string& made) {
                               dump = made;
                               return core::ExitCode::kReproducible;
                             });
    return dump;
  }

  [[nodiscard]] comparators::PassSide pass_of(const std::string& location,
                                              std::uint64_t count) const {
    return comparators::read_side(
        store::open_named(location, {references_.begin(), references_.end()}), pass_, count);
  }

  std::string a_ = value(&a_, "a DUMP", {.takes = Takes::kDump, .required = true});
  std::string b_ = value(&b_, "b DUMP", {.takes = Takes::kDump, .required = true});
  bool weights_ = flag(&weights_, "--weights");
  bool training_ = flag(&training_, "--training");
  double least_ = value(&least_, "--min-related SHARE", {}, 0.9);
  std::uint64_t pass_ = value(&pass_, "--pass N");
  std::uint64_t passes_ =
      value(&passes_, "--passes N", {.range = {{std::uint64_t{1}, kMostPasses}}}, 1);
  std::optional<std::string> recorder_ =
      value(&recorder_, "--recorder FILE", {.takes = Takes::kFile});
  std::optional<std::uint64_t> timeout_ = value(&timeout_, "--timeout SECONDS");
  std::vector<std::string> references_ = references(&references_);
  ReportFlags report_ = group(&report_);
};

}  // namespace

std::unique_ptr<Command> relate_command() { return std::make_unique<RelateCommand>(); }

}  // namespace repro_check::cmd
