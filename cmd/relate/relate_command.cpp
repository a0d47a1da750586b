// SPDX-License-Identifier: Apache-2.0
// `relate`: two computations of one quantity, whose tensors may be cut otherwise.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/relate/weights_view.h"
#include "cmd/reports/report_flags.h"
#include "comparators/relate/arrival.h"
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
  RelateCommand()
      : Command({"relate", "Check whether the weights of one program arrived at another"}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    report_.check_output();
    require_weight_formats(report_);
    if (!weights_) {
      throw core::usage_error("relate compares weights only, and outputs not yet",
                              "repro-check relate --weights SENDER RECEIVER");
    }
    if (least_ < 0 || least_ > 1) {
      throw core::usage_error(fmt::format("--min-related {}: is no share from 0 to 1", least_),
                              "0.9 asks for nine of ten elements");
    }
    const comparators::WeightSide sender = side_of(sender_);
    const comparators::WeightSide receiver = side_of(receiver_);
    return emit_weights(comparators::judge_arrival(sender, receiver, least_),
                        sender,
                        sender_,
                        receiver_,
                        report_,
                        globals);
  }

 private:
  std::string sender_ = value(&sender_, "sender DUMP", {.takes = Takes::kDump, .required = true});
  std::string receiver_ =
      value(&receiver_, "receiver DUMP", {.takes = Takes::kDump, .required = true});
  bool weights_ = flag(&weights_, "--weights");
  double least_ = value(&least_, "--min-related SHARE", {}, 0.9);
  ReportFlags report_ = group(&report_);
};

}  // namespace

std::unique_ptr<Command> relate_command() { return std::make_unique<RelateCommand>(); }

}  // namespace repro_check::cmd
