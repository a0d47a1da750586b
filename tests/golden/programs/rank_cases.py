# SPDX-License-Identifier: Apache-2.0
"""What `ranks` says of each fault.

A case is a function: its name is that of the file with what is said, its first line what it shows. It makes dumps in
the current directory and returns the command lines to run on them.
"""

import functools
import pathlib

import numpy as np
import repro_check
from recording import numbers, train
from repro_check.records import GeneratorUse

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def training(**options):
    """A case that changes the steps of a training."""

    def add(change):
        @case
        @functools.wraps(change)
        def made():
            train("run", change, **options)
            return [["ranks", "run"]]

        return made

    return add


def other(now, values):
    """Makes tensors those of this rank alone."""
    for name in values:
        values[name] = numbers(name, "of rank", now.rank, now.step)


def gradient_ops(now, *behind, reduce=True):
    """Makes a gradient by operators: a backward pass, a collective that makes it equal, and what `behind` names."""
    name = "fc.weight"

    def run(rank):
        own = numbers("own gradient", now.rank, now.step) if reduce else numbers("gradient", now.step)
        at = {"step": now.step, "phase": "backward"}
        rank.op("aten::mm", [numbers("x", now.step)], [own], module="fc", module_type="Linear", **at)
        if reduce:
            gradient = numbers("reduced", now.step)
            rank.op("c10d::allreduce_", [own], [gradient], step=now.step, phase="reduce", source="train.py:10")
        else:
            gradient = own
        for operator, line, by in behind:
            after = numbers(operator, line, now.step)
            rank.op(operator, [gradient, *by(rank, gradient)], [after], source=f"train.py:{line}", step=now.step)
            gradient = after
        now.grads[name] = gradient

    now.behind.append(run)


@training()
def in_sync(now):
    """Two ranks that agree, and all that is compared of them."""
    now.buffers = {"bn.running_mean": numbers("mean", now.step)}
    now.clip = {"max_norm": 1.0, "norm": 2.0, "norm_type": 2.0}
    now.state = {"fc.weight.exp_avg": numbers("average", now.step)}
    now.options = {"eps[0]": 1e-8}
    now.scale = {"found_inf[0].cpu": 0.0, "scale": 65536.0}


# State that replicas must have alike.


@training(ranks=3)
def initial_weights_differ(now):
    """One of three ranks starts from weights of its own."""
    if now.rank == 2:
        now.begin["fc.weight"] = numbers("own weight", now.step)
        now.params["fc.weight"] = numbers("own weight", now.step + 1)


@training()
def weights_written_between_steps(now):
    """Weights are equal behind step 0 and differ when step 1 begins."""
    if now.rank == 1 and now.step > 0:
        now.begin["fc.weight"] = numbers("own weight", now.step)


@training()
def running_statistics_drift(now):
    """Each rank keeps running statistics of its own under a wrapper, and its scheduler goes on alone."""
    now.buffers = {"bn.running_mean": numbers("mean", now.rank if now.step else 0, now.step)}
    now.rates = [0.1 if now.step < 2 or now.rank == 0 else 0.01]


@training(wrapper=False)
def running_statistics_without_wrapper(now):
    """The same without a wrapper that could hand buffers out."""
    now.buffers = {"bn.running_mean": numbers("mean", now.rank if now.step else 0, now.step)}


def in_parts(now, crossing):
    """A layer in two parts, and what goes into it."""
    name = f"up.weight@0:{now.rank}/2"
    for values in (now.begin, now.grads, now.params):
        values[name] = numbers(name, now.step, "params" if values is now.params else "")
    now.events.append(
        lambda rank: rank.record(
            "placed", {"enters|0,1": crossing}, step=now.step, module="up", module_type="Linear", source="train.py:31"
        )
    )


def draw(now, seed, before=0):
    """The model draws random numbers."""
    now.events.append(
        lambda rank: rank.op(
            "aten::bernoulli_",
            [numbers("x", now.step)],
            [numbers("mask", seed, now.step)],
            step=now.step,
            seeded=True,
            module="drop",
            module_type="Dropout",
            generator=GeneratorUse("cpu", seed, before + now.step, before + now.step + 1, 1),
        )
    )


@training(wrapper=False)
def tensor_parallel_other_data(now):
    """Ranks that work on parts of one layer read other batches."""
    in_parts(now, numbers("hidden", now.rank, now.step))


@training(wrapper=False)
def tensor_parallel_other_draws(now):
    """They read the same batches, and dropout before the layer draws other masks."""
    now.input = {"input[0]": numbers("input", now.step)}
    draw(now, seed=now.rank)
    in_parts(now, numbers("hidden", now.rank, now.step))


@training(wrapper=False)
def tensor_parallel_activations_differ(now):
    """They read and draw the same, and what goes into the layer differs all the same."""
    now.input = {"input[0]": numbers("input", now.step)}
    in_parts(now, numbers("hidden", now.rank, now.step))


def clipped(now, norm, local, max_norm=1.0):
    now.clip = {
        "max_norm": max_norm,
        "norm": norm,
        "norm_type": 2.0,
        "local_elements": 2.0,
        "local_epsilon": 2.0**-23,
        **{f"local.{name}": value for name, value in local.items()},
    }


@training()
def clipped_to_other_norms(now):
    """One rank clips to another norm."""
    clipped(now, 5.0, {"fc.weight": 3.0, "fc.bias": 4.0}, max_norm=1.0 + now.rank)


@training()
def clipped_other_parameters(now):
    """One rank leaves a parameter out of what it clips."""
    clipped(now, 5.0 - 2 * now.rank, {"fc.weight": 3.0, **({} if now.rank else {"fc.bias": 4.0})})


@training()
def clipped_before_reduction(now):
    """The gradients differ when they are clipped, and the recording does not hold what the optimizer reads."""
    clipped(now, [5.0, 3.0][now.rank], {"fc.weight": [4.0, 0.0][now.rank], "fc.bias": 3.0})
    del now.grads["fc.weight"]


@training()
def clipped_by_own_norm(now):
    """All ranks hold the same gradients, and each clips by another norm."""
    clipped(now, [5.0, 4.0][now.rank], {"fc.weight": 3.0, "fc.bias": 4.0})


@training()
def clipped_on_some_ranks(now):
    """One rank alone clips its gradients in step 1."""
    if now.step == 1 and now.rank == 1:
        clipped(now, 5.0, {"fc.weight": 3.0, "fc.bias": 4.0})
        other(now, now.grads)


@training()
def clipped_before_that_others_differ(now):
    """One of two gradients differs before all are clipped: it made the other differ."""
    if now.step == 1:
        clipped(now, [5.0, 3.0][now.rank], {"fc.weight": [4.0, 0.0][now.rank], "fc.bias": 3.0})
        other(now, now.grads)


@training()
def scaled_by_own_norm(now):
    """Each rank multiplies reduced gradients by a factor that it makes of a norm of its own."""

    def factor(rank, gradient):
        norm = numbers("norm", now.rank, now.step, count=1)
        rank.op("aten::linalg_vector_norm", [gradient], [norm], step=now.step, source="train.py:11")
        return [norm]

    gradient_ops(now, ("aten::mul_", 12 + now.rank, factor))


@training()
def loss_scales_differ(now):
    """The ranks skip the same steps and scale their losses otherwise."""
    now.scale = {"found_inf[0].cpu": 0.0, "scale": 65536.0 / (1 + now.rank * (now.step > 0))}


@training()
def overflow_not_reduced(now):
    """One rank alone learns that gradients overflowed, and skips the step."""
    overflows = now.step == 1 and now.rank == 1
    now.steps = not overflows
    now.scale = {"found_inf[0].cpu": float(overflows), "scale": 65536.0}


@training()
def step_skipped_on_some_ranks(now):
    """One rank makes two backward passes for the step that another makes after one."""
    if now.step == 1 and now.rank == 1:
        now.passes = 2
        other(now, now.grads)


def nothing(rank, gradient):
    return []


@training()
def gradients_changed_behind_reduction(now):
    """One rank multiplies a gradient that a collective had made equal."""
    gradient_ops(now, *([("aten::mul_", 11, nothing)] if now.rank else []))


@training(wrapper=False)
def gradients_changed_behind_backward(now):
    """The same where the backward pass alone made it equal."""
    gradient_ops(now, *([("aten::mul_", 11, nothing)] if now.rank else []), reduce=False)


@training()
def called_past_wrapper(now):
    """The forward pass of one step goes to the module inside the wrapper."""
    now.through = float(now.step != 1)
    if now.step == 1:
        other(now, now.grads)


@training(wrapper=False)
def partial_gradients_of_replicas(now):
    """A weight beside a layer in parts has the gradient of each rank's part."""
    in_parts(now, numbers("hidden", now.step))
    now.input = {"input[0]": numbers("input", now.step)}
    now.grads["fc.weight"] = numbers("partial", now.rank, now.step)


@training(ranks=3)
def gradients_of_some_ranks_differ(now):
    """Two ranks that read other data have the same gradients, and the third has others."""
    if now.rank == 2:
        other(now, now.grads)


@training()
def unused_parameters_block_reduction(now):
    """No gradient is reduced, and a parameter that no pass uses has none."""
    other(now, now.grads)
    for values in (now.begin, now.params):
        values["unused.weight"] = numbers("unused")


@training()
def gradients_not_reduced(now):
    """No gradient is reduced under a wrapper."""
    other(now, now.grads)


@training(wrapper=False)
def gradients_not_reduced_without_wrapper(now):
    """The same without a wrapper."""
    other(now, now.grads)


@training()
def gradients_missing_on_some_ranks(now):
    """One rank has no gradient of a parameter, and the others are equal."""
    if now.rank == 1:
        del now.grads["fc.weight"]


@training(ranks=3)
def some_gradients_not_reduced(now):
    """One of two gradients differs on one rank."""
    if now.rank == 1:
        now.grads["fc.weight"] = numbers("own", now.step)


@training()
def parameter_groups_differ(now):
    """One rank makes its optimizer with two groups of parameters."""
    now.rates = [0.1] * (1 + now.rank)


@training()
def learning_rates_differ(now):
    """One rank has another learning rate from the start."""
    now.rates = [0.1 / (1 + now.rank)]


@training()
def learning_rates_differ_later(now):
    """One rank alone steps its scheduler."""
    now.rates = [0.1 / (1 + now.rank * now.step)]


@training()
def optimizer_options_differ(now):
    """One rank has another weight decay."""
    now.options = {"weight_decay[0]": 0.01 * now.rank}


@training()
def optimizer_state_differs(now):
    """One rank did not load the state of its optimizer."""
    now.state = {"fc.weight.exp_avg": numbers("average", now.rank, now.step)}


@training()
def weights_written_beside_optimizer(now):
    """One rank writes its weights beside the optimizer, in step 1."""
    if now.step == 1 and now.rank == 1:
        other(now, now.params)


@training(
    ranks=4,
    wrapper=False,
    facts=lambda rank: {
        "distributed.wrapper": "DistributedDataParallel",
        "distributed.replicas": ["0,2", "1,3"][rank % 2],
    },
)
def replicas_on_some_ranks(now):
    """Of two groups of replicas one parts, and another rank of it is named."""
    group = now.rank % 2
    for values in (now.begin, now.grads, now.params):
        for name in now.NAMES:
            values[name] = numbers(
                name, group, now.step + (values is now.params), "grad" if values is now.grads else ""
            )
    if now.rank == 3 and now.step == 1:
        now.grads["fc.bias"] = numbers("own")


# Recordings of blocks.


def of_blocks(now, read=None):
    """The forward pass of step 0 has all parameters, later ones the smallest. read: names of those behind the step."""
    if now.step:
        now.begin.pop("fc.weight")
    now.params = {name: now.params[name] for name in read or now.params}


@training(blocks=True)
def blocks_in_sync(now):
    """Recordings of blocks agree, as far as they are judged."""
    of_blocks(now)
    now.buffers = {"bn.running_mean": numbers("mean", now.step)}


@training(blocks=True)
def blocks_initial_weights_differ(now):
    """The wrapper does not hand out the weights of rank 0."""
    if now.rank == 1:
        other(now, now.begin)
        other(now, now.params)
    of_blocks(now)


@training(ranks=3, blocks=True)
def weights_part(now):
    """What one of three ranks did, only gradients would tell; its weight is not read behind each step."""
    if now.rank == 2 and now.step > 0:
        now.params["fc.weight"] = numbers("own weight", now.step)
    of_blocks(now, ["fc.bias"] if now.step == 1 else None)


@training(blocks=True)
def blocks_called_past_wrapper(now):
    """The forward pass of step 1 did not go through the wrapper."""
    now.through = 1.0 if now.step == 0 else 0.0
    if now.rank == 1 and now.step > 0:
        other(now, now.params)
    of_blocks(now)


@training(blocks=True)
def blocks_weights_never_moved(now):
    """No parameter moves; gradients are not known."""
    now.params = {name: numbers(name) for name in now.NAMES}
    of_blocks(now)


@training(blocks=True, wrapper=False)
def blocks_other_shares(now):
    """Ranks that hold other parameters besides read other ones behind a step: only the same are held together."""
    if now.rank == 1:
        now.begin["own"] = now.params["own"] = numbers("own", now.step)
    of_blocks(now, [["fc.weight", "fc.bias"], ["fc.weight", "own"]][now.rank] if now.step == 1 else None)


@training(blocks=True, wrapper=False)
def blocks_of_local_training(now):
    """Parameters part and meet again, as the one that each forward pass begins with shows."""
    if now.step == 1:
        other(now, now.begin)
    if now.step < 2:
        other(now, now.params)
    of_blocks(now)


@training(blocks=True, wrapper=False)
def blocks_of_experts(now):
    """Nothing tells which parameters work on what an all_to_all brings: those of experts begin alike."""
    if now.step == 0:
        now.events.append(lambda rank: rank.op("c10d::alltoall_base_", [numbers("x", rank.rank)], [numbers("y", rank.rank)]))
    if now.rank == 1:
        other(now, now.params)
    of_blocks(now)


@case
def blocks_and_operators():
    """One rank was recorded at the borders of its blocks, and the other one with operators."""
    train("run")
    train("other", of_blocks, blocks=True)
    pathlib.Path("run/rank-1").rename("one")
    pathlib.Path("other/rank-1").rename("run/rank-1")
    return [["ranks", "run"]]


# What ranks exchange.


def merged():
    """Command lines that look at each of two ranks alone and put together what was found: no one has both dumps."""
    words = [
        ["ranks", "run", "--ranks", f"{rank}:{rank + 1}", "--format", "jsonl", "--output", f"{rank}.jsonl"]
        for rank in range(2)
    ]
    return [*words, ["report", "--merge", "0.jsonl", "1.jsonl"]]


def merging(**options):
    """A case whose two ranks are looked at alone, and what was found is put together."""

    def add(change):
        @case
        @functools.wraps(change)
        def made():
            train("run", change, **options)
            return merged()

        return made

    return add


@merging()
def reduced_in_parts(now):
    """Gradients differ between ranks that no one command has read both of."""
    other(now, now.grads)


@merging()
def clipped_in_parts(now):
    """The same of the norm by which gradients are clipped."""
    clipped(now, [5.0, 4.0][now.rank], {"fc.weight": 3.0, "fc.bias": 4.0})


SUM = {"reduce_op": "SUM"}


def grouped(run, change, ranks=2, steps=1, last=lambda rank: None, **options):
    """A training whose ranks make a group first."""

    def with_group(now):
        if now.step == 0:
            now.early.append(lambda rank: rank.group("world", *range(ranks)))
        change(now)

    train(run, with_group, ranks, steps, last=last, **options)


def exchanging(merge=False, **options):
    def add(change):
        @case
        @functools.wraps(change)
        def made():
            grouped("run", change, **options)
            return merged() if merge else [["ranks", "run"]]

        return made

    return add


def reduce(rank, size=4, line=20, returns=True, **beside):
    given = [numbers("reduced", line)] if returns else None
    rank.exchange("c10d::allreduce_", f"float32 [{size}]", line=line, returns=given, **{**SUM, **beside})


@exchanging(merge=True)
def exchanges_part(now):
    """Ranks make other collectives, and no one command has read both."""
    now.events.append(lambda rank: reduce(rank, size=4 + now.rank))


@exchanging()
def collective_mismatch_size(now):
    """Ranks reduce tensors of other sizes."""
    now.events.append(lambda rank: reduce(rank, size=4 + now.rank))


@exchanging()
def collective_mismatch_reduce_op(now):
    """One rank takes the maximum where the other one adds up."""
    now.events.append(lambda rank: reduce(rank, reduce_op=["SUM", "MAX"][now.rank]))


@exchanging()
def collective_mismatch_order(now):
    """Ranks make two collectives in another order."""

    def make(rank):
        for name in ["allreduce_", "allgather_"][:: [1, -1][now.rank]]:
            rank.exchange(f"c10d::{name}", "float32 [4]", returns=[numbers(name)], line=20 + len(name))

    now.events.append(make)


@exchanging()
def collective_mismatch_root(now):
    """Each rank broadcasts its own weights."""
    now.events.append(
        lambda rank: rank.exchange("c10d::broadcast_", "float32 [4]", root=now.rank, returns=[numbers("weights")])
    )


@exchanging()
def split_mismatch(now):
    """A rank sends another one more elements than that makes room for."""
    sends, receives = [[1, 3], [1, 1]][now.rank], [[1, 1], [2, 1]][now.rank]
    now.events.append(
        lambda rank: rank.exchange(
            "c10d::alltoall_base_",
            "float32 [3], float32 [4]" if now.rank else "float32 [2], float32 [4]",
            sends=sends,
            receives=receives,
            returns=[numbers("parts", now.rank)],
        )
    )


def message(rank, data, returns=True, line=30, read=None):
    """One that rank 0 sends and rank 1 receives. read: what the receiver's first reader finds."""
    sends = rank.rank == 0
    received = rank.exchange(
        "c10d::send" if sends else "c10d::recv_",
        "float32 [2]",
        tag=5,
        line=line,
        inputs=[data],
        returns=[] if returns else None,
        **({"to": 1} if sends else {"from": 0}),
    )
    if read is not None:
        # The same memory, which the receive has written.
        data[:] = read
        rank.op(
            "aten::relu",
            [repro_check.tensor(data, producer=received)],
            [numbers("relu")],
            source=f"train.py:{line + 1}",
        )


@exchanging()
def content_mismatch(now):
    """A message is read as something else than was sent: its memory was written while it was on its way."""
    if now.rank == 0:
        now.events.append(lambda rank: message(rank, numbers("sent")))
    else:
        now.events.append(lambda rank: message(rank, numbers("room"), read=numbers("other")))


@exchanging(ranks=3)
def result_mismatch(now):
    """A collective that gives all ranks the same gave one something else."""
    now.events.append(
        lambda rank: rank.exchange("c10d::allreduce_", "float32 [2]", **SUM, returns=[numbers("sum", now.rank == 2)])
    )


@exchanging(ranks=3)
def rank_missing(now):
    """One rank comes to its end without a collective that the others enter and do not complete."""
    if now.rank != 1:
        now.behind.append(lambda rank: reduce(rank, returns=False))


def raised(rank):
    return (
        {
            "end": {
                "exit_code": 1,
                "exception": {"type": "RuntimeError", "file": "train.py", "line": 19, "text": "0" * 32},
            }
        }
        if rank == 1
        else {}
    )


@exchanging(fields=raised)
def rank_missing_that_raised(now):
    """The same of a rank that an exception ended."""
    if now.rank != 1:
        now.behind.append(lambda rank: reduce(rank))


def cut_short(rank):
    return (
        {
            "trace": {
                "partial": {
                    "reason": "killed",
                    "last": 3,
                    "last_operator": "aten::mm (fc, train.py:18)",
                    "unfinished": [],
                    "lost_contents": 0,
                }
            }
        }
        if rank == 1
        else {}
    )


@exchanging(fields=cut_short)
def rank_missing_that_was_killed(now):
    """The same of a rank that was killed: its recording is cut short."""
    if now.rank != 1:
        now.behind.append(lambda rank: reduce(rank))


@exchanging()
def message_never_received(now):
    """A rank sends, and the other one never receives."""
    if now.rank == 0:
        now.events.append(lambda rank: message(rank, numbers("sent")))


@exchanging()
def message_never_sent(now):
    """A rank waits for a message that the other one never sends."""
    if now.rank == 1:
        now.behind.append(lambda rank: message(rank, numbers("room"), returns=False))


@exchanging()
def exchanges_that_match(now):
    """Collectives and messages of two ranks that match."""
    now.events.append(lambda rank: message(rank, numbers("sent")))
    now.events.append(reduce)


# What ranks read.


@training()
def ranks_read_same_data(now):
    """Both ranks read the same batches."""
    now.input = {"input[0]": numbers("input", now.step)}


@training(wrapper=False)
def ranks_read_same_data_without_wrapper(now):
    """The same where no wrapper says that they are replicas."""
    now.input = {"input[0]": numbers("input", now.step)}


def load(
    rank, step, samples, contents=None, epoch=0, loader=0, sampler="RandomSampler", workers=0, line=5, trains=True
):
    """A loader hands out a batch. samples: their numbers; contents: a number for what each of them is."""
    rank.record(
        "order",
        beside={"samples": samples, "sampler": sampler, "loader": loader, "epoch": epoch, "workers": workers},
        source=f"train.py:{line}",
        step=step,
        phase="data",
    )
    halves = [half for each in (contents or samples) for half in (each, 7)]
    rank.record(
        "batch",
        {"batch[0]": numbers("batch", contents or samples)},
        beside={"sample_digests": halves},
        step=step,
        phase="data",
    )


def loading(**options):
    """A case whose ranks load data: `change(rank, step)` returns batches, each the arguments of load()."""

    def add(change):
        @case
        @functools.wraps(change)
        def made():
            def with_batches(now):
                for batch in change(now.rank, now.step):
                    now.early.append(lambda rank, batch=batch: load(rank, now.step, **batch))

            train("run", with_batches, **options)
            return [["ranks", "run"]]

        return made

    return add


@loading()
def ranks_read_same_samples(rank, step):
    """Both ranks read all samples of an epoch, in another order."""
    return [{"samples": [(5 - 2 * step) % 6, (4 - 2 * step) % 6] if rank else [2 * step, 2 * step + 1]}]


@loading(steps=6)
def same_order_in_every_epoch(rank, step):
    """A DistributedSampler shuffles alike in each of two epochs."""
    place = step % 3
    samples = [[6, 2], [8, 0], [4, 10]][place]
    return [{"samples": [each + rank for each in samples], "epoch": step // 3, "sampler": "DistributedSampler"}]


@loading(steps=6, ranks=1, wrapper=False)
def same_order_of_own_generator(rank, step):
    """The same of a sampler with a generator that is seeded anew, while augmentation goes on."""
    samples = [[6, 2], [8, 0], [4, 10]][step % 3]
    return [{"samples": samples, "contents": [each + 100 * step for each in samples], "epoch": step // 3}]


@loading()
def every_worker_reads_all(rank, step):
    """Each of two workers reads the whole of an IterableDataset."""
    contents = [100 * rank + each for each in [[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7, 4, 5, 6, 7]][step]]
    return [{"samples": [], "contents": contents, "sampler": "IterableDataset", "workers": 2}]


@loading()
def samples_overlap(rank, step):
    """Two ranks shuffle by other seeds: some samples are read twice."""
    return [
        {"samples": [4 * step + each for each in ([0, 1] if rank == 0 else [1, 2])], "sampler": "DistributedSampler"}
    ]


@loading()
def trained_and_validated(rank, step):
    """Each rank draws a split of its own: one trains on what another one validates with."""
    trained, validated = ([0, 1], [30, 31]) if rank == 0 else ([10, 11], [0, 40])
    shift = 2 * step
    batches = [
        {"samples": [each + shift for each in validated], "loader": 1, "line": 6, "sampler": "SequentialSampler"}
    ]
    return [*batches, {"samples": [each + shift for each in trained], "sampler": "SequentialSampler"}]


@loading()
def samples_padded(rank, step):
    """A DistributedSampler repeats a sample so that both ranks have as many."""
    return [{"samples": [(2 * step + rank) % 5], "sampler": "DistributedSampler"}]


# What ranks do.


def sharded(now, norm, parts=(3.0, 4.0), whole=0.0):
    """Gradients in two parts, and one that both ranks hold, clipped by `norm`."""
    name = f"fc.weight@0:{now.rank}/2"
    for values in (now.begin, now.grads, now.params):
        values[name] = numbers(name, now.step, "after" if values is now.params else "")
        del values["fc.weight"]
    now.clip = {
        "max_norm": 1.0,
        "norm": norm,
        "norm_type": 2.0,
        "all_ranks": 1.0,
        "local_elements": 2.0,
        "local_epsilon": 2.0**-23,
        f"local.{name}": parts[now.rank],
        "local.fc.bias": whole,
    }


@training(wrapper=False)
def norm_lacks_shard(now):
    """The norm that gradients are clipped by is that of one rank's part."""
    sharded(now, 3.0)


@training(wrapper=False)
def norm_lacks_what_is_whole(now):
    """The norm lacks what both ranks hold."""
    sharded(now, 5.0, whole=2.0)


@training(wrapper=False)
def norm_counts_replicas(now):
    """The norm counts what both ranks hold twice."""
    sharded(now, 57.0**0.5, whole=4.0)


@training(wrapper=False)
def norm_of_more(now):
    """The norm is that of more than the gradients."""
    sharded(now, 9.0)


def uneven(now, least):
    """Rank 1 makes fewer steps."""
    if now.rank == 1 and now.step >= least:
        now.steps = False


@training()
def steps_skipped(now):
    """One rank makes as many backward passes and fewer steps."""
    uneven(now, 2)


@case
def steps_uneven():
    """One rank has fewer batches."""

    def stop(now):
        uneven(now, 2)
        now.passes = int(now.steps)

    train("run", stop)
    return [["ranks", "run"]]


@training(fields=raised)
def steps_ended_by_exception(now):
    """An exception ends one rank before its last step."""
    uneven(now, 2)
    now.passes = int(now.steps)


@case
def steps_joined():
    """A rank without batches takes part in what the other one reduces."""

    def stop(now):
        uneven(now, 2)
        now.passes = int(now.steps)
        now.behind.append(reduce)

    grouped("run", stop, steps=3)
    return [["ranks", "run"]]


@training(facts=lambda rank: {"distributed.joined.0": 2 + rank}, steps=3)
def left_join_uneven(now):
    """Ranks left a join() context behind other numbers of steps."""


@training()
def masks_are_copies(now):
    """Both ranks draw from one seed."""
    draw(now, seed=5)


@training()
def generator_of_another_rank(now):
    """From step 1 on both ranks draw from the state of one generator."""
    draw(now, seed=5 if now.step else 5 + now.rank, before=10 * (now.step > 0))


@training()
def no_draws_on_some_ranks(now):
    """One rank draws nothing from step 1 on, as in eval() mode."""
    if now.rank == 0 or now.step == 0:
        draw(now, seed=5 + now.rank)


@training(wrapper=False)
def parts_are_copies(now):
    """Two ranks hold the same in parts that are meant to be others."""
    name = f"up.weight@0:{now.rank}/2"
    for values in (now.begin, now.grads, now.params):
        values[name] = numbers("up", now.step, "after" if values is now.params else "")


@training()
def nan_on_rank(now):
    """One rank reads NaN, and all have it behind the reduction."""
    if now.step == 1 and now.rank == 1:
        now.input = {"input[0]": np.array([np.nan, 1], "f4")}
    if now.step == 2:
        now.loss = np.array([np.nan], "f4")


@training()
def nan_in_what_is_made(now):
    """The loss of one rank is NaN first."""
    if now.step == 1 and now.rank == 1:
        now.loss = np.array([np.nan], "f4")


@training()
def no_gradients(now):
    """No step of the optimizer finds a gradient."""
    now.grads, now.norm = {}, 0.0
    now.params = {name: numbers(name) for name in now.NAMES}
    now.begin = dict(now.params)


@training()
def weights_never_moved(now):
    """Gradients are not 0, and no weight moves."""
    now.params = {name: numbers(name) for name in now.NAMES}
    now.begin = dict(now.params)


@training(steps=4, facts={"untrained.head.weight": ""})
def parameters_never_move(now):
    """One parameter is in no optimizer, one has no gradient, and one has gradients that change nothing."""
    for values in (now.begin, now.params):
        values.update({"unused.weight": numbers("unused"), "small.weight": numbers("small")})
    now.grads["small.weight"] = numbers("small gradient", now.step)


@case
def experts_without_gradient():
    """An expert, which works on what ranks exchange, has no gradient: the collective has no backward pass."""

    def run(now):
        expert = numbers("expert")
        for values in (now.begin, now.params):
            values["expert.weight"] = expert

        def exchange(rank):
            parts = numbers("parts", now.rank, now.step)
            rank.exchange(
                "c10d::alltoall_base_",
                "float32 [2], float32 [2]",
                sends=[],
                receives=[],
                returns=[parts],
                inputs=[numbers("own", now.rank, now.step)],
                step=now.step,
            )
            rank.op(
                "aten::mm",
                [parts, expert],
                [numbers("out", now.rank, now.step)],
                module="expert",
                module_type="Linear",
                step=now.step,
            )

        now.events.append(exchange)
        if now.step == 0:
            now.early.append(lambda rank: rank.writer.parameter("expert.weight", expert))

    grouped("run", run, steps=4)
    return [["ranks", "run"]]


def averaged(now):
    """Ranks train apart and have the same weights again when step 2 begins."""
    apart = now.step % 2 == 1
    other(now, now.grads)
    if apart:
        other(now, now.begin)
    else:
        other(now, now.params)


@training(steps=4, wrapper=False, facts={"distributed.averager": "PeriodicModelAverager"})
def averaged_at_times(now):
    """An averager makes weights equal at every second step."""
    averaged(now)


@training(steps=4)
def ranks_part_and_meet(now):
    """Weights part and come together again, and nothing says why."""
    averaged(now)


# What cannot be compared.


@training(fields=lambda rank: {"run_id": "0a" * 16 if rank else "0b" * 16})
def ranks_of_several_runs(now):
    """The ranks are of two runs."""


@training(fields=lambda rank: {"attempt": 1} if rank else {})
def ranks_of_several_attempts(now):
    """One rank was recorded behind a restart."""


@training(fields=lambda rank: {"trace": {"only": "steps 0:2"}} if rank else {})
def ranks_of_several_parts(now):
    """One rank recorded some steps alone."""


@training(fields={"run_id": ""})
def ranks_of_no_named_run(now):
    """No dump says of which run it is."""
    if now.rank == 1:
        now.rates = [0.2]


@case
def absent_and_unreadable():
    """One rank is absent, one cannot be read, and one was cut short."""
    train("run", ranks=4, fields=cut_short)
    for name in ("manifest.json", "trace.h5"):
        pathlib.Path("run/rank-2", name).unlink()
    pathlib.Path("run/rank-2").rmdir()
    trace = pathlib.Path("run/rank-3/trace.h5")
    trace.write_bytes(trace.read_bytes()[:2000])
    return [["ranks", "run"]]


@training(wrapper=False)
def no_known_replicas(now):
    """Nothing says which parameters are replicas: they begin apart, and no gradient is reduced."""
    for values in (now.begin, now.grads, now.params):
        other(now, values)


@training(wrapper=False, ranks=2)
def what_is_not_judged(now):
    """Parameters, a norm and exchanges that nothing can be held against."""
    other(now, now.begin)
    del now.begin["fc.bias"], now.params["fc.bias"], now.grads["fc.bias"]
    now.begin["norm.weight"] = now.params["norm.weight"] = numbers("norm", now.step)
    now.grads["norm.weight"] = numbers("norm gradient", now.step)
    other(now, now.grads)
    other(now, now.params)
    now.clip = {
        "max_norm": 1.0,
        "norm": 5.0,
        "norm_type": 1.0,
        "all_ranks": 1.0,
        "local.fc.weight": 3.0,
        "local.norm.weight": 4.0,
    }
    now.events.append(lambda rank: reduce(rank, group=""))
