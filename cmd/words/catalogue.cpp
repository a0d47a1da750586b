// SPDX-License-Identifier: Apache-2.0
#include "cmd/words/catalogue.h"

#include <array>
#include <cstddef>

namespace repro_check::cmd {
namespace {

using Id = comparators::FindingId;

constexpr std::size_t kRows = static_cast<std::size_t>(comparators::kLastFinding) + 1;

// Phrases that several rows have.
#define EXCHANGE                                                                              \
  "[collective {collective} of group {group} ({ranks:*rank})]"                                \
  "[message {message} from rank {from} to rank {to}, of group {group} ({ranks:*rank}), tag {" \
  "tag}]"
#define CALL "{operator}[ {tensors}][ root {root}][ {reduce_op}][ ({line})]"
#define OTHER_CALL \
  "{other_operator}[ {other_tensors}][ root {other_root}][ {other_reduce_op}][ ({other_line})]"
#define END_OF_MISSING                              \
  "[; the last operator there was {last_operator}]" \
  "[; {raised} ended rank {missing_rank}]"          \
  "[{?came_to_its_end}; rank {missing_rank} reached its end without it]"
#define SAME_GRADIENTS                                                     \
  "[{?gradients}the gradients are the same on all ranks]"                  \
  "[{!gradients}no gradient of this step could be compared between ranks]" \
  "[{?from_the_start}; this is so from the first step on]"
#define OTHER_NORM                                                                         \
  "at step {step} it is {norm:exact} on every rank, and the norm over all gradients, put " \
  "together by placement, is {right:exact}"                                                \
  "[; it is the norm of what rank {own_of} holds]"                                         \
  "[; it leaves out the part {without} that rank {without_of} holds]"                      \
  "[{!without}; it leaves out what rank {without_of} holds whole]"
#define SUM_SQUARES                                                                             \
  "sum the squares of each shard once, over the ranks that hold them, and the squares of what " \
  "all ranks hold once; get_total_norm() of DTensors does so"
#define FEWER_STEPS "{least:step} on rank {rank} and {most} on rank {other_rank}"
#define UNCOMPARED ": steps after the shorter run were not compared"

constexpr std::array<FindingRow, kRows> kCatalogue{{
    {Id::kInitialWeightsDiffer,
     "initial-weights-differ",
     FindingTable::kReplicas,
     "proof",
     "initial weights not synchronised",
     "the replicas do not start from the same weights",
     "broadcast the parameters and buffers of rank 0 before the first step; "
     "DistributedDataParallel does so unless init_sync=False",
     "parameters differ before step 0"},
    {Id::kWeightsWrittenBetweenSteps,
     "weights-written-between-steps",
     FindingTable::kReplicas,
     "proof",
     "weights written outside the optimizer",
     "the step before left them equal, and they differ when this forward pass begins",
     "look for code that writes parameters between two steps on one rank alone: loading a "
     "checkpoint, clipping or averaging weights, code under `if rank == 0`",
     "parameters differ when a later forward pass begins"},
    {Id::kStatisticsDrift,
     "running-statistics-drift",
     FindingTable::kReplicas,
     "proof",
     "running statistics drift apart",
     "[{?wrapper}buffers are not broadcast before the forward pass]"
     "[{!wrapper}nothing broadcasts buffers before the forward pass]",
     "[{?wrapper}leave broadcast_buffers of DistributedDataParallel on, or use SyncBatchNorm]"
     "[{!wrapper}use SyncBatchNorm, or broadcast the buffers of one rank before each step]",
     "buffers differ when a forward pass begins: `broadcast_buffers=False`, or no wrapper"},
    {Id::kActivationsFromOtherData,
     "tensor-parallel-other-data",
     FindingTable::kReplicas,
     "proof",
     "activations differ outside of tensor parallelism",
     "these ranks work on parts of the same tensors, and read different data",
     "give all ranks of a tensor parallel group the same batches: seed and shard the data by the "
     "rank along the data parallel axis alone",
     "activations differ after different batches within a tensor parallel group"},
    {Id::kActivationsFromOtherDraws,
     "tensor-parallel-other-draws",
     FindingTable::kReplicas,
     "proof",
     "activations differ outside of tensor parallelism",
     "these ranks read the same data, and drew different random numbers before it",
     "seed the ranks of a tensor parallel group alike for operators outside of the parts, such as "
     "dropout, and by rank only for operators on a part",
     "activations differ after different random numbers"},
    {Id::kActivationsDiffer,
     "tensor-parallel-activations-differ",
     FindingTable::kReplicas,
     "proof",
     "activations differ outside of tensor parallelism",
     "these ranks read the same data and drew the same random numbers",
     "look for a difference before it: weights that are not the same on all ranks of the group, a "
     "sum that some of them leave out, code under `if rank == 0`",
     "activations differ, and neither data nor random numbers do"},
    {Id::kClippedInParts,
     "clipped-by-norms-of-parts",
     FindingTable::kReplicas,
     "proof",
     "gradients are clipped by different norms",
     "ranks agree within each slice, and slices clip differently",
     "look for a norm that is not computed over all ranks, and for different values of max_norm",
     "the norm differs between slices whose ranks agree"},
    {Id::kClippedToOtherNorms,
     "clipped-to-other-norms",
     FindingTable::kReplicas,
     "proof",
     "gradients are clipped to different norms",
     "the norm of the gradients is the same on all ranks",
     "give clip_grad_norm_() the same max_norm and norm_type on every rank",
     "`max_norm` or `norm_type` differ"},
    {Id::kClippedOtherParameters,
     "clipped-other-parameters",
     FindingTable::kReplicas,
     "proof",
     "gradients are clipped by different norms",
     "the ranks do not clip the same parameters",
     "clip the same parameters on every rank, by the norm over all of them",
     "the ranks clip different parameters"},
    {Id::kClippedBeforeReduction,
     "clipped-before-reduction",
     FindingTable::kReplicas,
     "proof",
     "gradients are clipped by different norms",
     "the gradients are not the same on all ranks before they are clipped",
     "reduce the gradients before their norm is computed",
     "gradients differ before they are clipped"},
    {Id::kClippedByOwnNorm,
     "clipped-by-own-norm",
     FindingTable::kReplicas,
     "proof",
     "gradients are clipped by different norms",
     "gradients that several ranks hold are equal before they are clipped, so each rank computed "
     "the norm of what it holds itself",
     "clip by the norm over all shards: sum the squares over the ranks that hold them, or leave "
     "that to DTensor, or to clip_grad_norm_() of FullyShardedDataParallel",
     "gradients agree before they are clipped, and the norm does not"},
    {Id::kScaledByOwnNorm,
     "scaled-by-own-norm",
     FindingTable::kReplicas,
     "proof",
     "gradients are clipped by different norms",
     "the gradients were the same on all ranks until they were multiplied by a factor that is "
     "computed from a norm",
     "clip by the norm over all shards: sum the squares over the ranks that hold them",
     "gradients agree until they are multiplied by a factor that is computed from a norm"},
    {Id::kLossScalesDiffer,
     "loss-scales-differ",
     FindingTable::kReplicas,
     "proof",
     "loss scales differ",
     "the ranks skip the same steps",
     "load the state of the scaler on every rank, and update it on all of them alike",
     "the scale of a `GradScaler` differs"},
    {Id::kOverflowNotReduced,
     "overflow-not-reduced",
     FindingTable::kReplicas,
     "proof",
     "skipped steps differ",
     "found_inf was not reduced: the ranks whose gradients overflow skip the step, and the others "
     "make it",
     "let every rank know of an overflow on any rank: reduce the gradients before unscale_(), or "
     "found_inf itself where each rank holds a part of them (ShardedGradScaler)",
     "`found_inf` differs. The odd rank is the one that overflowed"},
    {Id::kReducedInParts,
     "reduced-in-parts",
     FindingTable::kReplicas,
     "proof",
     "gradients not reduced",
     "ranks agree within each slice, and slices have different gradients",
     "look for a reduction that does not reach all ranks: a group with the ranks of one machine "
     "alone, or a parameter that it leaves out",
     "gradients differ between slices whose ranks agree"},
    {Id::kClippedOnSomeRanks,
     "clipped-on-some-ranks",
     FindingTable::kReplicas,
     "proof",
     "gradients are clipped on some ranks alone",
     "in this step some ranks clip their gradients, and others do not",
     "clip on all ranks or on none: look for a condition on the rank, or on a value that is not "
     "the same on all of them",
     "some ranks clip in a step in which others do not"},
    {Id::kStepSkippedOnSomeRanks,
     "step-skipped-on-some-ranks",
     FindingTable::kReplicas,
     "proof",
     "the optimizer skipped a step on some ranks",
     "the ranks made different numbers of backward passes before this step of their optimizers",
     "step the optimizer on all ranks or on none: look for a condition on the loss or the data, or "
     "an exception that one rank catches",
     "ranks made different numbers of backward passes for a step"},
    {Id::kChangedBehindReduction,
     "gradients-changed-behind-reduction",
     FindingTable::kReplicas,
     "proof",
     "gradients changed after their reduction",
     "a collective gave all ranks the same, and their optimizers read something different",
     "change gradients in the same way on every rank between the reduction and the step: look for "
     "a different divisor, a scale, a clip or weight decay on some ranks alone, and for a "
     "communication hook that computes differently there",
     "a collective gave all ranks the same. The first operator after it that they do not share is "
     "named"},
    {Id::kChangedBehindBackward,
     "gradients-changed-behind-backward",
     FindingTable::kReplicas,
     "proof",
     "gradients changed after the backward pass",
     "the backward pass gave all ranks the same, and their optimizers read something different",
     "change gradients in the same way on every rank between the backward pass and the step: look "
     "for a scale, a clip or weight decay on some ranks alone",
     "the same without a collective, as under tensor parallelism"},
    {Id::kCalledPastWrapper,
     "called-past-wrapper",
     FindingTable::kReplicas,
     "proof",
     "the model was called past its wrapper",
     "the forward pass of this step did not go through DistributedDataParallel, which reduces "
     "gradients only of passes that do",
     "call the wrapper itself, not wrapper.module or the module that it was made from",
     "a forward pass did not go through `DistributedDataParallel`"},
    {Id::kPartialGradients,
     "partial-gradients-of-replicas",
     FindingTable::kReplicas,
     "proof",
     "replicated weights with partial gradients",
     "beside them each rank holds its own part of other parameters, and their gradient on each "
     "rank is that of its part alone",
     "sum their gradients over the ranks that share the work before the optimizer reads them, as "
     "sequence parallelism needs for the weights of norms, or distribute the module with "
     "torch.distributed.tensor.parallel",
     "gradients differ beside parameters of which each rank holds its own part"},
    {Id::kGradientsOfSomeRanksDiffer,
     "gradients-of-some-ranks-differ",
     FindingTable::kReplicas,
     "proof",
     "gradients of some ranks differ",
     "the other ranks, which read different data, have the same gradients",
     "look for code that changes gradients on these ranks after the reduction, and for a reduction "
     "that leaves these ranks out",
     "all gradients of some ranks differ, and others agree"},
    {Id::kUnusedParameters,
     "unused-parameters-block-reduction",
     FindingTable::kReplicas,
     "proof",
     "gradients not reduced",
     "no gradient is the same on all ranks when the optimizer reads it, and some parameters have "
     "none: DistributedDataParallel waits for these and reduces nothing",
     "set find_unused_parameters=True of DistributedDataParallel where a pass leaves parameters "
     "out, and run the last micro-batch of a step outside of no_sync()",
     "all gradients differ under a wrapper, and some parameters have none"},
    {Id::kGradientsNotReduced,
     "gradients-not-reduced",
     FindingTable::kReplicas,
     "proof",
     "gradients not reduced",
     "no gradient is the same on all ranks when the optimizer reads it",
     "[{?wrapper}run the last micro-batch of a step outside of no_sync(), and call the model by "
     "its wrapper]"
     "[{!wrapper}average every gradient over all ranks after the last backward pass of a step "
     "(all_reduce), or let DistributedDataParallel do it]",
     "all gradients differ: `no_sync()` around the last micro-batch, or no reduction at all"},
    {Id::kGradientsMissing,
     "gradients-missing-on-some-ranks",
     FindingTable::kReplicas,
     "proof",
     "some gradients not reduced",
     "the others are the same on all ranks when the optimizer reads them, and on some ranks "
     "parameters have no gradient",
     "look for code that clears gradients on one rank alone, and for parameters that a pass leaves "
     "out there (find_unused_parameters)",
     "some gradients differ, and on some ranks parameters have no gradient"},
    {Id::kSomeGradientsNotReduced,
     "some-gradients-not-reduced",
     FindingTable::kReplicas,
     "proof",
     "some gradients not reduced",
     "the others are the same on all ranks when the optimizer reads them",
     "look for parameters that the reduction leaves out: replaced after wrapping, unused in some "
     "passes (find_unused_parameters), or skipped by a condition; and for code that changes "
     "gradients after it on one rank alone",
     "some gradients differ. Where gradients are clipped, those that differed before are named"},
    {Id::kParameterGroupsDiffer,
     "parameter-groups-differ",
     FindingTable::kReplicas,
     "proof",
     "the optimizers have different parameter groups",
     SAME_GRADIENTS,
     "make the optimizer with the same parameter groups on every rank",
     "optimizers have different numbers of parameter groups"},
    {Id::kLearningRatesDiffer,
     "learning-rates-differ",
     FindingTable::kReplicas,
     "proof",
     "learning rates differ",
     SAME_GRADIENTS,
     "[{?from_the_start}make the optimizer with the same lr on every rank]"
     "[{!from_the_start}step the scheduler on every rank, and load its state on all of them]",
     "from the first step on a different `lr` of the optimizer, later a scheduler that some ranks "
     "step or load differently"},
    {Id::kOptimizerOptionsDiffer,
     "optimizer-options-differ",
     FindingTable::kReplicas,
     "proof",
     "options of the optimizers differ",
     SAME_GRADIENTS,
     "make the optimizer with the same options on every rank, and load its state on all of them",
     "`eps`, `betas`, `weight_decay` or `momentum` differ"},
    {Id::kOptimizerStateDiffers,
     "optimizer-state-differs",
     FindingTable::kReplicas,
     "proof",
     "optimizer state differs",
     SAME_GRADIENTS,
     "load the optimizer's state on every rank when a run is resumed, and change it on no rank "
     "alone",
     "what an optimizer keeps differs after its step"},
    {Id::kWeightsWritten,
     "weights-written-beside-optimizer",
     FindingTable::kReplicas,
     "proof",
     "weights written outside the optimizer",
     "[{?gradients}gradients and the options and state of the optimizer are the same on all ranks]"
     "[{!gradients}no gradient of this step could be compared between ranks]",
     "look for code that writes parameters on one rank alone, and for different switches of its "
     "optimizer, such as maximize",
     "parameters alone differ after the step"},

    {Id::kExchangesPart,
     "exchanges-part",
     FindingTable::kExchanges,
     "proof",
     "ranks exchange different things",
     "from about " EXCHANGE " on",
     "compare these ranks in one call of `repro-check ranks`, which names the first difference",
     "ranks of two slices part, and no dump is at hand"},
    {Id::kCollectiveMismatch,
     "collective-mismatch",
     FindingTable::kExchanges,
     "proof",
     "{what} mismatch",
     EXCHANGE ", at step {step}, is " CALL " on rank {rank}, and " OTHER_CALL
              " on rank {other_rank}",
     "let every rank of the group make the same collectives in the same order, with the same "
     "sizes, dtype, root and reduce op",
     "all came, and one with a different type, dtype, size, root or reduce op, or in a different "
     "order. Sizes are compared where a collective needs equal ones"},
    {Id::kSplitMismatch,
     "split-mismatch",
     FindingTable::kExchanges,
     "proof",
     "split mismatch",
     EXCHANGE ", at step {step}: rank {rank} sends {sends:element} to rank {other_rank}, which "
              "makes room for {receives} in " CALL,
     "let the ranks exchange first how much each sends to each, and make output_split_sizes from "
     "that",
     "a part of an all_to_all has one length where it is sent and another where it is received"},
    {Id::kContentMismatch,
     "content-mismatch",
     FindingTable::kExchanges,
     "proof",
     "content mismatch",
     EXCHANGE ", at step {step}: its content was {sent} when " CALL
              " was called, and {received} when it was read after " OTHER_CALL,
     "wait for an isend before its tensor is written again, and for an irecv before its tensor is "
     "read",
     "a message arrived with another content than it had when `send` or `isend` was called: its "
     "memory was written while it was sent. Known where an operator reads the receiver's memory "
     "before it "
     "is written again"},
    {Id::kResultMismatch,
     "result-mismatch",
     FindingTable::kExchanges,
     "proof",
     "result mismatch",
     EXCHANGE ", at step {step}, " CALL ", gave {odd:*rank} another result than {most:*rank}",
     "every rank must get the same from it: look at the memory and the transport of these ranks, "
     "and for code that writes the result before the collective has ended",
     "a collective that gives all ranks the same gave some of them another result. Not known with "
     "`--no-sync`"},
    {Id::kRankMissing,
     "rank-missing",
     FindingTable::kExchanges,
     "proof",
     "missing {missing:*rank}",
     "never entered " EXCHANGE ", which rank {rank} entered at step {step} as " CALL
     "[{?incomplete} and did not complete]" END_OF_MISSING,
     "look at what that rank did instead: a condition on the rank, fewer batches, an exception, or "
     "a process that was killed",
     "a rank never entered a collective: it did something else, or was killed"},
    {Id::kMessageMissing,
     "message-missing",
     FindingTable::kExchanges,
     "proof",
     "missing {what}",
     EXCHANGE ", was [{?is_sent}sent][{!is_sent}to be received] at step {step} as " CALL
              "[{?incomplete}, which did not complete], and rank {missing_rank} never "
              "[{?is_sent}received][{!is_sent}sent] it" END_OF_MISSING,
     "let every send have its recv, with the same peer, tag and group",
     "one side alone made a message"},

    {Id::kSameData,
     "ranks-read-same-data",
     FindingTable::kData,
     "proof, without a wrapper suspicion",
     "ranks read the same data",
     "every batch of {steps:step} is equal on {ranks:*rank}",
     "give each rank its part: DistributedSampler, or a seed for the data that depends on the "
     "rank; where ranks work on parts of one batch, say so with --mesh and --replicated",
     "every batch is the same"},
    {Id::kSameSamples,
     "ranks-read-same-samples",
     FindingTable::kData,
     "proof, without a wrapper suspicion",
     "ranks read the same data in different orders",
     "{ranks:*rank} read all {samples:sample} of an epoch of the loader of {line}",
     "give each rank its part: DistributedSampler",
     "an epoch of a loader that trains holds the same samples in different orders"},
    {Id::kSameOrder,
     "same-order-in-every-epoch",
     FindingTable::kData,
     "proof",
     "same order in every epoch",
     "the loader of {line} ({sampler}) takes the same samples in the same shuffled order in each "
     "of {epochs:epoch}[{?contents_differ}; their contents differ, so augmentation does change][ "
     "({ranks:*rank})]",
     "[{?is_distributed}call sampler.set_epoch(epoch) before each epoch]"
     "[{!is_distributed}let the generator of the sampler move on from epoch to epoch, or seed it "
     "with the epoch]",
     "a loader that trains takes its samples in the same shuffled order in all epochs: `set_epoch` "
     "is not called, or a generator is seeded anew"},
    {Id::kEveryWorkerReadsAll,
     "every-worker-reads-all",
     FindingTable::kData,
     "proof",
     "every sample comes {workers} times",
     "each of the {workers:worker} of the loader of {line} reads the whole dataset: "
     "{samples:sample} in an epoch of {items}[ ({ranks:*rank})]",
     "split what the IterableDataset yields by torch.utils.data.get_worker_info()",
     "each of several workers reads the whole of an `IterableDataset`"},
    {Id::kSamplesOverlap,
     "samples-overlap",
     FindingTable::kData,
     "suspicion",
     "parts of the data overlap",
     "{shared} of {samples:sample} are read more than once in an epoch of the loader of {line}, "
     "more than padding would repeat",
     "give DistributedSampler the same dataset, seed and set_epoch() on every rank, and each its "
     "own rank",
     "samples are read more often in an epoch than padding would: samplers with different seeds or "
     "`set_epoch()`, or a different dataset on each rank, such as a split that each rank draws"},
    {Id::kTrainedAndValidated,
     "trained-and-validated",
     FindingTable::kData,
     "proof",
     "trained and validated",
     "{shared} of the samples for validation on {ranks:*rank} are used for training on other "
     "ranks, and none on the same rank",
     "draw one split on all ranks: the same generator for random_split(), without the rank in its "
     "seed",
     "samples that a rank validates with, and does not train on, are used for training on other "
     "ranks"},
    {Id::kSamplesPadded,
     "samples-padded",
     FindingTable::kData,
     "note",
     "padded",
     "{twice} of {samples:sample} are repeated in an epoch of the loader of {line}, so that all "
     "ranks have the same number",
     "drop_last=True of DistributedSampler leaves samples out instead",
     "a `DistributedSampler` repeats samples so that all ranks have the same number"},

    {Id::kNormLacksShard,
     "norm-lacks-shard",
     FindingTable::kRanks,
     "proof, of a norm that nothing names suspicion",
     "a shard is missing in the norm that gradients are clipped by",
     OTHER_NORM,
     SUM_SQUARES,
     "the norm is less than that of all gradients"},
    {Id::kNormCountsReplicas,
     "norm-counts-replicas",
     FindingTable::kRanks,
     "proof, of a norm that nothing names suspicion",
     "replicas are counted several times in the norm that gradients are clipped by",
     OTHER_NORM,
     SUM_SQUARES,
     "the norm counts replicas once for each rank"},
    {Id::kNormOfMore,
     "norm-of-more",
     FindingTable::kRanks,
     "suspicion",
     "more than the gradients is in the norm that gradients are clipped by",
     OTHER_NORM,
     "leave out what is no gradient, unless it is meant: " SUM_SQUARES,
     "the norm is more than that of all gradients, which may be meant"},
    {Id::kStepsSkipped,
     "steps-skipped",
     FindingTable::kRanks,
     "proof, where not all parameters are replicas suspicion",
     "optimizers made different numbers of steps",
     FEWER_STEPS ", for as many backward passes" UNCOMPARED,
     "look for code that skips a step on one rank alone: a condition on its own loss or data, an "
     "exception that it catches",
     "replicas made different numbers of steps for as many backward passes"},
    {Id::kStepsUneven,
     "steps-uneven",
     FindingTable::kRanks,
     "suspicion",
     "optimizers made different numbers of steps",
     FEWER_STEPS UNCOMPARED,
     "give all ranks the same number of batches, or use join() of the wrapper",
     "ranks made different numbers of steps and of backward passes"},
    {Id::kEndedByException,
     "steps-ended-by-exception",
     FindingTable::kRanks,
     "suspicion",
     "optimizers made different numbers of steps",
     FEWER_STEPS ", since {raised} ended rank {rank}" UNCOMPARED,
     "look at that exception first",
     "an exception ended the shorter run"},
    {Id::kJoinedToTheEnd,
     "steps-joined",
     FindingTable::kRanks,
     "note",
     "optimizers made different numbers of steps",
     FEWER_STEPS ", and rank {rank} took part in what rank {other_rank} reduced" UNCOMPARED,
     "give all ranks the same number of batches to have the last ones compared as well",
     "the shorter run took part in what the longer one reduced, as inside of `join()`"},
    {Id::kLeftJoinUneven,
     "left-join-uneven",
     FindingTable::kRanks,
     "note",
     "the ranks left join() after different numbers of steps",
     "from step {step} on, steps of one rank do not correspond to those of another, and were not "
     "compared",
     "give all ranks the same number of batches to have the last ones compared as well",
     "steps after a `join()` that ranks left after different numbers of steps are not compared"},
    {Id::kMasksAreCopies,
     "masks-are-copies",
     FindingTable::kRanks,
     "suspicion",
     "masks are copies",
     "{ranks:*rank} made all of their {draws:draw} from one seed, at the same positions",
     "seed each rank with its number after the initialisation: torch.manual_seed(seed + rank)",
     "all draws of two ranks came from one seed"},
    {Id::kGeneratorOfAnotherRank,
     "generator-of-another-rank",
     FindingTable::kRanks,
     "suspicion",
     "another rank's generator was restored",
     "from step {step} on {ranks:*rank} made all of their {draws:draw} from one seed ({seed}), at "
     "the same positions; before that they drew from {seeds}",
     "save the state of the generators of every rank, and restore its own on each",
     "from some step on all draws of two ranks came from one seed, and not before"},
    {Id::kNoDraws,
     "no-draws-on-some-ranks",
     FindingTable::kRanks,
     "suspicion",
     "no random numbers on some ranks",
     "from step {step} on the model draws nothing on {ranks:*rank}, and it does on the other ranks",
     "call train() on every rank before it trains: dropout is off after eval()",
     "replicas of which some draw no random numbers from some step on, as in `eval()` mode"},
    {Id::kPartsAreCopies,
     "parts-are-copies",
     FindingTable::kRanks,
     "suspicion",
     "parts are copies",
     "{ranks:*rank} each hold a different part of {names:few}, and these parts are equal step "
     "after step",
     "cut the parts out of a whole (distribute_tensor), or seed them by the rank within the mesh; "
     "give each rank its own part of the input",
     "different parts have the same gradients and activations, step after step"},
    {Id::kNanOnRank,
     "nan-on-rank",
     FindingTable::kRanks,
     "suspicion",
     "values are NaN",
     "first at step {step} on {ranks:*rank}, in [{?is_read}what it reads,][{!is_read}what it "
     "makes,] "
     "`{tensor}` (op {op})",
     "look at the inputs of that operator on that rank: all ranks that reduce with it have NaN "
     "from there on",
     "batches, inputs, losses or parameters hold NaN. The rank that had it first is named"},
    {Id::kNoGradients,
     "no-gradients",
     FindingTable::kRanks,
     "proof",
     "the optimizer finds no gradient",
     "it made {steps:step} without any gradient, on every rank",
     "look for what keeps gradients from the parameters of the optimizer: "
     "set_requires_gradient_sync(False) or no_sync() that is never left, zero_grad() between "
     "backward() and step(), parameters of another model",
     "no step of an optimizer finds a gradient on any rank"},
    {Id::kWeightsNeverMoved,
     "weights-never-moved",
     FindingTable::kRanks,
     "proof",
     "weights never moved",
     "they are the same after {steps:step}, though their gradients are not 0",
     "look at the learning rate, and whether the optimizer has the parameters of this model",
     "no weight moves, though gradients are not 0"},
    {Id::kInNoOptimizer,
     "parameters-in-no-optimizer",
     FindingTable::kRanks,
     "proof",
     "parameters never move",
     "{names:few}: gradients are computed, and no optimizer has them",
     "give the optimizer all parameters that are to be trained, and set requires_grad=False on the "
     "others",
     "parameters get gradients, and no optimizer has them"},
    {Id::kWithoutGradient,
     "parameters-without-gradient",
     FindingTable::kRanks,
     "suspicion, of experts proof",
     "parameters never move",
     "{names:few}: an optimizer has them, and none of its steps finds a gradient[{?are_experts}, "
     "though they work on what ranks exchange]",
     "look for detach(), for a collective without a backward pass, and for modules that are not "
     "used",
     "an optimizer has parameters, and none of its steps finds a gradient of them"},
    {Id::kNotMoved,
     "parameters-not-moved",
     FindingTable::kRanks,
     "suspicion",
     "parameters never move",
     "{names:few}: they have gradients, and no step of their optimizer changes them",
     "look for updates that are lost in rounding, and for gradients that are 0 but for rounding",
     "parameters have gradients, and no step changes them"},
    {Id::kAveragedAtTimes,
     "averaged-at-times",
     FindingTable::kRanks,
     "note",
     "each rank trains by itself",
     "the averager makes parameters equal at {steps:*step}; between these steps nothing was "
     "compared",
     "look at the steps at which parameters are averaged",
     "an averager of `torch.distributed.algorithms.model_averaging` is used"},

    {Id::kReadUnwritten,
     "read-unwritten",
     FindingTable::kRecording,
     "suspicion",
     "memory that nobody has written is read or returned ({times:time})",
     "it holds what was there before, or a fill pattern, so that agreement on it says nothing; "
     "first "
     "[{reader}][{!reader}what the model returns]: `{slot}` is memory that {allocator} "
     "allocated[{!writer} and that no operator has written since][ and that has been written in "
     "part "
     "alone, last by {writer}]",
     "fill the tensor in the model (zeros instead of empty); compute buffers that are not "
     "persistent after to_empty()",
     "an operator reads memory that nobody has written"},

    {Id::kSeveralRuns,
     "ranks-of-several-runs",
     FindingTable::kRanks,
     "not comparable",
     "the ranks are of several runs",
     "{said}",
     "give the ranks of one run",
     "ranks have different run ids"},
    {Id::kSeveralAttempts,
     "ranks-of-several-attempts",
     FindingTable::kRanks,
     "not comparable",
     "the ranks are of several attempts of one run",
     "{said}",
     "give the ranks of one attempt",
     "ranks are of different attempts of one run"},
    {Id::kSeveralParts,
     "ranks-of-several-parts",
     FindingTable::kRanks,
     "not comparable",
     "the ranks are of several parts of the program",
     "{said}",
     "record the same steps and phases on every rank",
     "different steps or phases were recorded on the ranks"},
    {Id::kPartAndMeet,
     "ranks-part-and-meet",
     FindingTable::kRanks,
     "not comparable",
     "each rank trains by itself",
     "[the ranks have the same parameters again at {steps:*step}][{!steps}the ranks have the same "
     "parameters in no step that was recorded]: nothing says whether they should have been the "
     "same in between",
     "where gradients are meant to be reduced, compare two ranks with `repro-check diff`, which "
     "names the first step that parts; where parameters are averaged now and then, use the "
     "averagers of torch.distributed.algorithms.model_averaging, which repro-check knows",
     "parameters part and become equal again, and no averager is known"},
}};

#undef EXCHANGE
#undef CALL
#undef OTHER_CALL
#undef END_OF_MISSING
#undef SAME_GRADIENTS
#undef OTHER_NORM
#undef SUM_SQUARES
#undef FEWER_STEPS
#undef UNCOMPARED

constexpr bool has_each_finding() {
  for (std::size_t i = 0; i < kRows; ++i) {
    if (static_cast<std::size_t>(kCatalogue[i].id) != i) return false;
  }
  return true;
}
static_assert(has_each_finding(), "the catalogue has a row for each FindingId, in its order");

}  // namespace

std::span<const FindingRow> finding_catalogue() noexcept { return kCatalogue; }

const FindingRow& row_of(comparators::FindingId id) noexcept {
  return kCatalogue.at(static_cast<std::size_t>(id));
}

}  // namespace repro_check::cmd
