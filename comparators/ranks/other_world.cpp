// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/other_world.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <variant>

#include "comparators/measure/records.h"
#include "comparators/ranks/rank_roots.h"
#include "comparators/ranks/ranks.h"
#include "comparators/report/report.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

bool is_whole_parameter(const core::OpRecord& record, const core::Argument& argument) {
  const auto* slot = std::get_if<core::TensorSlot>(&argument.value.data);
  return slot != nullptr && slot->index < record.tensors.size() &&
         record.tensors[slot->index].state == core::ContentState::kHashed &&
         argument.name.starts_with(core::kParameterPrefix) && part_of(argument.name).empty();
}

/// What one of the recordings says.
struct Told {
  std::optional<std::uint64_t> beginning;  ///< op index of what is there before the first step
  std::size_t whole = 0;                   ///< parameters of that which are compared
  std::size_t parts = 0;                   ///< and those that are not
  std::map<std::uint32_t, std::vector<std::uint64_t>> losses;  ///< op indices by step
  /// By step, what loaders handed out and what went into the model: either may be unknown.
  std::array<std::vector<StepInputs>, 2> inputs;
  /// The first step in which gradients were reduced over the ranks.
  std::optional<std::uint32_t> reduced;
};

void read_beginning(const core::OpRecord& record, Told& told) {
  told.beginning = record.index;
  for (const core::Argument& argument : record.arguments) {
    if (!argument.name.starts_with(core::kParameterPrefix)) continue;
    ++(is_whole_parameter(record, argument) ? told.whole : told.parts);
  }
}

Told read_told(const core::DumpSource& dump) {
  Told told;
  InputReader batches;
  InputReader inputs;
  bool stepped = false;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord head = dump.op_head(i);
    const std::string_view name = head.op->name;
    if (name == core::kStepRecord) stepped = true;
    if (name == core::kLossRecord) told.losses[head.step].push_back(i);
    if (name == core::kBatchRecord) batches.read(dump.op(i));
    if (!told.reduced && head.phase == core::Phase::kReduce) told.reduced = head.step;
    if (name != core::kReplicaRecord) continue;
    const core::OpRecord record = dump.op(i);
    inputs.read(record);
    if (!stepped && !told.beginning) read_beginning(record, told);
  }
  told.inputs = {batches.digests(), inputs.digests()};
  return told;
}

void take_beginning(const Told& here, const Told& there, CommonOfWorlds& common) {
  if (here.whole > 0 && there.whole > 0) {
    common.baseline.push_back(*here.beginning);
    common.candidate.push_back(*there.beginning);
    common.said.push_back(Phrase("compared-parameters", {{"parameters", here.whole}}));
  } else if (here.parts + there.parts == 0) {
    common.said.emplace_back("parameters-not-recorded");
  }
  if (here.parts + there.parts > 0) {
    common.said.push_back(
        Phrase("parameters-in-parts", {{"parameters", std::max(here.parts, there.parts)}}));
  }
}

/// Why losses of a step need not be alike; null where they have to be.
std::optional<Phrase> apart(const Told& here, const Told& there, std::uint32_t step) {
  for (const Told* told : {&here, &there}) {
    if (told->reduced && step > *told->reduced) {
      return Phrase("gradients-reduced-in", {{"step", *told->reduced}});
    }
  }
  bool is_known = false;
  for (std::size_t kind = 0; kind < here.inputs.size(); ++kind) {
    const auto one = std::ranges::find(here.inputs[kind], step, &StepInputs::step);
    const auto other = std::ranges::find(there.inputs[kind], step, &StepInputs::step);
    if (one == here.inputs[kind].end() || other == there.inputs[kind].end()) continue;
    is_known = true;
    if (one->digest != other->digest) {
      return Phrase("reads-other", {{"step", step}});
    }
  }
  if (is_known) return std::nullopt;
  return Phrase("reads-not-known", {{"step", step}});
}

void take_losses(const Told& here, const Told& there, CommonOfWorlds& common) {
  std::optional<Phrase> why;
  std::optional<std::uint32_t> last;
  for (const auto& [step, losses] : here.losses) {
    const auto others = there.losses.find(step);
    if (others == there.losses.end()) {
      why = Phrase("step-on-one-side", {{"step", step}});
    } else if (others->second.size() != losses.size()) {
      why = Phrase(
          "other-losses",
          {{"step", step}, {"baseline", losses.size()}, {"candidate", others->second.size()}});
    } else {
      why = apart(here, there, step);
    }
    if (why) break;
    common.baseline.insert(common.baseline.end(), losses.begin(), losses.end());
    common.candidate.insert(common.candidate.end(), others->second.begin(), others->second.end());
    last = step;
  }
  if (!why && there.losses.size() > here.losses.size()) {
    why =
        Phrase("further-steps-on-one-side", {{"steps", there.losses.size() - here.losses.size()}});
  }
  if (last) {
    const std::uint32_t first = here.losses.begin()->first;
    common.said.push_back(
        Phrase("compared-losses", {{"first", first}, {"last", *last}, {"is_one", first == *last}}));
  }
  if (here.losses.empty() && there.losses.empty()) why = Phrase("no-losses");
  if (why) {
    common.said.push_back(
        Phrase("losses-not-compared", {{"is_more", last.has_value()}, {"why", Phrases{*why}}}));
  }
}

}  // namespace

std::uint32_t ranks_of(const core::DumpSource& dump) {
  return number_fact(dump.manifest(), core::kRanks).value_or(1);
}

bool ran_on_as_many_ranks(const core::DumpSource& baseline, const core::DumpSource& candidate) {
  return ranks_of(baseline) == ranks_of(candidate);
}

CommonOfWorlds common_of_worlds(const core::DumpSource& baseline,
                                const core::DumpSource& candidate) {
  const Told here = read_told(baseline);
  const Told there = read_told(candidate);
  CommonOfWorlds common;
  common.said.push_back(
      Phrase("ran-on-other-ranks",
             {{"baseline", ranks_of(baseline)}, {"candidate", ranks_of(candidate)}}));
  take_beginning(here, there, common);
  take_losses(here, there, common);
  std::ranges::sort(common.baseline);
  std::ranges::sort(common.candidate);
  return common;
}

core::OpRecord whole_parameters(core::OpRecord record) {
  if (!record.op || record.op->name != core::kReplicaRecord) return record;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < record.arguments.size(); ++i) {
    if (is_whole_parameter(record, record.arguments[i])) places.push_back(i);
  }
  return with_values(record, places);
}

}  // namespace repro_check::comparators
