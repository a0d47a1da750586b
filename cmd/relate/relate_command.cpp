// SPDX-License-Identifier: Apache-2.0
// `relate`: two computations of one quantity, whose tensors may be cut otherwise.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/relate/passes_view.h"
#include "cmd/relate/shadow.h"
#include "cmd/relate/weights_view.h"
#include "cmd/replay/replay.h"
#include "cmd/reports/report_flags.h"
#include "comparators/relate/arrival.h"
#include "comparators/relate/two_passes.h"
#include "comparators/relate/weights.h"
#include "core/error.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

comparators::WeightSide side_of(const std::string& location) {
  std::vector<std::unique_ptr<core::DumpSource>> dumps;
  std::vector<std::string> prefixes;
  const auto ranks = store::rank_dumps(location);
  for (const store::RankDump& rank : ranks) {
    dumps.push_back(store::open_dump(rank.path.string()));
    prefixes.push_back(ranks.size() > 1 ? fmt::format("rank {}: ", rank.rank) : "");
  }
  if (ranks.empty()) {
    dumps.push_back(store::open_named(location));
    prefixes.emplace_back();
  }
  return comparators::read_weights(std::move(dumps), prefixes);
}

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
    return weights_ ? relate_weights(globals) : relate_passes(globals);
  }

 private:
  core::ExitCode relate_weights(const GlobalOptions& globals) {
    const comparators::WeightSide sender = side_of(a_);
    const comparators::WeightSide receiver = side_of(b_);
    return emit_weights(
        comparators::judge_arrival(sender, receiver, least_), sender, a_, b_, report_, globals);
  }

  core::ExitCode relate_passes(const GlobalOptions& globals) {
    const comparators::TwoPasses passes = comparators::relate_passes(pass_of(a_), pass_of(b_));
    std::optional<ShadowDump> shadow;
    if (comparators::can_be_judged(passes, least_) == comparators::NoVerdict::kNone) {
      ShadowPlan plan;
      plan.dump = passes.a.dump().location();
      plan.references = {references_.begin(), references_.end()};
      if (recorder_) plan.recorder = *recorder_;
      if (timeout_) plan.timeout = std::chrono::seconds(*timeout_);
      shadow.emplace(plan, passes);
    }
    const auto report =
        comparators::judge_passes(passes, least_, [&](std::size_t i) { return shadow->values(i); });
    return emit_passes(passes, report, shadow ? &*shadow : nullptr, report_, globals);
  }

  [[nodiscard]] comparators::PassSide pass_of(const std::string& location) const {
    return comparators::read_side(
        store::open_named(location, {references_.begin(), references_.end()}), pass_);
  }

  std::string a_ = value(&a_, "a DUMP", {.takes = Takes::kDump, .required = true});
  std::string b_ = value(&b_, "b DUMP", {.takes = Takes::kDump, .required = true});
  bool weights_ = flag(&weights_, "--weights");
  double least_ = value(&least_, "--min-related SHARE", {}, 0.9);
  std::uint64_t pass_ = value(&pass_, "--pass N");
  std::optional<std::string> recorder_ =
      value(&recorder_, "--recorder FILE", {.takes = Takes::kFile});
  std::optional<std::uint64_t> timeout_ = value(&timeout_, "--timeout SECONDS");
  std::vector<std::string> references_ = references(&references_);
  ReportFlags report_ = group(&report_);
};

}  // namespace

std::unique_ptr<Command> relate_command() { return std::make_unique<RelateCommand>(); }

}  // namespace repro_check::cmd
