// SPDX-License-Identifier: Apache-2.0
// `ranks`: do the replicas of one run agree where and when they must?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/audit/audit_line.h"
#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/ranks/ranks_view.h"
#include "cmd/reports/rank_pairs.h"
#include "cmd/reports/rank_slices.h"
#include "cmd/reports/report_flags.h"
#include "comparators/ranks/rank_reads.h"
#include "comparators/ranks/ranks.h"
#include "core/error.h"
#include "core/text/text.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"
#include "core/trace/run_manifest.h"
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
    const core::RunManifest manifest = store::open_named(dump)->manifest();
    const auto rank = comparators::number_fact(manifest, core::kRank);
    if (const auto* simulated = core::environment_fact(manifest, core::kSimulatedRanks)) {
      throw core::not_comparable(
          fmt::format("{}: one process stands for all of {} ranks", dump, *simulated),
          "its process group is a fake one, and there are no other ranks to hold it against: "
          "compare "
          "two runs with `repro-check diff`");
    }
    if (!rank) {
      throw core::usage_error(
          dump + ": is of no rank: its program made no process group of several",
          "give the directory that `repro-check exec` has written, with a dump a rank");
    }
    recordings.push_back({*rank, dump});
  }
  std::erase_if(recordings, [&](const RankRecording& one) { return !asked.contains(one.rank); });
  std::ranges::sort(recordings, {}, &RankRecording::rank);
  const auto twice = std::ranges::adjacent_find(recordings, {}, &RankRecording::rank);
  if (twice != recordings.end()) {
    throw core::usage_error(fmt::format("rank {} is given twice: {} and {}",
                                        twice->rank,
                                        twice->location,
                                        std::next(twice)->location),
                            "give the ranks of one run; `repro-check diff` compares two runs");
  }
  return recordings;
}

struct Axis {
  std::string name;
  std::uint32_t ranks = 0;
  bool replicated = false;
};

Axis axis_of(const std::string& text) {
  const std::size_t equals = text.find('=');
  const auto ranks = equals == std::string::npos
                         ? std::nullopt
                         : core::parse_number<std::uint32_t>(text.substr(equals + 1));
  if (equals == 0 || !ranks || *ranks == 0) {
    throw core::usage_error(fmt::format("--mesh {}: is no axis with its number of ranks", text),
                            "write --mesh dp=4,tp=2 for 8 ranks of which two each work on parts");
  }
  return {text.substr(0, equals), *ranks};
}

void mark_replicated(std::vector<Axis>& axes, const std::string& name) {
  const auto axis = std::ranges::find(axes, name, &Axis::name);
  if (axis == axes.end()) {
    std::vector<std::string_view> names;
    names.reserve(axes.size());
    for (const Axis& each : axes) names.push_back(each.name);
    throw core::usage_error(
        fmt::format("--replicated {}: is no axis of the mesh", name),
        names.empty() ? std::string("say how the ranks are laid out too: --mesh dp=4,tp=2")
                      : fmt::format("its axes are {}", fmt::join(names, ", ")));
  }
  axis->replicated = true;
}

/// The ranks that differ from one in their place along replicated axes alone.
std::string replicas_of(std::uint32_t rank, const std::vector<Axis>& axes) {
  std::vector<std::uint32_t> ranks{0};
  for (std::uint64_t stride = 1; const Axis& axis : std::vector(axes.rbegin(), axes.rend())) {
    std::vector<std::uint32_t> further;
    for (std::uint32_t place = 0; place < axis.ranks; ++place) {
      // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): no axis is of 0 ranks
      if (!axis.replicated && place != rank / stride % axis.ranks) continue;
      for (const std::uint32_t each : ranks) {
        further.push_back(static_cast<std::uint32_t>(each + (place * stride)));
      }
    }
    ranks = std::move(further);
    stride *= axis.ranks;
  }
  return fmt::format("{}", fmt::join(ranks, ","));
}

/// How ranks lie along the axes of a mesh, and along which of them parameters are replicas: of a
/// program that splits its weights by hand nothing else says so.
class RankMeshFlags : public OptionGroup {
 public:
  /// Empty where no mesh was given.
  /// @param expected  ranks that there are; 0 = not known
  /// @throws core::Error{kUsage} where what was given is no mesh, or one of another number of ranks
  [[nodiscard]] comparators::DeclaredReplicas declared(std::uint32_t expected) const {
    std::vector<Axis> axes;
    std::uint64_t ranks = 1;
    for (const std::string& text : mesh_) {
      ranks *= axes.emplace_back(axis_of(text)).ranks;
      if (ranks <= std::numeric_limits<std::uint32_t>::max()) continue;
      throw core::usage_error(
          fmt::format("--mesh {}: is of more ranks than any run has", fmt::join(mesh_, ",")));
    }
    for (const std::string& name : replicated_) mark_replicated(axes, name);
    if (axes.empty()) return {};
    if (replicated_.empty()) {
      throw core::usage_error("--mesh: says nothing of replicas",
                              "name the axes along which all parameters are: --replicated dp");
    }
    const auto refuse = [text = fmt::format("{}", fmt::join(mesh_, ",")),
                         ranks](std::uint32_t ran) {
      throw core::usage_error(
          fmt::format("--mesh {}: is of {} ranks, and the run had {}", text, ranks, ran),
          "give every axis, the one that varies fastest from rank to rank last");
    };
    if (expected > 0 && ranks != expected) refuse(expected);
    return [axes, ranks, refuse](std::uint32_t rank) {
      if (rank >= ranks) refuse(rank + 1);
      return replicas_of(rank, axes);
    };
  }

 private:
  std::vector<std::string> mesh_ = value(&mesh_, "--mesh AXIS=RANKS", {.commas = true});
  std::vector<std::string> replicated_ = value(&replicated_, "--replicated AXIS", {.commas = true});
};

class RanksCommand final : public Command {
 public:
  RanksCommand() : Command({"ranks", "Check whether the replicas of a distributed run agree"}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    report_.check_output();
    require_rank_formats(report_);
    const RankRange asked = ranks_.range();
    std::uint32_t expected = 0;
    for (const std::string& dump : dumps_) {
      expected = std::max(expected, expected_ranks(dump));
    }
    const auto open = [](const std::string& location) { return store::open_dump(location); };
    const core::ExitCode code = emit_ranks(
        comparators::read_ranks(
            recordings_of(dumps_, asked), open, expected, asked, mesh_.declared(expected)),
        dumps_,
        report_,
        globals);
    configs::AuditSpec audit;
    audit.fail_on = audit_failure(audit_fail_on_);
    if (dumps_.size() == 1)
      return tell_of_audit(code, dumps_.front(), {audit, AlreadyTold::kRanks});
    return code;
  }

 private:
  std::vector<std::string> dumps_ =
      value(&dumps_, "dumps DUMP", {.takes = Takes::kDump, .required = true});
  RankRangeFlag ranks_ = group(&ranks_);
  RankMeshFlags mesh_ = group(&mesh_);
  std::string audit_fail_on_ =
      word(&audit_fail_on_, "--audit-fail-on suspicion|proof|never", "never");
  ReportFlags report_ = group(&report_);
};

}  // namespace

std::unique_ptr<Command> ranks_command() { return std::make_unique<RanksCommand>(); }

}  // namespace repro_check::cmd
