// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// Made by `scripts/program-records` (target `update_program_records`) from program_records.json.

namespace repro_check::core {

/// The samples that a `DataLoader` takes for the next batch. Its line is where the loader was made.
inline constexpr std::string_view kOrderRecord = "repro_check::order";
/// `order`: their numbers, if they have any (for a `Subset`, the numbers in the whole dataset).
inline constexpr std::string_view kOrderSamples = "samples";
/// `order`: its type, or `IterableDataset`.
inline constexpr std::string_view kSampler = "sampler";
/// `order`: which one.
inline constexpr std::string_view kOrderLoader = "loader";
/// `order`: how often it was iterated before.
inline constexpr std::string_view kOrderEpoch = "epoch";
/// `order`: how many.
inline constexpr std::string_view kOrderWorkers = "workers";
/// `order`: with workers: numbers, texts and truth values of the dataset that were set since its
/// workers began, by name: `epoch, transform.step`.
inline constexpr std::string_view kOrderUnseen = "unseen";
/// What a `DataLoader` returned, by path.
inline constexpr std::string_view kBatchRecord = "repro_check::batch";
/// `batch`: two halves of a digest for each sample in host memory.
inline constexpr std::string_view kSampleDigests = "sample_digests";
/// `batch`: a digest of the state of Python's `random` (`generator.numpy`: of NumPy's global
/// generator).
inline constexpr std::string_view kGeneratorPrefix = "generator.";
/// `batch`: the lines between which that state changed since the previous record: `train.py:16 and
/// train.py:18`.
inline constexpr std::string_view kMovedPrefix = "moved.";
/// A tensor that the program saves or turns into a list, and that no operator wrote or read.
inline constexpr std::string_view kReadRecord = "repro_check::read";
inline constexpr std::string_view kOnlyTensor = "tensor";
/// A tensor after `apply_`, `map_` or `map2_`, and a storage after `byteswap`: these write without
/// an operator.
inline constexpr std::string_view kWrittenRecord = "repro_check::written";
/// In a dump that `import` made: a tensor of a file. Its module is its name.
inline constexpr std::string_view kTensorRecord = "repro_check::tensor";
/// The tensor on which `backward()` was called.
inline constexpr std::string_view kLossRecord = "repro_check::loss";
/// `loss`: its number is kept at every level.
inline constexpr std::string_view kLossValues = "loss";
/// Gradients were clipped by their norm.
inline constexpr std::string_view kClipRecord = "repro_check::clip_grad";
/// `clip_grad`: computed by `clip_grad_norm_` or given to `clip_grads_with_norm_`.
inline constexpr std::string_view kClippedNorm = "norm";
inline constexpr std::string_view kClippedMaxNorm = "max_norm";
/// `clip_grad`: if it is known.
inline constexpr std::string_view kClippedNormType = "norm_type";
/// `clip_grad`: if the ranks computed the norm together.
inline constexpr std::string_view kClippedByAll = "all_ranks";
/// `clip_grad`: the L2 norm of this rank's part of a gradient; after the bar, the axes of the mesh
/// along which it is split: `local.head.weight@0:1/2|dp`.
inline constexpr std::string_view kLocalNormPrefix = "local.";
/// `clip_grad`: the number of these elements.
inline constexpr std::string_view kLocalElements = "local_elements";
/// `clip_grad`: the coarsest machine epsilon.
inline constexpr std::string_view kLocalEpsilon = "local_epsilon";
/// An update of a loss scale, after the step that it was for.
inline constexpr std::string_view kScalerRecord = "repro_check::grad_scaler";
/// `grad_scaler`: by optimizer and device; if it is not 0, the step was skipped.
inline constexpr std::string_view kFoundInfPrefix = "found_inf";
/// What code that `torch.compile` made is given. The fused operators and the compiler's own
/// operators are not recorded.
inline constexpr std::string_view kRegionInputsRecord = "repro_check::region_inputs";
inline constexpr std::string_view kInputValues = "input";
/// `region_inputs`: a digest of what the region computes.
inline constexpr std::string_view kRegionGraph = "graph";
/// `region_inputs`: where it begins: `model.py:40`.
inline constexpr std::string_view kRegionLine = "line";
/// `region_inputs`: of the program, that was compiled.
inline constexpr std::string_view kRegionFunction = "function";
/// What such code returns.
inline constexpr std::string_view kRegionRecord = "repro_check::region_outputs";
/// `region_outputs`: the number of operators in it, where code was generated for them: it has
/// written all that is returned.
inline constexpr std::string_view kRegionOperators = "operators";
inline constexpr std::string_view kOutputValues = "output";
/// `region_outputs`: the operator of the region that gives it.
inline constexpr std::string_view kRegionMaker = "maker.";
/// With the key `compile`, where operators are called one by one: what an operator of a region
/// gives.
inline constexpr std::string_view kRegionNodeRecord = "repro_check::region_node";
inline constexpr std::string_view kNodeValues = "value";
/// `region_node`: its name in the region.
inline constexpr std::string_view kRegionNode = "node";
/// `region_node`: the function.
inline constexpr std::string_view kRegionOperator = "operator";
/// `region_node`: that calls it.
inline constexpr std::string_view kRegionModule = "module";
/// With the key `compile`: the gradient of a tensor that a region is given or returns.
inline constexpr std::string_view kRegionGradientRecord = "repro_check::region_gradient";
inline constexpr std::string_view kGradientValues = "gradient";
/// `region_gradient`: its name at the border: `output[0]`.
inline constexpr std::string_view kRegionOf = "of";
/// At depth `blocks`, with values: what a block is given.
inline constexpr std::string_view kBlockInputs = "repro_check::block_inputs";
/// What it returns.
inline constexpr std::string_view kBlockOutputs = "repro_check::block_outputs";
/// What a step of an optimizer left.
inline constexpr std::string_view kStepRecord = "repro_check::optimizer_step";
/// `optimizer_step`: a learning rate.
inline constexpr std::string_view kLearningRatePrefix = "lr[";
/// `optimizer_step`: another number among the options.
inline constexpr std::string_view kOptionPrefix = "option.";
/// `optimizer_step`: a parameter's gradient.
inline constexpr std::string_view kGradientPrefix = "grad.";
/// `optimizer_step`: a tensor of the optimizer.
inline constexpr std::string_view kStatePrefix = "state.";
inline constexpr std::string_view kParameterPrefix = "param.";
/// `optimizer_step`: the L2 norm of all gradients.
inline constexpr std::string_view kGradientNorm = "grad_norm";
/// `optimizer_step`: 64 sums over all parameters with random signs.
inline constexpr std::string_view kParameterSketch = "param_sketch";
/// A process group of `torch.distributed`. A later one may have the name of one that is gone.
inline constexpr std::string_view kGroupRecord = "repro_check::group";
inline constexpr std::string_view kGroupName = "name";
/// `group`: in the order of the group.
inline constexpr std::string_view kGroupRanks = "ranks";
/// Recorded before a rank enters a collective, sends or receives, so it is there even if the other
/// ranks never come.
inline constexpr std::string_view kCollectiveRecord = "repro_check::collective";
inline constexpr std::string_view kCollectiveName = "operator";
/// `collective`: dtypes and sizes: `float32 [4], int64 [2, 3]`.
inline constexpr std::string_view kCollectiveTensors = "tensors";
/// `collective`: its name, if it is known.
inline constexpr std::string_view kCollectiveGroup = "group";
inline constexpr std::string_view kCollectiveRoot = "root";
/// `collective`: `SUM`.
inline constexpr std::string_view kCollectiveReduceOp = "reduce_op";
/// `collective`: of an all_to_all, the number of elements for each rank (empty: equal parts).
inline constexpr std::string_view kCollectiveSends = "sends";
/// `collective`: and from each.
inline constexpr std::string_view kCollectiveReceives = "receives";
/// `collective`: of a message, the receiver's place in the group.
inline constexpr std::string_view kMessageTo = "to";
/// `collective`: or the sender's; without both, from any rank.
inline constexpr std::string_view kMessageFrom = "from";
inline constexpr std::string_view kMessageTag = "tag";
/// `collective`: its number in its group, from 1; collectives and messages are numbered apart.
inline constexpr std::string_view kCollectiveSequence = "sequence";
/// On several ranks: this rank's part of a `DTensor`. Names have the part and, after the bar, the
/// ranks that hold the same.
inline constexpr std::string_view kPlacedRecord = "repro_check::placed";
/// `placed`: made from a plain tensor.
inline constexpr std::string_view kEnters = "enters";
/// On several ranks: what a replica has when the first forward pass of a step begins.
inline constexpr std::string_view kReplicaRecord = "repro_check::replica";
inline constexpr std::string_view kBufferPrefix = "buffer.";
/// `replica`: 0 if the call did not come through the module's wrapper.
inline constexpr std::string_view kThroughWrapper = "through_wrapper";
/// With `--checkpoints`: a checkpoint, or the state of the training at one moment. Only `diff
/// --resume` reads these records.
inline constexpr std::string_view kCheckpointRecords = "repro_check::checkpoint_";
inline constexpr std::string_view kSavedMoment = "saved";
inline constexpr std::string_view kLoadedMoment = "loaded";
inline constexpr std::string_view kRestoredMoment = "restored";
inline constexpr std::string_view kSaveMoment = "at_save";
inline constexpr std::string_view kIteratorMoment = "at_iterator";
inline constexpr std::string_view kBatchMoment = "at_batch";
inline constexpr std::string_view kForwardMoment = "at_forward";
inline constexpr std::string_view kBackwardMoment = "at_backward";
inline constexpr std::string_view kStepMoment = "at_step";
inline constexpr std::string_view kEndMoment = "at_end";
inline constexpr std::string_view kSavedParameter = "parameter.";
/// `checkpoint_`: of a module that is not trained.
inline constexpr std::string_view kSavedModule = "module.";
inline constexpr std::string_view kSavedOptimizer = "optimizer.";
inline constexpr std::string_view kSavedCount = "count.";
inline constexpr std::string_view kSavedSchedule = "schedule";
inline constexpr std::string_view kSavedScaler = "scaler";
inline constexpr std::string_view kSavedIterator = "loader.iterator";
inline constexpr std::string_view kSavedPosition = "loader.position";
inline constexpr char kShardMark = '@';
inline constexpr char kHoldersMark = '|';
/// Before the kind of a key that a compiled function had in it before it was called: `constant
/// key<fry>`.
inline constexpr std::string_view kConstantKey = "constant ";
/// Between two lines: `train.py:16 and train.py:18`.
inline constexpr std::string_view kBothLines = " and ";
/// In place of a sampler, if the dataset has an order of its own.
inline constexpr std::string_view kIterableDataset = "IterableDataset";
/// After the class, before the lane, in the name of a root module that the main thread does not
/// call: `Linear@main:0`.
inline constexpr char kLaneMark = '@';
/// Before a function that the program called, and that no seed pins.
inline constexpr std::string_view kUnpinned = "unpinned.";
/// Before one that would not repeat and was given the run's seed.
inline constexpr std::string_view kPinned = "pinned.";
/// Before one that sets a seed or makes kernels deterministic.
inline constexpr std::string_view kSetByProgram = "set.";
/// The same: at which lines; another line is no other value.
inline constexpr std::string_view kSetAt = "set_at.";
/// Before `generator.random`: its state at the end.
inline constexpr std::string_view kStateAtEnd = "end.";
/// Before a parameter that gets gradients, is in no optimizer, and is not moved by the program.
inline constexpr std::string_view kUntrained = "untrained.";
/// `jax`: whose calls were recorded, where they are not PyTorch's operators.
inline constexpr std::string_view kFramework = "framework";
/// The operators of worker processes of data loaders were recorded.
inline constexpr std::string_view kWorkers = "data.workers";
/// Before version 1.4: the exception that ended the program.
inline constexpr std::string_view kRaised = "process.ended_by";
/// The first line of the exception that ended a rank, without what may be a secret.
inline constexpr std::string_view kRaisedText = "process.ended_text";
/// Before all that follow: which of several ranks a process is, and what they share.
inline constexpr std::string_view kOfRank = "distributed.";
/// The process's rank.
inline constexpr std::string_view kRank = "distributed.rank";
/// How many ranks there are.
inline constexpr std::string_view kRanks = "distributed.ranks";
/// The class that makes replicas of a module: its parameters must be equal on all ranks.
inline constexpr std::string_view kReplicaWrapper = "distributed.wrapper";
/// The ranks that have them, if these are not all: `0,2`.
inline constexpr std::string_view kReplicas = "distributed.replicas";
/// Wrappers replicate on several groups of ranks; which module on which is not known.
inline constexpr std::string_view kReplicaGroups = "distributed.wrappers";
/// Before a parameter of an optimizer that no wrapper replicates, if there is a wrapper.
inline constexpr std::string_view kUnwrapped = "distributed.unwrapped.";
/// Before a distributed tensor: the ranks that share it, if these are not all.
inline constexpr std::string_view kMesh = "distributed.mesh.";
/// Before a number, from 0: how many steps the rank had made when it left a `join()` context.
inline constexpr std::string_view kJoined = "distributed.joined.";
/// The class that averages parameters now and then, in place of gradients.
inline constexpr std::string_view kAverager = "distributed.averager";
/// How many ranks the process stands for alone: `fake` process groups.
inline constexpr std::string_view kSimulatedRanks = "distributed.simulated";
/// Collectives were not waited for: their results are recorded where they are read.
inline constexpr std::string_view kNoSync = "distributed.no_sync";

}  // namespace repro_check::core
