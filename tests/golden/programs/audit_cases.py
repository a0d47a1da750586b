# SPDX-License-Identifier: Apache-2.0
"""What `audit` says of small programs, each with a fault, and of those that look the same and are right. See
rank_cases.py."""

import datetime
import functools
import json
import pathlib
import struct
import zipfile

import numpy as np
import recording

CASES = {}
# A day on which what is expected is in force; the files of expected output have the word in its place.
SOON = (datetime.datetime.now(datetime.timezone.utc).date() + datetime.timedelta(days=90)).isoformat()


class Program:
    """A recording that is made call by call. A tensor is `(storage, value)`: the same value, the same bytes; a third
    member is its dtype."""

    def __init__(self, run):
        self.run = run
        self.tensors, self.named, self.ops = {}, [], []
        self.manifest = {"method": "program", "level": "digest"}

    def write(self):
        pathlib.Path(self.run).parent.mkdir(exist_ok=True)
        recording.describe(
            {
                "run": self.run,
                "manifest": self.manifest,
                "tensors": self.tensors,
                "named": self.named,
                "ops": self.ops,
            }
        )

    def tensor(self, given):
        storage, value, dtype = (*given, "float32")[:3]
        name = f"{storage} {value} {dtype}"
        described = {"dtype": dtype, "shape": [2], "storage": storage}
        if value is None:
            described["state"] = "uninitialised"
        elif isinstance(value, list):
            described.update(shape=[len(value)], values=value)
        else:
            described["values"] = [value, value if value in (0, "nan") else value + 1]
        self.tensors.setdefault(name, described)
        return name

    def name(self, given, name):
        self.named.append({"kind": "parameter", "name": name, "tensor": self.tensor(given)})

    def op(self, name, inputs=(), outputs=(), **more):
        self.ops.append(
            {
                "operator": f"aten::{name}",
                "source": f"train.py:{len(self.ops) + 1}",
                "inputs": {slot: self.tensor(given) for slot, given in dict(inputs).items()},
                "outputs": [self.tensor(given) for given in outputs],
                **more,
            }
        )

    def record(self, name, tensors=(), scalars=None, **more):
        """One of `repro_check::`; where it has tensors, no text is among the scalars."""
        held = {slot: self.tensor(given) for slot, given in dict(tensors).items()}
        self.op(name, (), (), **({"returned": {**held, **(scalars or {})}} if held else {"scalars": scalars}), **more)
        self.ops[-1]["operator"] = f"repro_check::{name}"

    def loss(self, step, value=1):
        self.record("loss", {"loss": (f"loss {step}", value)}, step=step, phase="loss")

    def optimizer(self, step, tensors, norm=1.0, rate=0.1, **more):
        """tensors: by slot, as `param.w`."""
        more = {"source": "train.py:90", "phase": "optimizer", "step": step, **more}
        self.record("optimizer_step", tensors, {"lr[0]": rate, "grad_norm": norm}, **more)


def case(rule, *variants):
    """A case of a rule: a fault, `wrong`, and innocents, which stay silent. The function is given a program, and the
    name of the variant that it is to be."""

    def decorated(make):
        @functools.wraps(make)
        def made():
            commands = []
            for variant in ("wrong", *variants):
                program = Program(variant)
                make(program, variant)
                program.write()
                commands.append(["audit", variant, "--check", rule, *([] if variant == "wrong" else ["-q"])])
            return commands

        CASES[f"audit_{make.__name__}"] = made
        return make

    return decorated


def draw(place):
    return {"seeded": True, "generator": {"device": "cpu", "seed": 0, "before": place, "after": place + 2, "drawn": 2}}


@case("recomputed-otherwise", "preserved", "twice", "quiet", "two_draws")
def recomputed_otherwise(program, variant):
    """A checkpointed block draws another mask in the backward pass."""
    inside = {
        "module": "block.1",
        "module_type": "Block",
        "source": "model.py:40",
        "scalars": {"p": 0.5, "train": True},
    }
    drew = {} if variant == "quiet" else draw(0)
    if variant == "two_draws":
        # A noise that a backward pass adds is no mask that is made again: no value is read.
        for place, phase in enumerate(("forward", "backward")):
            program.op("randn_like", {"self": ("x", 1)}, [(f"noise {place}", 5 + place)], phase=phase, **draw(place))
        return
    program.op("dropout", {"input": ("x", 1)}, [("a", 2)], **inside, **drew)
    program.loss(0)
    right = variant in ("preserved", "twice", "quiet")
    for times in range(2 if variant == "twice" else 1):
        left = (f"b {times}", 2 if right else 3)
        program.op("dropout", {"input": ("x", 1)}, [left], phase="recompute", **inside, **drew)


def call_of_jax(program, name, inputs, output, key, kind="key<fry>", **more):
    """A call of a compiled function; key: the words of the one that it draws from."""
    program.manifest["environment"] = {"framework": "jax"}
    drew = {"seeded": True, "generator": {"device": kind, "seed": key, "before": 0, "after": 0, "drawn": -1}}
    program.op(name, inputs, [output], **drew, **more)
    program.ops[-1]["operator"] = f"jax::{name}"


@case("key-is-constant", "argument", "once", "evaluates", "trains")
def key_is_constant(program, variant):
    """A key is in a compiled function: each call drops the same elements."""
    for time in range(1 if variant == "once" else 3):
        key = time + 1 if variant == "argument" else 7
        kind = "key<fry>" if variant == "argument" else "constant key<fry>"
        inputs = {"x": ("x", 1) if variant != "evaluates" else (f"x {time}", time)}
        if variant == "trains":
            inputs["state"] = (f"state {time - 1}", 10 + time)
        output = (f"state {time}", 11 + time)
        call_of_jax(program, "train_step", inputs, output, key, kind, source="train.py:9", step=time)


@case("key-used-twice", "split", "copy", "order", "library")
def key_used_twice(program, variant):
    """Two functions draw from one key."""
    names = {"copy": ("normal", "normal"), "order": ("shuffle", "shuffle")}.get(variant, ("normal", "uniform"))
    for place, name in enumerate(names):
        key = place if variant == "split" else 7
        at = {"source": f"train.py:{3 + place}"}
        if variant == "library":
            at["module"] = "flax"
        given = {"key": (f"key {key}", [key, key], "uint32")}
        output = (f"y {place}", [5 + place] * (3 if variant == "order" and place else 2))
        call_of_jax(program, f"random.{name}", given, output, key, **at)


@case("draws-repeat", "advances", "twice", "eval", "recomputed", "trainings")
def draws_repeat(program, variant):
    """A seed that is set inside of the loop: each step drops the same elements."""
    program.manifest["environment"] = {
        "set.torch.manual_seed": "(0), 4 calls, the last (0)",
        "set_at.torch.manual_seed": "train.py:9",
    }
    for step in range(12 if variant == "trainings" else 4):
        if variant == "trainings" and step % 4 != 0:  # the others go on from there
            continue
        place = 100 * step if variant == "advances" or (variant == "twice" and step > 1) else 0
        phase = {"eval": "eval", "recomputed": "recompute"}.get(variant, "forward")
        scalars = {"p": 0.5, "train": True}
        at = {"module": "drop", "source": "model.py:40", "scalars": scalars, "step": step, "phase": phase}
        program.op("dropout", {"input": (f"x {step}", step + 1)}, [(f"a {step}", step + 2)], **at, **draw(place))
        if variant in ("wrong", "advances"):  # what a program makes of noise nobody knows
            noise = {"source": "train.py:30", "step": step, "phase": "loss", **draw(place + 2)}
            program.op("randn_like", {"self": (f"a {step}", step + 2)}, [(f"noise {step}", 5)], **noise)
        program.loss(step)
        program.optimizer(step, {"param.w": ("w", 10 + step)})


@case("drawn-once", "anew", "two_calls", "other_results")
def drawn_once(program, variant):
    """A model that keeps the mask of its first call."""
    program.manifest = {"method": "forward", "level": "digest"}
    program.manifest["environment"] = {"model.mode": "train", "model.training": "on"}
    for call in range(2 if variant == "two_calls" else 4):
        if call == 0 or variant == "anew":
            at = {"source": "model.py:9", "step": call}
            program.op("rand_like", {"self": ("x", 1)}, [(f"mask {call}", 2)], **at, **draw(10 * call))
        result = call if variant == "other_results" else 0
        program.op("mul", {"self": ("x", 1), "other": ("mask 0", 2)}, [(f"y {call}", 5 + result)], step=call)
        program.record("returned", {"out": (f"y {call}", 5 + result)}, step=call)


@case("read-unwritten", "shown")
def read_unwritten(program, variant):
    """A buffer that is not persistent, behind to_empty()."""
    program.op("empty_like", {}, [("freqs", None)], source="load.py:12")
    if variant == "shown":  # NumPy may fill it through the view
        program.op("detach", {"self": ("freqs", None)}, [("freqs", None)], view=True)
    held = program.tensor(("freqs", 4))
    program.tensors[held]["name"] = "state:freqs"
    program.op("mul", {"self": ("freqs", 4)}, [("y", 5)], module="rotary")


@case("copy-did-not-copy", "cloned", "one_bucket")
def copy_did_not_copy(program, variant):
    """A tensor is copied onto itself, one row further."""
    source = ("other" if variant == "cloned" else "rows", 1)
    left = ("rows", 1 if variant == "one_bucket" else 7)
    if variant == "cloned":
        left = ("rows", 1)
    program.op("copy_", {"self": ("rows", 4), "src": source}, [left])


@case("weights-never-moved", "few_steps", "rate_of_0", "moves")
def weights_never_moved(program, variant):
    """An optimizer has parameters with gradients, and leaves them as they are."""
    for step in range(2 if variant == "few_steps" else 4):
        program.loss(step)
        weight = 7 + step if variant == "moves" else 7
        rate = 0.0 if variant == "rate_of_0" else 0.1
        program.optimizer(step, {"param.w": ("w", weight), "grad.w": (f"g {step}", step)}, rate=rate)


@case("weights-never-moved", "frozen")
def parameters_forgotten(program, variant):
    """A parameter gets gradients and is in no optimizer; another one of the optimizer gets none."""
    if variant == "wrong":
        program.manifest["environment"] = {"untrained.head.weight": ""}
    for step in range(4):
        program.loss(step)
        tensors = {"param.w": ("w", step), "grad.w": (f"g {step}", step)}
        if variant == "wrong":
            tensors.update({"param.cut": ("cut", 3), "param.still": ("still", 5), "grad.still": (f"s {step}", step)})
        program.optimizer(step, tensors)


@case("same-at-every-sync", "moving", "reference", "rate_of_0")
def same_at_every_sync(program, variant):
    """An adapter is never sent: what is pushed is the same at every sync."""
    base = ("reference" if variant == "reference" else "base", 3)
    program.name(base, "Reference.weight" if variant == "reference" else "base.weight")
    for step in range(4):
        program.loss(step)
        program.optimizer(step, {"param.lora.weight": ("lora", 1 if variant == "rate_of_0" else step)})
        sent = {"source": "push.py:9", "step": step + 1}
        program.op("copy_", {"self": ("rollout", 0), "src": base}, [("rollout", 3)], **sent)
        if variant == "moving":
            program.op("copy_", {"self": ("r2", 0), "src": ("lora", step)}, [("r2", step)], **sent)


@case("not-what-the-step-left", "put_back", "in_place", "evaluated", "loaded_first", "sent")
def not_what_the_step_left(program, variant):
    """The average of the weights is put in for a checkpoint, and never taken out."""
    if variant == "loaded_first":
        program.op("copy_", {"self": ("w", 50), "src": ("file", 60)}, [("w", 60)])
    held = 60 if variant == "loaded_first" else 50
    for step in range(3):
        program.op("linear", {"input": ("x", 1), "weight": ("w", held)}, [(f"y {step}", step)], step=step, module="fc")
        program.loss(step)
        held = 70 + step
        program.optimizer(step, {"param.fc.weight": ("w", held)})
        if step != 1 or variant == "loaded_first":
            continue
        after = {"step": 2}
        if variant == "in_place":
            program.op("clamp_", {"self": ("w", held)}, [("w", 80)], **after)
            held = 80
            continue
        if variant == "sent":  # by another rank, as where DistributedDataParallel begins
            program.op("c10d", {"tensors.0": ("average", 1)}, [("average", 90)], **after)
            program.ops[-1]["operator"] = "c10d::broadcast_"
        program.op("copy_", {"self": ("w", held), "src": ("average", 90)}, [("w", 90)], source="ema.py:5", **after)
        if variant == "evaluated":  # in training mode
            program.op("linear", {"input": ("x", 1), "weight": ("w", 90)}, [("v", 1)], step=2, module="fc")
        if variant in ("put_back", "evaluated"):
            program.op("copy_", {"self": ("w", 90), "src": ("own", held)}, [("w", held)], **after)
        else:
            held = 90


@case("step-without-backward", "cleared", "state_made")
def step_without_backward(program, variant):
    """A dummy step makes state, and a load without the optimizer leaves it in place."""
    first = {"param.w": ("w", 1), "state.w.exp_avg": ("m", 0)}
    program.optimizer(0, first, norm=0.0)
    state = "m2" if variant == "cleared" else "m"
    if variant == "state_made":  # by get_optimizer_state_dict(), which loads it then
        program.op("copy_", {"self": ("m", 0), "src": ("file", 4)}, [("m", 4)], step=1)
    program.loss(1)
    program.optimizer(1, {"param.w": ("w", 2), "state.w.exp_avg": (state, 5)}, source="train.py:91")


@case("restored-then-overwritten", "refreshed", "plain")
def restored_then_overwritten(program, variant):
    """Masters of a bfloat16 model know nothing of the weights that are restored behind them."""
    weight = ("w", 1, "bfloat16")
    program.op("to", {"self": weight}, [("cast", 1)], source="masters.py:3")
    program.op("clone", {"self": ("cast", 1)}, [("master", 1)], source="masters.py:3")
    program.op("copy_", {"self": weight, "src": ("file", 9, "bfloat16")}, [("w", 9, "bfloat16")], source="load.py:5")
    if variant == "refreshed":
        program.op("copy_", {"self": ("master", 1), "src": ("w", 9, "bfloat16")}, [("master", 9)])
    program.loss(0)
    stepped = ("w", 5, "bfloat16") if variant == "plain" else ("master", 3)
    program.optimizer(0, {"param.w": stepped})
    if variant != "plain":
        back = {"self": ("w", 9, "bfloat16"), "src": ("master", 3)}
        program.op("copy_", back, [("w", 3, "bfloat16")], source="masters.py:8", step=1)


@case("untied", "zeros", "tied", "not_trained")
def untied(program, variant):
    """A load unties an embedding and the head."""
    value = 0 if variant == "zeros" else 6
    head = "embed" if variant == "tied" else "head"
    program.op("embedding", {"weight": ("embed", value), "indices": ("i", 1)}, [("h", 2)], module="embed")
    program.op("linear", {"input": ("h", 2), "weight": (head, value)}, [("y", 3)], module="head")
    program.loss(0)
    trained = {"param.embed.weight": ("embed", 7), "param.head.weight": ("head", 8)}
    if variant in ("tied", "not_trained"):
        del trained["param.head.weight"]
    program.optimizer(0, trained)


@case("filled-on-partial", "zeros", "factor", "greatest", "replicated", "plain")
def filled_on_partial(program, variant):
    """A number is written into a DTensor that is a sum over ranks."""
    program.manifest["environment"] = {"distributed.rank": "0", "distributed.ranks": "2"}
    program.tensors["whole"] = {"dtype": "float32", "shape": [2], "storage": "whole", "state": "none"}

    def whole(name, **more):
        program.op(name, **more)
        program.ops[-1].update(inputs={"self": "whole"}, outputs=["whole"])
        return {"parent": len(program.ops) - 1, "depth": 1}

    program.op("sum", {"self": ("x", 1)}, [("count", 2)])
    name, number = ("mul_" if variant == "factor" else "fill_"), {"value": 0.0 if variant == "zeros" else 5.0}
    inside = {} if variant == "plain" else whole(name, scalars=number, source="train.py:18")
    program.op(name, {"self": ("count", 2)}, [("count", 5)], scalars=number, **{**inside, "source": "train.py:18"})
    inside = whole("div", source="train.py:19")
    kind = {"scalars": {"reduce_op": "max" if variant == "greatest" else "sum"}}
    summed = ("other", 9) if variant == "replicated" else ("count", 5)
    program.op("all_reduce", {"input": summed}, [("total", 10)], **{**inside, "source": "train.py:19"}, **kind)
    program.ops[-1]["operator"] = "_c10d_functional::all_reduce"


@case("epoch-never-arrives", "arrives", "no_workers", "older")
def epoch_never_arrives(program, variant):
    """The epoch is set of a dataset whose workers go on from the epoch before it."""
    for at in range(4):
        told = {"loader": 0, "epoch": at // 2, "workers": 0 if variant == "no_workers" else 2, "samples": [at]}
        if variant not in ("older", "no_workers"):
            told["unseen"] = "epoch, transform.step" if variant == "wrong" and at > 1 else ""
        program.record("order", (), told, step=at, phase="data", source="train.py:5")
        program.record("batch", {"batch[0]": (f"x {at}", at)}, {}, step=at, phase="data", source="train.py:5")


@case("dropout-in-eval", "told", "frozen", "monte_carlo", "sampled", "training")
def dropout_in_eval(program, variant):
    """Attention drops values in evaluation mode."""
    phase = "forward" if variant in ("training", "told") else "eval"
    trains = variant == "monte_carlo"
    # An attention that drops values in evaluation mode, and a frozen model whose Dropout keeps still.
    modes = {"modes": "autocast.cpu=bfloat16 module=eval"} if variant in ("told", "frozen") else {}
    if variant == "frozen":
        quiet = {"module": "attn", "module_type": "Attention", "scalars": {"dropout_p": 0.0}}
        quiet.update(modes, phase=phase)
        return program.op("scaled_dot_product_attention", {"query": ("x", 1)}, [("y", 3)], **quiet)
    drop = {"module": "drop", "module_type": "Dropout", "scalars": {"p": 0.2, "train": trains}}
    program.op("dropout", {"input": ("x", 1)}, [("x", 1)], phase=phase, **drop, **(draw(0) if trains else {}))
    attention = {"module": "attn", "module_type": "Attention", "scalars": {"dropout_p": 0.2}}
    if variant == "sampled":
        return program.op("multinomial", {"self": ("x", 1)}, [("s", 1)], phase=phase, **draw(2))
    if variant != "monte_carlo":
        given = dict.fromkeys(("query", "key", "value"), ("x", 1))
        program.op("scaled_dot_product_attention", given, [("y", 3)], phase=phase, **attention, **modes, **draw(2))


@case("trains-in-eval", "back", "one_kind", "norm_frozen")
def trains_in_eval(program, variant):
    """Validation puts the model into evaluation mode, and training goes on in it."""

    def passes(step, trains, phase="forward"):
        kinds = {"batch_norm": "training", "dropout": "train"}
        for kind, flag in kinds.items():
            on = trains and not (variant == "norm_frozen" and kind == "batch_norm")
            if variant == "one_kind" and kind == "batch_norm":
                on = phase == "forward"
            program.op(
                kind, {"input": ("x", 1)}, [(f"y {step}", 2)], step=step, phase=phase, scalars={flag: on}, module=kind
            )

    for step in range(4):
        passes(step, step < 2 or variant == "back")
        program.loss(step)
        program.optimizer(step, {"param.w": ("w", step)})
        if step == 1:
            passes(2, False, "eval")


@case("older-than-weights", "cleared", "momentum_encoder")
def older_than_weights(program, variant):
    """A cache of keys outlives an update."""
    trained = "other" if variant == "momentum_encoder" else "w"
    program.op("linear", {"input": ("a", 1), "weight": ("w", 5)}, [("k1", 6)], module="attn.k", source="model.py:12")
    program.loss(0)
    program.optimizer(0, {"param.attn.k.weight": (trained, 7)})
    program.op(
        "linear", {"input": ("b", 1), "weight": ("w", 7)}, [("k2", 8)], module="attn.k", source="model.py:12", step=1
    )
    cache = ("k2", 8)
    if variant != "cleared":
        program.op("cat", {"tensors.0": ("k1", 6), "tensors.1": ("k2", 8)}, [("cache", 9)], step=1)
        cache = ("cache", 9)
    given = {"query": ("q", 1), "key": cache, "value": ("v", 1)}
    program.op("scaled_dot_product_attention", given, [("y", 3)], module="attn", source="model.py:20", step=1)


@case("workers-draw-alike", "seeded", "constant", "labels")
def workers_draw_alike(program, variant):
    """Two workers have copies of one generator."""
    for at in range(4):
        told = {"loader": 0, "epoch": 0, "workers": 2, "samples": [2 * at, 2 * at + 1]}
        program.record("order", (), told, step=at, phase="data", source="train.py:5")
        noise = {"seeded": at, "constant": 0}.get(variant, at // 2)
        dtype = "int64" if variant == "labels" else "float32"
        batch = {"batch[0]": (f"x {at}", at), "batch[1]": (f"n {at}", noise, dtype)}
        program.record("batch", batch, {}, step=at, phase="data", source="train.py:5")


@case("divisor-zero", "skipped", "kept_apart")
def divisor_zero(program, variant):
    """A micro-batch without labels divides its loss by 0."""
    count = 3 if variant == "kept_apart" else 0
    program.op(
        "div", {"self": ("sum", 0), "other": ("count", count)}, [("loss", "nan")], phase="loss", source="loss.py:7"
    )
    program.loss(0, "nan")
    program.optimizer(0, {"param.w": ("w", 5 if variant == "skipped" else "nan")})


@case("weight-without-effect", "each_step", "below_an_ulp")
def weight_without_effect(program, variant):
    """One autocast around the whole loop: its cache hides every step."""
    for step in range(3):
        seen = step if variant == "each_step" else 0
        modes = {"modes": "autocast.cpu=bfloat16", "step": step, "module": "fc", "source": "model.py:4"}
        given = {"input": ("x", 1), "weight": ("w", 10 + step)}
        program.op("linear", given, [(f"y {step}", seen, "bfloat16")], **modes)
        program.loss(step)
        cast = (f"cast {step}" if variant == "below_an_ulp" else "cast", 20 + seen, "bfloat16")
        program.op("mm", {"self": (f"g {step}", 1), "mat2": cast}, [(f"d {step}", 2)], phase="backward", **modes)
        program.optimizer(step, {"param.fc.weight": ("w", 11 + step)})


@case("lost-in-rounding", "residual", "kept", "no_update")
def lost_in_rounding(program, variant):
    """An update of bfloat16 weights is below half a ULP of most of them."""
    program.manifest["level"] = "tensor"
    update = {"no_update": [0, 0, 0, 0]}.get(variant, [0.001, 0.001, 0.001, 1])
    left = [9, 9, 9, 9] if variant == "kept" else [8, 8, 8, 9]
    base, delta, sum_ = ([*each, "bfloat16"] for each in (("w", [8, 8, 8, 8]), ("d", update), ("s", left)))
    program.op("add", {"self": base, "other": delta}, [sum_], source="merge.py:3")
    if variant != "residual":
        target = ("rollout", [1, 1, 1, 1], "bfloat16")
        program.op("copy_", {"self": target, "src": sum_}, [("rollout", left, "bfloat16")])
        program.op("linear", {"input": ("x", 1), "weight": ("rollout", left, "bfloat16")}, [("y", 1, "bfloat16")])


def hand_out(program, loader, samples, step, contents=None, **more):
    """A batch of some samples, each of which holds its number."""
    told = {"loader": loader, "epoch": 0, "workers": 0, "sampler": "RandomSampler", "samples": samples, **more}
    line = {"phase": "data", "source": f"train.py:{20 + loader}", "step": step}
    program.record("order", (), told, **line)
    digests = [half for each in contents or samples for half in (each + 1, 77)]
    program.record("batch", {f"batch[{loader}]": (f"x {step} {loader}", step)}, {"sample_digests": digests}, **line)


@case("trained-and-validated", "disjoint", "of_training", "augmented", "paired")
def trained_and_validated(program, variant):
    """Samples are in the training set and in the validation set."""
    for step in range(3):
        hand_out(program, 0, [2 * step, 2 * step + 1], step)
        program.loss(step)
        program.optimizer(step, {"param.w": ("w", step)})
    validated = {"disjoint": [10, 11, 12, 13], "of_training": [0, 1, 2, 3]}.get(variant, [4, 5, 10, 11])
    contents = [40, 41, 42, 43] if variant == "augmented" else None
    hand_out(program, 1, validated, 3, contents)
    if variant != "paired":  # a loader beside the first one, whose batches are trained on together
        program.op("linear", {"input": ("v", 1), "weight": ("w", 2)}, [("y", 3)], phase="eval", step=3)


def rank_folder(run, make):
    """Dumps of two ranks."""
    for rank in range(2):
        program = Program(f"{run}/rank-{rank}")
        program.manifest["environment"] = {"distributed.rank": str(rank), "distributed.ranks": "2"}
        make(program, rank)
        program.write()


def twice_in_a_batch():
    """A cyclic sampler wraps at another step on each rank."""

    def make(program, rank, variant):
        for step in range(3):
            samples = [4 * step + 2 * rank, 4 * step + 2 * rank + 1]
            contents = None
            if step == 1 and rank == 1:
                samples = {"wrong": [4, 7], "copies": [6, 7], "replaced": [4, 4]}.get(variant, samples)
                contents = [4, 7] if variant == "copies" else None
            if step == 2 and variant == "padded" and rank == 1:
                samples = [8, 11]
            if variant == "one_group":
                samples = [2 * step, 2 * step + 1]
            hand_out(program, 0, samples, step, contents)
            program.loss(step)
            program.optimizer(step, {"param.w": ("w", step)})

    commands = []
    for variant in ("wrong", "copies", "replaced", "padded", "one_group"):
        rank_folder(variant, lambda program, rank, variant=variant: make(program, rank, variant))
        quiet = [] if variant == "wrong" else ["-q"]
        commands.append(["audit", variant, "--check", "twice-in-a-batch", *quiet])
    return commands


CASES["audit_twice_in_a_batch"] = twice_in_a_batch


def not_audited():
    """What was not recorded is not clean."""
    blocks = {"run": "blocks", "manifest": {"method": "program", "depth": "blocks", "level": "digest"}, "blocks": []}
    recording.describe(blocks)
    program = Program("part")
    program.manifest["exclude"] = ["*view*"]
    program.loss(0)
    program.write()
    named = ["--check", "lost-in-rounding,recomputed-otherwise"]
    return [
        ["audit", "blocks"],
        ["audit", "part"],
        ["audit", "part", *named],
        ["audit", "part", "--check", "recomputed-otherwise"],
        ["audit", "part", "--check", "recomputed-otherwize"],
    ]


CASES["audit_not_audited"] = not_audited


def both():
    """A recording with a proof and a suspicion."""
    program = Program("both")
    recomputed_otherwise(program, "wrong")
    program.op("empty_like", {}, [("freqs", None)], source="load.py:12")
    program.tensors[program.tensor(("freqs", 4))]["name"] = "state:freqs"
    program.op("mul", {"self": ("freqs", 4)}, [("y", 5)], module="rotary")
    program.write()


def formats():
    """One audit in every format, and what makes it fail."""
    both()
    checks = ["--check", "recomputed-otherwise,read-unwritten,copy-did-not-copy"]
    suspicion = ["--check", "read-unwritten"]
    return [
        ["audit", "both", *checks],
        ["audit", "both", *checks, "--fail-on", "never", "-q"],
        ["audit", "both", *suspicion, "-q"],
        ["audit", "both", *suspicion, "--fail-on", "suspicion", "-q"],
        ["audit", "both", *checks, "--format", "json", "-q"],
        *(
            ["audit", "both", *checks, "--report", f"{each}=-"]
            for each in ("markdown", "junit", "github", "codequality")
        ),
    ]


CASES["audit_formats"] = formats


def expected():
    """Findings that are known: excused until a day, in their module alone, and told where there is none."""
    both()

    def config(name, *entries):
        known = [{"reason": "issue 7", "expires": SOON, **entry} for entry in entries]
        document = {"program": {"command": ["true"]}, "audit": {"expected": known}}
        pathlib.Path(name).write_text(json.dumps(document))

    mask = {"id": "recomputed-otherwise", "owner": "ann"}
    config("known.json", {**mask, "module": r"block\..*"})
    config("elsewhere.json", {**mask, "module": "head"}, {"id": "lost-in-rounding"})
    config("over.json", {**mask, "expires": "2026-01-31"})
    config("wrong.json", {"id": "recomputed-otherwize"})
    checks = ["--check", "recomputed-otherwise,read-unwritten"]
    return [
        ["audit", "both", "-c", "known.json", *checks],
        ["audit", "both", "-c", "known.json", *checks, "--fail-on", "suspicion", "-q"],
        ["audit", "both", "-c", "elsewhere.json"],
        ["audit", "both", "-c", "over.json", *checks],
        ["audit", "both", "-c", "wrong.json"],
        ["audit", "both", "--set", "/seed=1"],
    ]


CASES["audit_expected"] = expected


def export(path, code, *constants):
    """A TorchScript file with these arrays as constants, and this line in its code."""

    def text(word):
        return b"X" + struct.pack("<I", len(word)) + word.encode()

    def several(*parts):
        return b"(" + b"".join(parts) + b"t"

    def sizes(numbers):
        return several(*(b"J" + struct.pack("<i", number) for number in numbers))

    with zipfile.ZipFile(path, "w") as archive:
        tensors = []
        for number, array in enumerate(constants):
            archive.writestr(f"m/constants/{number}", array.tobytes())
            storage = several(text("storage"), b"ctorch\nFloatStorage\n", text(str(number)), text("cpu"), b"K\0")
            strides = [stride // array.itemsize for stride in array.strides]
            none = b"ccollections\nOrderedDict\n)R"
            given = several(storage + b"Q", b"K\0", sizes(array.shape), sizes(strides), b"\x89", none)
            tensors.append(b"ctorch._utils\n_rebuild_tensor_v2\n" + given + b"R")
        archive.writestr("m/constants.pkl", b"\x80\2" + several(*tensors) + b".")
        head = "class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n"
        archive.writestr("m/code/__torch__.py", f"{head}    {code}\n    return y\n")


def constant_looks_drawn():
    """An exported model holds what NumPy drew while it was traced."""
    draw = np.random.RandomState(0)
    mask = (draw.rand(8, 16) > 0.5).astype("f4") * 2
    noise = draw.randn(8, 16).astype("f4")
    both = "y = torch.add(torch.mul(x, torch.lift_fresh(CONSTANTS.c0)), torch.detach(CONSTANTS.c1))"
    export("both.pt", both, mask, noise)
    order = draw.permutation(128).astype("f4")
    export("order.pt", "y = torch.index(x, [CONSTANTS.c0, CONSTANTS.c1])", order, draw.rand(100).astype("f4"))
    bias = draw.randn(128).astype("f4")
    export("weights.pt", "y = torch.linear(x, torch.t(CONSTANTS.c0), CONSTANTS.c1)", noise, bias)
    export("table.pt", "y = torch.add(x, CONSTANTS.c0)", np.sin(np.arange(128) / 9).reshape(8, 16).astype("f4"))
    export("small.pt", "y = torch.mul(x, CONSTANTS.c0)", mask.reshape(-1)[:60])
    with zipfile.ZipFile("cut.pt", "w") as archive:
        archive.writestr("m/constants.pkl", b"\x80\2cos\nsystem\n(X\2\0\0\0lstR.")
        archive.writestr("m/code/__torch__.py", "")
    quiet = ("weights.pt", "table.pt", "small.pt")
    return [
        ["audit", "both.pt"],
        ["audit", "order.pt", "--check", "constants"],
        *(["audit", each, "-q"] for each in quiet),
        ["audit", "both.pt", "--fail-on", "suspicion", "-q"],
        ["audit", "table.pt", "--check", "constants,untied"],
        ["audit", "cut.pt"],
    ]


CASES["audit_constant_looks_drawn"] = constant_looks_drawn
