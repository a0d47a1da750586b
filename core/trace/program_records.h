// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/trace/op_record.h"

/// Records that stand for no operator of LibTorch. Results are what they are about, by the names
/// that their arguments have. An argument without a result follows from the results: it is said,
/// and compared by nobody.

namespace repro_check::core {

inline constexpr std::string_view kNamedPrefix = "repro_check::";
inline constexpr std::string_view kLossRecord = "repro_check::loss";
inline constexpr std::string_view kStepRecord = "repro_check::optimizer_step";
inline constexpr std::string_view kBatchRecord = "repro_check::batch";
/// What a program saves, or makes numbers of Python of, where no operator has written or read it.
inline constexpr std::string_view kReadRecord = "repro_check::read";
/// What a program has written with no operator (`Tensor.apply_`): later readers of the memory have
/// it from there.
inline constexpr std::string_view kWrittenRecord = "repro_check::written";
/// At depth blocks, and a level that keeps more than digests: what went into a call of a block
/// (`input[0]`), and what came out (`output[0]`), in the order of core::BorderDigest.
inline constexpr std::string_view kBlockInputs = "repro_check::block_inputs";
inline constexpr std::string_view kBlockOutputs = "repro_check::block_outputs";
/// What one of several replicas has when the first forward pass of a step begins: `input[0]`,
/// `param.NAME`, `buffer.NAME`.
inline constexpr std::string_view kReplicaRecord = "repro_check::replica";
/// Gradients were clipped by their norm.
inline constexpr std::string_view kClipRecord = "repro_check::clip_grad";
/// A loss scale was updated, behind the step that it was for: of each optimizer and device
/// `found_inf[0].cpu`, not 0 where that step was skipped, and the `scale` from here on.
inline constexpr std::string_view kScalerRecord = "repro_check::grad_scaler";
/// A tensor became part of one that lies on several ranks, or is a plain one again: what this rank
/// holds of it, by the way it goes, its part, and the ranks that hold the same, this one among
/// them: `enters|0,1`, `leaves@1:0/2|0`.
inline constexpr std::string_view kPlacedRecord = "repro_check::placed";
inline constexpr std::string_view kEnters = "enters";
/// A group of ranks that exchange something: its name and the ranks that are its members, in its
/// order. One that is made later may have the name of one that is gone.
inline constexpr std::string_view kGroupRecord = "repro_check::group";
inline constexpr std::string_view kGroupName = "name";
inline constexpr std::string_view kGroupRanks = "ranks";
/// A rank is about to enter a collective, to send, or to receive. Told before it waits for the
/// other ranks, who may never come.
inline constexpr std::string_view kCollectiveRecord = "repro_check::collective";
inline constexpr std::string_view kOrderRecord = "repro_check::order";
inline constexpr std::string_view kRegionRecord = "repro_check::region_outputs";

/// How records begin of what a program saved and loaded, and of
/// the state of its training around that. They are for a comparison of a resumed run with the run
/// that made its checkpoint, and pairs in none.
inline constexpr std::string_view kCheckpointRecords = "repro_check::checkpoint_";

// What they hold, by name.

/// Of kCollectiveRecord: the operator, dtypes and sizes of its tensors (`float32 [4], int64 [2,
/// 3]`), the name of its group (absent where nobody told it), and who in the group hands out or
/// gathers in, and what a reduction makes of its tensors (`SUM`). The sequence counts what this
/// rank entered in the group, from 1, collectives and messages apart.
inline constexpr std::string_view kCollectiveName = "operator";
inline constexpr std::string_view kCollectiveTensors = "tensors";
inline constexpr std::string_view kCollectiveGroup = "group";
inline constexpr std::string_view kCollectiveRoot = "root";
inline constexpr std::string_view kCollectiveReduceOp = "reduce_op";
inline constexpr std::string_view kCollectiveSequence = "sequence";
/// Of one in which each rank hands each its own part: how many elements it sends to each of the
/// group, and how many it makes room for from each; empty where all parts are equal.
inline constexpr std::string_view kCollectiveSends = "sends";
inline constexpr std::string_view kCollectiveReceives = "receives";
/// And of a message: its tag, and to which or from which place in the group; with neither it comes
/// from any.
inline constexpr std::string_view kMessageTag = "tag";
inline constexpr std::string_view kMessageTo = "to";
inline constexpr std::string_view kMessageFrom = "from";
/// Of kReplicaRecord, where the module has a wrapper: 0 where the forward pass did not come through
/// it.
inline constexpr std::string_view kThroughWrapper = "through_wrapper";
/// Of kClipRecord, beside `max_norm` and, where it is known, `norm_type`: the norm that it was done
/// by. As arguments beside them, where there are several ranks, what this one holds of each
/// gradient before it is clipped, `local.NAME`: its L2 norm, behind the name of a part the axes of
/// the mesh that it is a part along (`local.weight@0:1/2|dp`); of all of these how many elements,
/// and the coarsest machine epsilon.
inline constexpr std::string_view kClippedNorm = "norm";
inline constexpr std::string_view kClippedNormType = "norm_type";
inline constexpr std::string_view kLocalPrefix = "local";
inline constexpr std::string_view kLocalNormPrefix = "local.";
inline constexpr std::string_view kLocalElements = "local_elements";
inline constexpr std::string_view kLocalEpsilon = "local_epsilon";
inline constexpr char kAxesMark = '|';
/// Of one that the ranks made together of what each holds.
inline constexpr std::string_view kClippedByAll = "all_ranks";
/// Of kScalerRecord.
inline constexpr std::string_view kFoundInfPrefix = "found_inf";
/// Of kRegionRecord: how many operators were traced into the compiled code.
inline constexpr std::string_view kRegionOperators = "operators";
/// Of kOrderRecord, which is of what samples a loader makes the next batch, at the place where the
/// loader was made: their numbers in the dataset, where it has any. As arguments beside them the
/// type of what orders them, which loader it is, how often it was iterated before, and its workers.
inline constexpr std::string_view kOrderSamples = "samples";
inline constexpr std::string_view kSampler = "sampler";
inline constexpr std::string_view kOrderLoader = "loader";
inline constexpr std::string_view kOrderEpoch = "epoch";
inline constexpr std::string_view kOrderWorkers = "workers";
/// In the place of a sampler, where the dataset has an order of its own.
inline constexpr std::string_view kIterableDataset = "IterableDataset";
inline constexpr std::string_view kDistributedSampler = "DistributedSampler";
/// Of kBatchRecord, as an argument beside the batch: two halves of a digest for each of its
/// samples.
inline constexpr std::string_view kSampleDigests = "sample_digests";
/// Of kStepRecord, which is what a step of an optimizer left: learning rates `lr[0]`, other numbers
/// among its options `option.eps[0]`, `grad.NAME`, `state.NAME.exp_avg`, `param.NAME`, the L2 norm
/// of all gradients, a sketch of all parameters.
inline constexpr std::string_view kGradientNorm = "grad_norm";
inline constexpr std::string_view kParameterSketch = "param_sketch";
inline constexpr std::string_view kLearningRatePrefix = "lr[";
inline constexpr std::string_view kOptionPrefix = "option.";
inline constexpr std::string_view kGradientPrefix = "grad.";
inline constexpr std::string_view kParameterPrefix = "param.";
inline constexpr std::string_view kStatePrefix = "state.";
inline constexpr std::string_view kBufferPrefix = "buffer.";

/// In the name of a tensor of which a rank holds a part: `weight@0:1/2`, the second half along
/// dimension 0 of the mesh's axis that has two ranks.
inline constexpr char kShardMark = '@';
/// Behind it the ranks that hold the same: `|0,2`.
inline constexpr char kHoldersMark = '|';

/// Of kBatchRecord and kStepRecord, as arguments beside what they hold: the digest of the state of
/// a generator that no operator draws from, by name (`generator.random`, `generator.numpy`), and
/// between which lines it moved since the record before (`moved.random`). As facts of the
/// environment: whether it ever moved (`moved.random`), and its state at the end
/// (`end.generator.random`).
inline constexpr std::string_view kGeneratorPrefix = "generator.";
inline constexpr std::string_view kMovedPrefix = "moved.";
/// Between the two lines: `train.py:16 and train.py:18`.
inline constexpr std::string_view kBothLines = " and ";
inline constexpr std::string_view kStateAtEnd = "end.";

// Facts of the environment, by the function that the program called: what no seed pins, what would
// not repeat and was given the run's seed, and what sets seeds or makes kernels deterministic.
inline constexpr std::string_view kUnpinned = "unpinned.";
inline constexpr std::string_view kPinned = "pinned.";
inline constexpr std::string_view kSetByProgram = "set.";
/// Of the latter, at which lines: another place is no other value.
inline constexpr std::string_view kSetAt = "set_at.";
/// Of a process that is one of several: which, and how many there are.
inline constexpr std::string_view kRank = "distributed.rank";
inline constexpr std::string_view kRanks = "distributed.ranks";
/// Before version 1.4, which exception ended a program: see raised_text().
inline constexpr std::string_view kRaised = "process.ended_by";
/// The class that makes replicas of a module: its parameters must be equal on all ranks.
inline constexpr std::string_view kReplicaWrapper = "distributed.wrapper";
/// On which ranks, where these are not all: `0,2`.
inline constexpr std::string_view kReplicas = "distributed.replicas";
/// Wrappers keep parameters alike on several groups of ranks: on which which of them is not told.
inline constexpr std::string_view kReplicaGroups = "distributed.wrappers";
/// Before the name of a parameter of an optimizer that no wrapper keeps alike, where there is one.
inline constexpr std::string_view kUnwrapped = "distributed.unwrapped.";
/// Collectives were not waited for: what they give is recorded where it is read.
inline constexpr std::string_view kNoSync = "distributed.no_sync";
/// What worker processes of data loaders do was recorded.
inline constexpr std::string_view kWorkers = "data.workers";

/// The name of what a rank holds, of a tensor, or of what crosses: `weight@1:0/2|0,1`.
struct PlacedName {
  std::string_view whole;  ///< `weight`
  std::string_view part;   ///< `@1:0/2`; empty where it is no part
  std::string_view ranks;  ///< `|0,1`, or axes; empty where they are not told
};
PlacedName placed_name(std::string_view name) noexcept;

/// Behind the class, before the lane, in the name of a root module that the main thread does not
/// call: `Linear@main:0`.
inline constexpr char kLaneMark = '@';
/// What such roots are called once all lanes that call them are known, by their names until then.
using RootNames = std::map<std::string, std::string, std::less<>>;
/// The path of a module, or the name of a tensor of one, with its root named so.
std::string with_root(std::string text, const RootNames& names);

inline bool is_named_values(const OpHead& record) {
  return record.op && record.op->name.starts_with(kNamedPrefix);
}

inline bool is_of_checkpoint(const OperatorInfo& op) {
  return std::string_view(op.name).starts_with(kCheckpointRecords);
}

/// Whether its results come from other ranks: a collective, or a message.
inline bool is_of_ranks(const OperatorInfo& op) {
  return std::string_view(op.name).starts_with("c10d::") ||
         std::string_view(op.name).starts_with("_c10d_functional");
}

/// Of kernels that a program launches itself.
inline constexpr std::string_view kLaunched = "triton::";
inline bool is_launch(const OperatorInfo& op) {
  return std::string_view(op.name).starts_with(kLaunched);
}

/// Null where the record has none of this name. Borrowed.
inline const Value* find_argument(const OpRecord& record, std::string_view name) {
  const auto found = std::ranges::find(record.arguments, name, &Argument::name);
  return found == record.arguments.end() ? nullptr : &found->value;
}

/// What an argument holds, as a T: null where the record has none of this name, or holds something
/// else there. Borrowed.
template <typename T>
const T* argument_as(const OpRecord& record, std::string_view name) {
  const Value* value = find_argument(record, name);
  return value == nullptr ? nullptr : std::get_if<T>(&value->data);
}

/// The same as a value, `otherwise` where it is null.
template <typename T>
T argument_or(const OpRecord& record, std::string_view name, T otherwise = {}) {
  const T* value = argument_as<T>(record, name);
  return value == nullptr ? std::move(otherwise) : *value;
}

/// The items of a list, those that are a T; empty where the argument is no list.
template <typename T>
std::vector<T> list_argument(const OpRecord& record, std::string_view name) {
  std::vector<T> items;
  const auto* list = argument_as<ValueList>(record, name);
  if (list == nullptr) return items;
  items.reserve(list->items.size());
  for (const Value& item : list->items) {
    if (const T* each = std::get_if<T>(&item.data)) items.push_back(*each);
  }
  return items;
}

/// The number that a value is, or that the only element of its tensor is, where that is recorded.
/// @param value  of `record`
std::optional<double> number_in(const OpRecord& record, const Value& value);

/// Sums of a sketch: each element of the tensors stands in one of them, with a sign drawn for it.
inline constexpr std::size_t kSketchSums = 64;

/// How far apart the tensors of two sketches are: the L2 norm of their difference, of which the
/// standard deviation is a tenth or so. 0 where the sketches are equal; NaN where one holds NaN.
/// Source: M. Charikar, K. Chen, M. Farach-Colton, ICALP (2002).
/// @param baseline, candidate  of one length
double sketch_distance(std::span<const double> baseline, std::span<const double> candidate);

}  // namespace repro_check::core
