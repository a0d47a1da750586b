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
  "[; rank {missing_rank} ended by {raised}]"       \
  "[{?came_to_its_end}; rank {missing_rank} came to its end without]"
#define SAME_GRADIENTS                                                          \
  "[{?gradients}the gradients are the same on all ranks]"                       \
  "[{!gradients}no gradient of this step could be held against another rank's]" \
  "[{?from_the_start}, and these differ from the first step on]"

constexpr std::array<FindingRow, kRows> kCatalogue{{
    {Id::kInitialWeightsDiffer,
     "initial-weights-differ",
     FindingTable::kReplicas,
     "proof",
     "initial weights not synchronised",
     "the replicas do not begin with the same weights",
     "broadcast parameters and buffers of rank 0 before the first step; DistributedDataParallel "
     "does it unless init_sync=False",
     "parameters differ before step 0"},
    {Id::kWeightsWrittenBetweenSteps,
     "weights-written-between-steps",
     FindingTable::kReplicas,
     "proof",
     "weights written outside the optimizer",
     "the step before left them equal, and they differ when the next forward pass begins",
     "look for what writes parameters between two steps on one rank alone: loading a checkpoint, "
     "clipping or averaging weights, code under `if rank == 0`",
     "parameters differ when a later forward pass begins"},
    {Id::kStatisticsDrift,
     "running-statistics-drift",
     FindingTable::kReplicas,
     "proof",
     "running statistics drift apart",
     "[{?wrapper}buffers are not handed out before the forward pass]"
     "[{!wrapper}nothing hands buffers out before the forward pass]",
     "[{?wrapper}leave broadcast_buffers of DistributedDataParallel on, or use SyncBatchNorm]"
     "[{!wrapper}use SyncBatchNorm, or broadcast the buffers of one rank before each step]",
     "buffers differ when a forward pass begins: `broadcast_buffers=False`, or no wrapper"},
    {Id::kActivationsFromOtherData,
     "tensor-parallel-other-data",
     FindingTable::kReplicas,
     "proof",
     "activations differ outside of tensor parallelism",
     "these ranks work on parts of the same tensors, and read other data",
     "give all ranks of a tensor parallel group the same batches: seed and shard the data by the "
     "place along the data parallel axis alone",
     "activations differ behind other batches within a tensor parallel group"},
    {Id::kActivationsFromOtherDraws,
     "tensor-parallel-other-draws",
     FindingTable::kReplicas,
     "proof",
     "activations differ outside of tensor parallelism",
     "these ranks read the same data, and drew other numbers before it",
     "seed the ranks of a tensor parallel group alike for what is outside of its parts, as "
     "dropout, and by rank only for what each does to its own",
     "activations differ behind other random numbers"},
    {Id::kActivationsDiffer,
     "tensor-parallel-activations-differ",
     FindingTable::kReplicas,
     "proof",
     "activations differ outside of tensor parallelism",
     "these ranks read the same data and drew the same numbers",
     "look for what differs before it: weights that are not the same on all ranks of the group, a "
     "sum that not all of them make, code under `if rank == 0`",
     "activations differ, and data and random numbers do not"},
    {Id::kClippedInParts,
     "clipped-by-norms-of-parts",
     FindingTable::kReplicas,
     "proof",
     "gradients are clipped by other norms",
     "parts of the ranks are equal each, and clip otherwise than the others",
     "look for a norm that is not that of all ranks, and for other values of max_norm",
     "the norm differs between slices whose ranks agree"},
    {Id::kClippedToOtherNorms,
     "clipped-to-other-norms",
     FindingTable::kReplicas,
     "proof",
     "gradients are clipped to other norms",
     "the norm that they are clipped by is the same on all ranks",
     "give clip_grad_norm_() the same max_norm and norm_type on every rank",
     "`max_norm` or `norm_type` differ"},
    {Id::kClippedOtherParameters,
     "clipped-other-parameters",
     FindingTable::kReplicas,
     "proof",
     "gradients are clipped by other norms",
     "the ranks do not clip the same parameters",
     "clip the same parameters on every rank, by the norm of all of them",
     "the ranks clip other parameters"},
    {Id::kClippedBeforeReduction,
     "clipped-before-reduction",
     FindingTable::kReplicas,
     "proof",
     "gradients are clipped by other norms",
     "the gradients are not the same on all ranks before they are clipped",
     "reduce the gradients before their norm is taken",
     "gradients differ before they are clipped"},
    {Id::kClippedByOwnNorm,
     "clipped-by-own-norm",
     FindingTable::kReplicas,
     "proof",
     "gradients are clipped by other norms",
     "what ranks hold alike of the gradients is the same before they are clipped, so each norm is "
     "that of what one rank holds",
     "clip by the norm of all shards: sum the squares over the ranks that hold them, or leave it "
     "to DTensor, or to clip_grad_norm_() of FullyShardedDataParallel",
     "gradients agree before they are clipped, and the norm does not"},
    {Id::kScaledByOwnNorm,
     "scaled-by-own-norm",
     FindingTable::kReplicas,
     "proof",
     "gradients are clipped by other norms",
     "the gradients were the same on all ranks before they were multiplied by a factor that is "
     "made of a norm",
     "clip by the norm of all shards: sum the squares over the ranks that hold them",
     "gradients agree until they are multiplied by a factor that is made of a norm"},
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
     "found_inf was not reduced: ranks whose gradients overflow skip the step, and the others make "
     "it",
     "let every rank know of an overflow on any: reduce gradients before unscale_(), or found_inf "
     "itself where each rank holds a part of them (ShardedGradScaler)",
     "`found_inf` differs. The odd rank is the one that overflowed"},
    {Id::kReducedInParts,
     "reduced-in-parts",
     FindingTable::kReplicas,
     "proof",
     "gradients not reduced",
     "parts of the ranks are equal each, and have other gradients than the others",
     "look for a reduction that does not reach all ranks: a group of those of one machine alone, "
     "or a parameter that it leaves out",
     "gradients differ between slices whose ranks agree"},
    {Id::kClippedOnSomeRanks,
     "clipped-on-some-ranks",
     FindingTable::kReplicas,
     "proof",
     "gradients are clipped on some ranks alone",
     "in this step ranks clip their gradients, and others do not",
     "clip on all ranks or on none: look for a condition on the rank, or on a value that is not "
     "the same on all of them",
     "some ranks clip in a step in which others do not"},
    {Id::kStepSkippedOnSomeRanks,
     "step-skipped-on-some-ranks",
     FindingTable::kReplicas,
     "proof",
     "the optimizer skipped a step on some ranks",
     "the ranks made other numbers of backward passes before this step of their optimizers",
     "step the optimizer on all ranks or on none: look for a condition on the loss, on the data or "
     "on what one rank catches",
     "ranks made other numbers of backward passes for a step"},
    {Id::kChangedBehindReduction,
     "gradients-changed-behind-reduction",
     FindingTable::kReplicas,
     "proof",
     "gradients changed behind their reduction",
     "a collective gave all ranks the same, and their optimizers read something else",
     "do the same to gradients on every rank between the reduction and the step: look for another "
     "divisor, a scale, a clip or weight decay on some ranks alone, and for a communication hook "
     "that computes otherwise there",
     "a collective gave all ranks the same. The first operator behind it that they do not share is "
     "named"},
    {Id::kChangedBehindBackward,
     "gradients-changed-behind-backward",
     FindingTable::kReplicas,
     "proof",
     "gradients changed behind the backward pass",
     "the backward pass gave all ranks the same, and their optimizers read something else",
     "do the same to gradients on every rank between the backward pass and the step: look for a "
     "scale, a clip or weight decay on some ranks alone",
     "the same without a collective, as under tensor parallelism"},
    {Id::kCalledPastWrapper,
     "called-past-wrapper",
     FindingTable::kReplicas,
     "proof",
     "the model was called past its wrapper",
     "the forward pass of this step did not come through DistributedDataParallel, which reduces "
     "gradients only of those that do",
     "call the wrapper itself, not wrapper.module, nor the module that it was made of",
     "a forward pass did not come through `DistributedDataParallel`"},
    {Id::kPartialGradients,
     "partial-gradients-of-replicas",
     FindingTable::kReplicas,
     "proof",
     "replicated weights with partial gradients",
     "they are the same on all ranks, beside parameters of which each rank holds its own part, and "
     "on each they have the gradient of what that part did",
     "sum their gradients over the ranks that share the work before the optimizer reads them, as "
     "sequence parallelism needs it of the weights of norms, or distribute the module by "
     "torch.distributed.tensor.parallel",
     "gradients differ beside parameters that are each rank's own part"},
    {Id::kGradientsOfSomeRanksDiffer,
     "gradients-of-some-ranks-differ",
     FindingTable::kReplicas,
     "proof",
     "gradients of some ranks differ",
     "other ranks, which read other data, have the same gradients",
     "look for what changes gradients on these ranks behind the reduction, and for a reduction "
     "that leaves them out",
     "all gradients of some ranks differ, and others agree"},
    {Id::kUnusedParameters,
     "unused-parameters-block-reduction",
     FindingTable::kReplicas,
     "proof",
     "gradients not reduced",
     "no gradient is the same on all ranks when the optimizer reads it, and some parameters have "
     "none: DistributedDataParallel waits for these and reduces nothing",
     "set find_unused_parameters=True of DistributedDataParallel where a pass leaves parameters "
     "out, and let the last micro-batch of a step run outside of no_sync()",
     "all gradients differ under a wrapper, and some parameters have none"},
    {Id::kGradientsNotReduced,
     "gradients-not-reduced",
     FindingTable::kReplicas,
     "proof",
     "gradients not reduced",
     "no gradient is the same on all ranks when the optimizer reads it",
     "[{?wrapper}let the last micro-batch of a step run outside of no_sync(), and call the model "
     "by "
     "its wrapper]"
     "[{!wrapper}average every gradient over all ranks behind the last backward pass of a step "
     "(all_reduce), or let DistributedDataParallel do it]",
     "all gradients differ: `no_sync()` around the last micro-batch, or no reduction at all"},
    {Id::kGradientsMissing,
     "gradients-missing-on-some-ranks",
     FindingTable::kReplicas,
     "proof",
     "some gradients not reduced",
     "the others are the same on all ranks when the optimizer reads them, and on some ranks "
     "parameters have none",
     "look for what takes gradients away on one rank alone, and for parameters that a pass leaves "
     "out there (find_unused_parameters)",
     "some gradients differ, and on some ranks parameters have none"},
    {Id::kSomeGradientsNotReduced,
     "some-gradients-not-reduced",
     FindingTable::kReplicas,
     "proof",
     "some gradients not reduced",
     "the others are the same on all ranks when the optimizer reads them",
     "look for parameters that the reduction leaves out: replaced after wrapping, unused in some "
     "passes (find_unused_parameters), or skipped by a condition; and for what changes gradients "
     "behind it on one rank alone",
     "some gradients differ. Where gradients are clipped, those that differed before are named"},
    {Id::kParameterGroupsDiffer,
     "parameter-groups-differ",
     FindingTable::kReplicas,
     "proof",
     "the optimizers have other parameter groups",
     SAME_GRADIENTS,
     "make the optimizer with the same parameter groups on every rank",
     "optimizers have other numbers of parameter groups"},
    {Id::kLearningRatesDiffer,
     "learning-rates-differ",
     FindingTable::kReplicas,
     "proof",
     "learning rates differ",
     SAME_GRADIENTS,
     "[{?from_the_start}make the optimizer with the same lr on every rank]"
     "[{!from_the_start}step the scheduler on every rank alike, and load its state on all of them]",
     "from the first step on another `lr` of the optimizer, later a scheduler that some ranks step "
     "or load otherwise"},
    {Id::kOptimizerOptionsDiffer,
     "optimizer-options-differ",
     FindingTable::kReplicas,
     "proof",
     "options of the optimizers differ",
     SAME_GRADIENTS,
     "make the optimizer with the same options on every rank, and load its state on all of them "
     "alike",
     "`eps`, `betas`, `weight_decay` or `momentum` differ"},
    {Id::kOptimizerStateDiffers,
     "optimizer-state-differs",
     FindingTable::kReplicas,
     "proof",
     "optimizer state differs",
     SAME_GRADIENTS,
     "load the optimizer's state on every rank when a run is resumed, and change it on none alone",
     "what an optimizer keeps differs behind its step"},
    {Id::kWeightsWritten,
     "weights-written-beside-optimizer",
     FindingTable::kReplicas,
     "proof",
     "weights written outside the optimizer",
     "[{?gradients}gradients, the numbers that the optimizer was told and its state are the same "
     "on all ranks]"
     "[{!gradients}no gradient of this step could be held against another rank's]",
     "look for what writes parameters on one rank alone, and for other switches of its optimizer",
     "parameters alone differ behind the step"},

    {Id::kExchangesPart,
     "exchanges-part",
     FindingTable::kExchanges,
     "proof",
     "ranks exchange other things",
     "from about " EXCHANGE " on",
     "compare these ranks in one call of `repro-check ranks`, which names the first",
     "ranks of two slices part, of which no dump is at hand"},
    {Id::kCollectiveMismatch,
     "collective-mismatch",
     FindingTable::kExchanges,
     "proof",
     "{what} mismatch",
     EXCHANGE ", at step {step}, is " CALL " on rank {rank}, and " OTHER_CALL
              " on rank {other_rank}",
     "let every rank of the group make the same collectives in the same order, with the same "
     "sizes, dtype, root and reduce op",
     "all came, and one with another type, dtype, size, root or reduce op, or in another order. "
     "Sizes are compared where a collective needs equal ones"},
    {Id::kSplitMismatch,
     "split-mismatch",
     FindingTable::kExchanges,
     "proof",
     "split mismatch",
     EXCHANGE
     ", at step {step}: rank {rank} sends {sends:element} to rank {other_rank}, which makes "
     "room for {receives}, by " CALL,
     "let each rank exchange first how much it sends to each, and make its output_split_sizes of "
     "what it was told",
     "in an all_to_all a part is not as long where it is sent as where it is received"},
    {Id::kContentMismatch,
     "content-mismatch",
     FindingTable::kExchanges,
     "proof",
     "content mismatch",
     EXCHANGE ", at step {step}, was {sent} when " CALL " was called, and {received} when it was "
              "read behind " OTHER_CALL,
     "wait for an isend before its tensor is written again, and for an irecv before what it gives "
     "is read",
     "a message came as something else than it was when `send` or `isend` was called: its memory "
     "was written while it was sent. Known where an operator reads the receiver's memory before it "
     "is written again"},
    {Id::kResultMismatch,
     "result-mismatch",
     FindingTable::kExchanges,
     "proof",
     "result mismatch",
     EXCHANGE ", at step {step}, " CALL ", gave {odd:*rank} something else than {most:*rank}",
     "every rank must get the same from it: look at the memory and the transport of these ranks, "
     "and for code that writes what was given before the collective has ended",
     "a collective that gives all of them the same gave some ranks something else. Not known with "
     "`--no-sync`"},
    {Id::kRankMissing,
     "rank-missing",
     FindingTable::kExchanges,
     "proof",
     "missing {missing:*rank}",
     "never came to " EXCHANGE ", which rank {rank} entered at step {step} as " CALL
     "[{?incomplete} and did not complete]" END_OF_MISSING,
     "look at what that rank did instead: a condition on the rank, fewer batches, an exception, or "
     "a process that was killed",
     "a rank never came: it did something else, or was killed"},
    {Id::kMessageMissing,
     "message-missing",
     FindingTable::kExchanges,
     "proof",
     "missing {what}",
     EXCHANGE ", is [{?is_sent}sent][{!is_sent}received] at step {step} as " CALL
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
     "give each rank its part: DistributedSampler, or a seed of the data that has the rank in it; "
     "of ranks that work on parts of one batch --mesh and --replicated tell",
     "every batch is the same"},
    {Id::kSameSamples,
     "ranks-read-same-samples",
     FindingTable::kData,
     "proof, without a wrapper suspicion",
     "ranks read the same data, in another order",
     "{ranks:*rank} read all {samples:sample} of an epoch of the loader of {line}",
     "give each rank its part: DistributedSampler",
     "an epoch of a loader that trains holds the same samples in another order"},
    {Id::kSameOrder,
     "same-order-in-every-epoch",
     FindingTable::kData,
     "proof",
     "same order in every epoch",
     "the loader of {line} ({sampler}) takes the same samples in the same shuffled order in each "
     "of "
     "{epochs:epoch}[{?contents_differ}; their contents differ, so augmentation is alive][ "
     "({ranks:*rank})]",
     "[{?is_distributed}call sampler.set_epoch(epoch) before each epoch]"
     "[{!is_distributed}let the generator of the sampler move on from epoch to epoch, or seed it "
     "with the epoch]",
     "a loader that trains takes its samples in the same shuffled order in all epochs: nobody "
     "calls "
     "`set_epoch`, or a generator is seeded anew"},
    {Id::kEveryWorkerReadsAll,
     "every-worker-reads-all",
     FindingTable::kData,
     "proof",
     "every sample comes {workers} times",
     "each of the {workers:worker} of the loader of {line} reads the whole dataset, "
     "{samples:sample} in an epoch of {items}[ ({ranks:*rank})]",
     "split what an IterableDataset yields by torch.utils.data.get_worker_info()",
     "each of several workers reads the whole of an `IterableDataset`"},
    {Id::kSamplesOverlap,
     "samples-overlap",
     FindingTable::kData,
     "suspicion",
     "parts of the data overlap",
     "{shared} of {samples:sample} are read more than once in an epoch of the loader of {line}, "
     "more than make each rank have as many",
     "give DistributedSampler the same dataset, seed and set_epoch() on every rank, and each its "
     "own rank",
     "samples are read more often in an epoch than padding takes: samplers with other seeds, "
     "another `set_epoch()`, or another dataset on each rank, as a split that each rank draws"},
    {Id::kTrainedAndValidated,
     "trained-and-validated",
     FindingTable::kData,
     "proof",
     "trained and validated",
     "other ranks train on {shared} of the samples that {ranks:*rank} validate with, and the rank "
     "itself on none",
     "draw one split on all ranks: the same generator for random_split(), without the rank in its "
     "seed",
     "samples that a rank validates with, and does not train on, are trained on by other ranks"},
    {Id::kSamplesPadded,
     "samples-padded",
     FindingTable::kData,
     "note",
     "padded",
     "{twice} of {samples:sample} come twice in an epoch of the loader of {line}, so that each "
     "rank "
     "has as many",
     "drop_last=True of DistributedSampler leaves some out instead",
     "a `DistributedSampler` repeats samples so that each rank has as many"},

    {Id::kNormLacksShard,
     "norm-lacks-shard",
     FindingTable::kRanks,
     "proof, of a norm that nothing names suspicion",
     "a shard is missing in the norm that gradients are clipped by",
     "at step {step} it is {norm:exact} on every rank, and that of all gradients, put together by "
     "placement, is {right:exact}[; it is that of what rank {own_of} holds]"
     "[; it is that without {without} of rank {without_of}]",
     "sum the squares of each shard once, over the ranks that hold them, and once those of what "
     "all "
     "ranks have; get_total_norm() of DTensors does it",
     "the norm is less than that of all gradients"},
    {Id::kNormCountsReplicas,
     "norm-counts-replicas",
     FindingTable::kRanks,
     "proof, of a norm that nothing names suspicion",
     "replicas are counted several times in the norm that gradients are clipped by",
     "at step {step} it is {norm:exact} on every rank, and that of all gradients, put together by "
     "placement, is {right:exact}[; it is that of what rank {own_of} holds]"
     "[; it is that without {without} of rank {without_of}]",
     "sum the squares of each shard once, over the ranks that hold them, and once those of what "
     "all "
     "ranks have; get_total_norm() of DTensors does it",
     "the norm counts replicas once a rank"},
    {Id::kNormOfMore,
     "norm-of-more",
     FindingTable::kRanks,
     "suspicion",
     "more than the gradients is in the norm that gradients are clipped by",
     "at step {step} it is {norm:exact} on every rank, and that of all gradients, put together by "
     "placement, is {right:exact}[; it is that of what rank {own_of} holds]"
     "[; it is that without {without} of rank {without_of}]",
     "sum the squares of each shard once, over the ranks that hold them, and once those of what "
     "all "
     "ranks have; get_total_norm() of DTensors does it",
     "the norm is more than that of all gradients, which may be meant"},
    {Id::kStepsSkipped,
     "steps-skipped",
     FindingTable::kRanks,
     "proof, where not all parameters are replicas suspicion",
     "optimizers made other numbers of steps",
     "{least:step} on rank {rank} and {most} on rank {other_rank}, for as many backward passes: "
     "what "
     "comes behind the shorter run was compared with nothing",
     "look for what skips a step on one rank alone: a condition on its own loss or data, an "
     "exception that it catches",
     "replicas made other numbers of steps for as many backward passes"},
    {Id::kStepsUneven,
     "steps-uneven",
     FindingTable::kRanks,
     "suspicion",
     "optimizers made other numbers of steps",
     "{least:step} on rank {rank} and {most} on rank {other_rank}: what comes behind the shorter "
     "run "
     "was compared with nothing",
     "give each rank as many batches, or let those that have more wait: join() of the wrapper",
     "ranks made other numbers of steps and of backward passes"},
    {Id::kEndedByException,
     "steps-ended-by-exception",
     FindingTable::kRanks,
     "suspicion",
     "optimizers made other numbers of steps",
     "{least:step} on rank {rank} and {most} on rank {other_rank}, since rank {rank} ended by "
     "{raised}: what comes behind the shorter run was compared with nothing",
     "look at that exception first",
     "an exception ended the shorter run"},
    {Id::kJoinedToTheEnd,
     "steps-joined",
     FindingTable::kRanks,
     "note",
     "optimizers made other numbers of steps",
     "{least:step} on rank {rank} and {most} on rank {other_rank}, and the one took part in what "
     "the "
     "other reduced: what comes behind the shorter run was compared with nothing",
     "give each rank as many batches where the last ones are to be compared as well",
     "the shorter run took part in what the longer one reduced, as inside of `join()`"},
    {Id::kLeftJoinUneven,
     "left-join-uneven",
     FindingTable::kRanks,
     "note",
     "the ranks left join() behind other numbers of steps",
     "from step {step} on those of one are none of another's, and nothing was compared",
     "give each rank as many batches where the last ones are to be compared as well",
     "steps behind a `join()` that ranks left behind other numbers of steps are not compared"},
    {Id::kMasksAreCopies,
     "masks-are-copies",
     FindingTable::kRanks,
     "suspicion",
     "masks are copies",
     "{ranks:*rank} made all of their {draws:draw} from one seed, at the same places",
     "seed each rank with its number behind the initialisation: torch.manual_seed(seed + rank)",
     "all draws of two ranks came from one seed"},
    {Id::kGeneratorOfAnotherRank,
     "generator-of-another-rank",
     FindingTable::kRanks,
     "suspicion",
     "another rank's generator was restored",
     "from step {step} on {ranks:*rank} made all of their {draws:draw} from one seed ({seed}), at "
     "the "
     "same places; before it they drew from {seeds}",
     "save the state of the generators of every rank, and restore on each its own",
     "from some step on all draws of two ranks came from one seed, and not before"},
    {Id::kNoDraws,
     "no-draws-on-some-ranks",
     FindingTable::kRanks,
     "suspicion",
     "no random numbers on some ranks",
     "from step {step} on nothing is drawn for the model on {ranks:*rank}, and the other ranks "
     "draw",
     "call train() on every rank before it trains: dropout is off in a model that eval() was "
     "called "
     "of",
     "replicas of which some draw no random numbers from some step on, as in `eval()` mode"},
    {Id::kPartsAreCopies,
     "parts-are-copies",
     FindingTable::kRanks,
     "suspicion",
     "parts are copies",
     "{ranks:*rank} hold each another part of {names:few}, and the same in it, step after step",
     "let the parts be cut out of a whole (distribute_tensor), or seed what makes them by the "
     "place "
     "in the mesh; give each rank its own part of what goes in",
     "gradients and activations in parts are the same in another part, step after step"},
    {Id::kNanOnRank,
     "nan-on-rank",
     FindingTable::kRanks,
     "suspicion",
     "values are NaN",
     "first at step {step} on {ranks:*rank}, in [{?is_read}what it reads,][{!is_read}what it "
     "makes,] "
     "`{tensor}` (op {op})",
     "look at what that operator of that rank is given: all that reduce with it have NaN from "
     "there "
     "on",
     "batches, inputs, losses or parameters hold NaN. The rank that had it first is named"},
    {Id::kNoGradients,
     "no-gradients",
     FindingTable::kRanks,
     "proof",
     "the optimizer finds no gradient",
     "it made {steps:step} with no gradient at all, on every rank",
     "look for what keeps gradients from the parameters that the optimizer has: "
     "set_requires_gradient_sync(False) or no_sync() that is never left, zero_grad() between "
     "backward() and step(), parameters of another model",
     "no step of an optimizer finds a gradient on any rank"},
    {Id::kWeightsNeverMoved,
     "weights-never-moved",
     FindingTable::kRanks,
     "proof",
     "weights never moved",
     "they are the same behind {steps:step}, though their gradients are not 0",
     "look at the learning rate, and whether the optimizer has the parameters of this model",
     "no weight moves, though gradients are not 0"},
    {Id::kInNoOptimizer,
     "parameters-in-no-optimizer",
     FindingTable::kRanks,
     "proof",
     "parameters never move",
     "{names:few}: they get gradients, and no optimizer has them",
     "give the optimizer all parameters that are to be trained, and set requires_grad=False of the "
     "others",
     "parameters get gradients, and no optimizer has them"},
    {Id::kWithoutGradient,
     "parameters-without-gradient",
     FindingTable::kRanks,
     "suspicion, of experts proof",
     "parameters never move",
     "{names:few}: an optimizer has them, and no step of it finds a gradient[{?are_experts}, "
     "though "
     "they work on what ranks exchange]",
     "look for detach(), for a collective without a backward pass, and for modules that nothing "
     "uses",
     "an optimizer has parameters, and no step of it finds a gradient of them"},
    {Id::kNotMoved,
     "parameters-not-moved",
     FindingTable::kRanks,
     "suspicion",
     "parameters never move",
     "{names:few}: they have gradients, and a step of their optimizer changes nothing of them",
     "look for steps that are lost in rounding, and for a gradient that is 0 but for rounding",
     "parameters have gradients, and no step changes them"},
    {Id::kAveragedAtTimes,
     "averaged-at-times",
     FindingTable::kRanks,
     "note",
     "each rank trains by itself",
     "the ranks have the same parameters again at {steps:*step}, as their averager makes it: "
     "between "
     "these steps nothing is held against one another",
     "look at the steps at which parameters are averaged",
     "an averager of `torch.distributed.algorithms.model_averaging` is used"},

    {Id::kReadUnwritten,
     "read-unwritten",
     FindingTable::kRecording,
     "suspicion",
     "memory that nobody has written is read or returned ({times:time})",
     "it holds what was there before, or a fill pattern, and agreement on it says nothing; first "
     "[{reader}][{!reader}what the model returns]: `{slot}` is memory that {allocator} "
     "allocated[{!writer} and that no operator has written since][ and that has been written in "
     "part "
     "alone, last by {writer}]",
     "fill the tensor in the model (zeros instead of empty); a buffer that is not persistent has "
     "to "
     "be computed behind to_empty()",
     "an operator reads memory that nobody has written"},

    {Id::kSeveralRuns,
     "ranks-of-several-runs",
     FindingTable::kRanks,
     "not comparable",
     "the ranks are of several runs",
     "{said}",
     "give the ranks of one run",
     "ranks have other run ids"},
    {Id::kSeveralAttempts,
     "ranks-of-several-attempts",
     FindingTable::kRanks,
     "not comparable",
     "the ranks are of several attempts of one run",
     "{said}",
     "give the ranks of one attempt",
     "ranks are of other attempts of one run"},
    {Id::kSeveralParts,
     "ranks-of-several-parts",
     FindingTable::kRanks,
     "not comparable",
     "the ranks are of several parts of the program",
     "{said}",
     "record the same steps and phases on every rank",
     "ranks have other steps or phases recorded"},
    {Id::kPartAndMeet,
     "ranks-part-and-meet",
     FindingTable::kRanks,
     "not comparable",
     "each rank trains by itself",
     "the ranks have the same parameters again [at {steps:*step}][{!steps}in no step that was "
     "recorded]: nothing says whether they should have been the same in between",
     "where gradients are meant to be reduced, look at the first step that parts: `repro-check "
     "diff` "
     "of two ranks; where parameters are averaged now and then, use the averagers of "
     "torch.distributed.algorithms.model_averaging, of which is known what they do",
     "parameters part and come together again by hand"},
}};

#undef EXCHANGE
#undef CALL
#undef OTHER_CALL
#undef END_OF_MISSING
#undef SAME_GRADIENTS

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
