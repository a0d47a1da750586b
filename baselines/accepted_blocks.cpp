// SPDX-License-Identifier: Apache-2.0
#include "baselines/accepted_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/text/text.h"

namespace repro_check::baselines {
namespace {

/// What one of them alone has changes as well.
/// @param key    tells which belongs to which
/// @param value  what is compared
template <typename Item, typename Key, typename Value, typename Name>
std::string changed_of(const std::vector<Item>& accepted,
                       const std::vector<Item>& now,
                       std::string_view what,
                       Key key,
                       Value value,
                       Name name) {
  std::map<decltype(key(accepted.front())), const Item*> known;
  for (const Item& item : now) known.emplace(key(item), &item);
  std::uint64_t count = 0;
  std::string first;
  const auto note = [&](const Item& item) {
    if (count++ == 0) first = name(item);
  };
  for (const Item& item : accepted) {
    const auto found = known.find(key(item));
    if (found == known.end() || value(*found->second) != value(item)) note(item);
    if (found != known.end()) known.erase(found);
  }
  for (const auto& [unused, item] : known) note(*item);
  if (count == 0) return {};
  return fmt::format(
      "{} of {} {} change, first {}", count, std::max(accepted.size(), now.size()), what, first);
}

std::string steps_text(const AcceptedSteps& steps) {
  const std::string of_rank = steps.rank == 0 ? "" : fmt::format(" of rank {}", steps.rank);
  if (steps.width == 1) return fmt::format("step {}{}", steps.first, of_rank);
  return fmt::format("steps {} to {}{}", steps.first, steps.first + steps.width - 1, of_rank);
}

}  // namespace

void count_anew(AcceptedBlocks& blocks) {
  std::set<std::string> paths;
  for (const AcceptedCall& call : blocks.calls) paths.insert(call.row.path);
  blocks.blocks = paths.size();
  blocks.call_count = blocks.calls.size();
  blocks.parameter_count = blocks.parameters.size();
}

AcceptedBlocks blocks_in(const core::DumpSource& dump) {
  AcceptedBlocks blocks;
  for (std::uint64_t i = 0; i < dump.block_count(); ++i) {
    core::BlockRow row = dump.block(i);
    row.training = false;
    row.unopened = 0;
    blocks.calls.push_back({0, std::move(row)});
  }
  // Those on threads beside the main one, whose paths say so, have no order.
  const auto of_threads = std::ranges::stable_partition(blocks.calls, [](const AcceptedCall& call) {
    return call.row.path.find('@') == std::string::npos;
  });
  const auto place = [](const AcceptedCall& call) {
    return std::tie(call.row.step, call.row.phase, call.row.path, call.row.call);
  };
  std::ranges::sort(of_threads.begin(), of_threads.end(), {}, place);
  for (std::uint64_t i = 0; i < dump.parameter_count(); ++i) {
    blocks.parameters.push_back({0, dump.parameter(i)});
  }
  std::ranges::sort(blocks.parameters, {}, [](const AcceptedUpdate& update) {
    return std::tie(update.row.step, update.row.name);
  });
  count_anew(blocks);
  return blocks;
}

std::string describe_changes(const AcceptedBlocks& before, const AcceptedBlocks& after) {
  if (!before.folded.empty() || !after.folded.empty()) {
    return changed_of(
        before.folded,
        after.folded,
        before.folded.empty() || before.folded.front().width == 1 ? "steps" : "groups of steps",
        [](const AcceptedSteps& steps) { return std::pair(steps.rank, steps.first); },
        [](const AcceptedSteps& steps) { return steps.digest; },
        steps_text);
  }
  const auto when = [](const std::string& name, std::uint32_t step, std::string_view phase) {
    return fmt::format("{} (step {}, {})", name, step, phase);
  };
  const std::string calls = changed_of(
      before.calls,
      after.calls,
      "calls of blocks",
      [](const AcceptedCall& call) {
        const core::BlockRow& row = call.row;
        return std::tuple(row.step, row.phase, call.rank, row.path, row.call);
      },
      [](const AcceptedCall& call) { return call.row.out; },
      [&](const AcceptedCall& call) {
        return when(call.row.path, call.row.step, core::name_of(call.row.phase));
      });
  const std::string parameters = changed_of(
      before.parameters,
      after.parameters,
      "parameters behind steps",
      [](const AcceptedUpdate& of) { return std::tuple(of.row.step, of.rank, of.row.name); },
      [](const AcceptedUpdate& of) { return of.row.digest; },
      [&](const AcceptedUpdate& of) { return when(of.row.name, of.row.step, "optimizer"); });
  return calls + (calls.empty() || parameters.empty() ? "" : "; ") + parameters;
}

}  // namespace repro_check::baselines
