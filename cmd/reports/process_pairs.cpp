// SPDX-License-Identifier: Apache-2.0
#include "cmd/reports/process_pairs.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

using core::ChildProcess;
using Processes = std::vector<const ChildProcess*>;
using LeftOver = std::array<Processes, 2>;

std::string shown_process(const ChildProcess& process) {
  return core::printable(process.how.empty() ? process.name : process.how) + ": " +
         core::printable(process.command_line);
}

/// Takes those of one key out of both sides, in order, as far as both have some.
/// @param of_all  only where both have as many
template <typename Key>
void pair_by(const Key& key, bool of_all, LeftOver& left, ProcessPairs& found) {
  std::map<std::string, LeftOver> groups;
  for (std::size_t side = 0; side < left.size(); ++side) {
    for (const ChildProcess* process : left[side]) groups[key(*process)][side].push_back(process);
    left[side].clear();
  }
  for (auto& [ignored, group] : groups) {
    const std::size_t both = std::min(group[0].size(), group[1].size());
    const std::size_t paired = of_all && group[0].size() != group[1].size() ? 0 : both;
    for (std::size_t i = 0; i < paired; ++i) {
      found.pairs.push_back({group[0][i]->name, group[1][i]->name, group[0][i]->how});
    }
    for (std::size_t side = 0; side < left.size(); ++side) {
      left[side].insert(left[side].end(),
                        group[side].begin() + static_cast<std::ptrdiff_t>(paired),
                        group[side].end());
    }
  }
}

}  // namespace

ProcessPairs pair_processes(const std::vector<ChildProcess>& baseline,
                            const std::vector<ChildProcess>& candidate) {
  ProcessPairs found;
  LeftOver left;
  for (std::size_t side = 0; side < left.size(); ++side) {
    for (const ChildProcess& process : side == 0 ? baseline : candidate) {
      if (process.recorded) {
        left[side].push_back(&process);
      } else {
        found.reasons.push_back(comparators::Phrase(
            "process-not-recorded",
            {{"run", comparators::run_field(side == 0)}, {"process", shown_process(process)}}));
      }
    }
  }
  pair_by(
      [](const ChildProcess& it) { return it.how + '\0' + it.command_line; }, false, left, found);
  pair_by([](const ChildProcess& it) { return it.how; }, true, left, found);
  for (std::size_t side = 0; side < left.size(); ++side) {
    for (const ChildProcess* process : left[side]) {
      found.reasons.push_back(comparators::Phrase("process-in-one-run",
                                                  {{"run", comparators::run_field(side == 0)},
                                                   {"operators", process->operators},
                                                   {"process", shown_process(*process)}}));
    }
  }
  // In the order in which the baseline made them: `proc-2` before `proc-10`.
  std::ranges::sort(found.pairs, {}, [](const ProcessPair& pair) {
    return std::pair(pair.baseline.size(), pair.baseline);
  });
  return found;
}

}  // namespace repro_check::cmd
