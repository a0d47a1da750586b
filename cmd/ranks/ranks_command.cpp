// SPDX-License-Identifier: Apache-2.0
// `ranks`: do the replicas of one run agree where and when they must?
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/ranks/rank_mesh.h"
#include "cmd/ranks/ranks_view.h"
#include "cmd/reports/rank_slices.h"
#include "cmd/reports/report_flags.h"
#include "comparators/ranks/rank_reads.h"
#include "comparators/ranks/ranks.h"
#include "core/error.h"
#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

using comparators::RankRange;
using comparators::RankRecording;

/// Those in a directory of `exec`, or dumps of single ranks; of the ranks that are asked for.
std::vector<RankRecording> recordings_of(const std::vector<std::string>& dumps,
                                         const RankRange& asked) {
  std::vector<RankRecording> recordings;
  for (const std::string& dump : dumps) {
    const auto ranks = store::rank_dumps(dump);
    for (const store::RankDump& rank : ranks) {
      recordings.push_back({rank.rank, rank.path.string()});
    }
    if (!ranks.empty()) continue;
    const auto rank = comparators::number_fact(store::open_dump(dump)->manifest(), core::kRank);
    if (!rank) {
      throw core::Error(
          core::ErrorKind::kUsage,
          dump + ": is of no rank: its program made no process group of several",
          "give the directory that `repro-check exec` has written, with a dump a rank");
    }
    recordings.push_back({*rank, dump});
  }
  std::erase_if(recordings, [&](const RankRecording& one) { return !asked.contains(one.rank); });
  std::ranges::sort(recordings, {}, &RankRecording::rank);
  const auto twice = std::ranges::adjacent_find(recordings, {}, &RankRecording::rank);
  if (twice != recordings.end()) {
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("rank {} is given twice: {} and {}",
                                  twice->rank,
                                  twice->location,
                                  std::next(twice)->location),
                      "give the ranks of one run; `repro-check diff` compares two runs");
  }
  return recordings;
}

class RanksCommand final : public Command {
 public:
  RanksCommand()
      : Command({"ranks",
                 "Check whether the replicas of a distributed run agree",
                 {"repro-check exec -o run -- torchrun --nproc-per-node 2 train.py",
                  "repro-check ranks run",
                  "repro-check ranks run/rank-0 run/rank-3 --format json",
                  "repro-check ranks run --mesh dp=4,tp=2 --replicated dp",
                  // NOLINTNEXTLINE(bugprone-suspicious-missing-comma)
                  "repro-check ranks run --ranks 0:512 --format jsonl > 0.jsonl    # for report "
                  "--merge"}}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    report_.check_output();
    require_rank_formats(report_);
    const RankRange asked = ranks_.range();
    std::uint32_t expected = 0;
    for (const std::string& dump : dumps_) {
      expected = std::max(expected, store::read_rank_count(dump));
    }
    const auto open = [](const std::string& dump) { return store::open_dump(dump); };
    return emit_ranks(
        comparators::read_ranks(
            recordings_of(dumps_, asked), open, expected, asked, mesh_.declared(expected)),
        dumps_,
        report_,
        globals);
  }

 private:
  std::vector<std::string> dumps_ =
      value(&dumps_,
            "dumps DUMP  Directory with a dump a rank, or the dumps of ranks",
            {.required = true});
  RankRangeFlag ranks_ = group(&ranks_);
  RankMeshFlags mesh_ = group(&mesh_);
  ReportFlags report_ = group(&report_);
};

}  // namespace

std::unique_ptr<Command> ranks_command() { return std::make_unique<RanksCommand>(); }

}  // namespace repro_check::cmd
