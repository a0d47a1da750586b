# SPDX-License-Identifier: Apache-2.0
"""What `diff --resume` says of a run that resumed, by what it restored of the checkpoint. See rank_cases.py."""

import functools

import numpy as np
from recording import Recording, numbers
from repro_check.records import GeneratorUse

CASES = {}
COMMANDS = [["diff", "--resume", "whole", "resumed"]]

#: By name: the moment of its first use, and where it stands in a checkpoint.
STATES = {
    "parameter.fc.weight": ("at_forward", "['model']['fc.weight']"),
    "buffer.bn.running_mean": ("at_forward", "['model']['bn.running_mean']"),
    "module.Average.fc.weight": ("at_forward", "['average']['fc.weight']"),
    "generator.torch.cpu": ("at_forward", "['torch']"),
    "generator.torch.cuda:0": ("at_forward", "['cuda']"),
    "generator.numpy": ("at_forward", "['numpy']"),
    "generator.random": ("at_forward", "['random']"),
    "generator.loader": ("at_forward", "['loader']"),
    "generator.dataset": ("at_forward", "['dataset']"),
    "scaler[0]['scale']": ("at_step", "['scaler']['scale']"),
    "optimizer.fc.weight.exp_avg": ("at_step", "['optimizer']['state'][0]['exp_avg']"),
    "count.fc.weight.step": ("at_step", "['optimizer']['state'][0]['step']"),
    "schedule[0]['last_epoch']": ("at_step", "['scheduler']['last_epoch']"),
}
NUMBERS = {"scaler[0]['scale']": 1024.0, "count.fc.weight.step": 7.0, "schedule[0]['last_epoch']": 3.0}
ADDED = "gradient.fc.weight"  # more is going to be added to it before the step


class Side:
    """What one of the two runs says."""

    def __init__(self, name, first):
        self.name, self.first = name, first  # the first step after the checkpoint, as it counts them
        self.file = {path: self.value(state) for state, (_, path) in STATES.items()}
        self.held = {state: self.value(state) for state in STATES}  # at the first use
        self.added = self.stepped = numbers("gradient")  # ADDED, at the first backward pass and step
        self.end = {state: numbers("end", state) for state in STATES if state.startswith("generator.")}
        self.restored = dict(self.held)
        self.at_iterator = {}  # generators that stand elsewhere when the iterator over the batches is made
        self.position = 3.0  # of the batch in the loader
        self.samples = [4, 5]
        self.batch = numbers("batch")
        self.moved = {}
        self.between = []  # calls with the Recording, after the checkpoint was loaded
        self.facts = {"distributed.ranks": 1}
        self.files = 1
        self.steps = 2
        self.tail = []

    @staticmethod
    def value(state):
        return NUMBERS[state] if state in NUMBERS else numbers(state)

    def lose(self, *states, restored=False):
        """Gives states other values at their first use."""
        for state in states:
            self.held[state] = NUMBERS[state] - 1 if state in NUMBERS else numbers("other", state)
            if not restored:
                self.restored.pop(state, None)

    def use(self, moment):
        found = {state: value for state, value in self.held.items() if STATES.get(state, (moment,))[0] == moment}
        if moment == "at_forward":
            found.update({"loader.iterator": 1.0, "loader.position": self.position, **self.moved})
        if moment != "at_forward" and self.added is not None:
            found[ADDED] = self.added if moment == "at_backward" else self.stepped
        return found


def say(recording, moment, leaves, step, line=30):
    """A record of a checkpoint, or of the state around it."""
    tensors = {name: value for name, value in leaves.items() if isinstance(value, np.ndarray)}
    scalars = {name: value for name, value in leaves.items() if name not in tensors}
    recording.op(
        f"repro_check::checkpoint_{moment}",
        outputs=tensors,
        arguments=scalars,
        results=list(scalars.values()),
        step=step,
        source=f"train.py:{line}",
    )


def write_checkpoint(recording, side, is_whole):
    word, line = ("saved", 30) if is_whole else ("loaded", 8)
    for _ in range(side.files):
        say(recording, word, {word + path: value for path, value in side.file.items()}, side.first, line)
    if is_whole and side.files:
        say(recording, "at_save", side.held, side.first)
    if not is_whole:
        say(recording, "restored", side.restored, side.first, 9)
    generators = {state: value for state, value in side.restored.items() if state.startswith("generator.")}
    say(recording, "at_iterator", {"loader.iterator": 1.0, **generators, **side.at_iterator}, side.first, 12)


def write_step(recording, side, later):
    """A step, so many after the checkpoint."""
    at = {"step": side.first + later}
    loader = {"samples": side.samples, "sampler": "RandomSampler", "loader": 0, "epoch": 0, "workers": 0}
    recording.record("order", beside=loader, phase="data", source="train.py:12", **at)
    recording.record("batch", {"batch[0]": side.batch}, beside={"sample_digests": side.samples * 2}, phase="data", **at)
    if later == 0:
        say(recording, "at_forward", side.use("at_forward"), side.first, 14)
    y, mask = numbers("y", later), numbers("mask", later)
    recording.op("aten::mm", [numbers("x", later)], [y], module="fc", module_type="Linear", **at)
    draw = GeneratorUse("cpu", 5, later, later + 1, 1)
    in_dropout = {"module": "drop", "module_type": "Dropout"}
    recording.op("aten::bernoulli_", [y], [mask], seeded=True, generator=draw, **in_dropout, **at)
    if later == 0:
        average = {"self": side.held["module.Average.fc.weight"]}
        recording.op("aten::mul", average, [numbers("decayed")], source="train.py:16", **at)
        for moment in ("at_backward", "at_step"):
            say(recording, moment, side.use(moment), side.first)
    write_update(recording, later + 1, at["step"])


def write_update(recording, later, step):
    weight = {"param.fc.weight": numbers("weight", later)}
    at = {"step": step, "phase": "optimizer", "source": "train.py:20"}
    recording.record("optimizer_step", weight, {"lr[0]": 0.1}, **at)


def write(side, is_whole):
    with Recording(side.name, side.facts, level="tensor") as recording:
        if is_whole and side.first:
            write_update(recording, 0, 0)
        write_checkpoint(recording, side, is_whole)
        for event in side.between:
            event(recording)
        for later in range(side.steps):
            write_step(recording, side, later)
        for event in side.tail:
            event(recording)
        say(recording, "at_end", side.end, max(side.first + side.steps, 1) - 1)


def case(change):
    """A case that changes what the first run, `here`, and the resumed one, `there`, say."""

    @functools.wraps(change)
    def made():
        here, there = Side("whole", 1), Side("resumed", 0)
        change(here, there)
        write(here, True)
        write(there, False)
        return COMMANDS

    CASES[change.__name__] = made
    return change


def forget(here, there, *states):
    """Leaves states out of the checkpoint."""
    for state in states:
        for side in (here, there):
            del side.file[STATES[state][1]]


@case
def resume_right(here, there):
    """Every kind of state is restored."""


@case
def resume_not_saved(here, there):
    """No kind of state is in the checkpoint, but for one number."""
    forget(here, there, *STATES)
    here.file["['epoch']"] = there.file["['epoch']"] = 1.0
    there.lose(*STATES)
    there.added, there.stepped = None, numbers("less")


@case
def resume_not_loaded(here, there):
    """The checkpoint has every kind of state, and none is restored."""
    there.lose(*STATES)


@case
def resume_used_up(here, there):
    """Generators are restored and drawn from before the first batch."""
    there.lose("generator.torch.cpu", "generator.numpy", restored=True)
    there.moved = {"moved.numpy": 12.0}
    there.between.append(
        lambda recording: recording.op(
            "aten::randperm",
            outputs=[numbers("permutation")],
            seeded=True,
            source="train.py:11",
            phase="setup",
            generator=GeneratorUse("cpu", 5, 0, 4, 4),
        )
    )


@case
def resume_seeded_again(here, there):
    """The program seeds a generator again after it has restored it."""
    there.lose("generator.random", restored=True)
    there.facts["set_at.random.seed"] = "train.py:10"
    here.at_iterator = there.at_iterator = {"generator.random": numbers("seeded")}


@case
def resume_misplaced(here, there):
    """What an optimizer keeps is restored for another parameter."""
    there.lose("optimizer.fc.weight.exp_avg", restored=True)
    there.held["optimizer.group0.0.exp_avg"] = here.held["optimizer.fc.weight.exp_avg"]


@case
def resume_not_proven(here, there):
    """Generators stand elsewhere, and nothing draws from them."""
    there.lose("generator.numpy", "generator.random")
    for side in (here, there):
        side.end.update({state: side.held[state] for state in ("generator.numpy", "generator.random")})


@case
def resume_from_the_first_batch(here, there):
    """The resumed run reads the loader from its beginning: no checkpoint holds the position."""
    there.position, there.samples, there.batch = 1.0, [0, 1], numbers("first batch")


@case
def resume_from_the_first_batch_with_position(here, there):
    """The same where the checkpoint has the position."""
    here.file["['batches']"] = there.file["['batches']"] = 2.0
    there.position, there.samples, there.batch = 1.0, [0, 1], numbers("first batch")


@case
def resume_other_order(here, there):
    """The loader's generator was not restored: the place is right, the samples are others."""
    there.lose("generator.loader")
    there.samples, there.batch = [9, 2], numbers("other samples")


@case
def resume_same_samples_augmented(here, there):
    """The same samples are augmented by a generator that was not restored."""
    there.lose("generator.random")
    there.batch = numbers("augmented")


@case
def resume_running_number(here, there):
    """Every state is restored, and a number that adds up over the whole run began anew."""
    for side, start in ((here, 5.0), (there, 1.0)):
        side.tail.append(
            lambda recording, side=side, start=start: recording.op(
                "aten::add_",
                {"self": np.array([start], "f4")},
                [np.array([start + 1], "f4")],
                step=side.first + 1,
                source="train.py:22",
            )
        )


@case
def resume_operators_differ(here, there):
    """Every state is restored, and an operator gives something else."""
    there.tail.append(
        lambda recording: recording.op("aten::mul", [numbers("y")], [numbers("z")], step=1, source="train.py:23")
    )
    here.tail.append(
        lambda recording: recording.op("aten::mul", [numbers("y")], [numbers("w")], step=2, source="train.py:23")
    )


# Why a run cannot be held against the one that it resumed.


@case
def resume_nothing_saved(here, there):
    """The first run saves no checkpoint."""
    here.files = 0


@case
def resume_nothing_loaded(here, there):
    """The resumed run loads nothing."""
    there.files = 0


@case
def resume_of_another_run(here, there):
    """The resumed run loads the checkpoint of another run."""
    there.file["['model']['fc.weight']"] = numbers("another run")


@case
def resume_saved_too_early(here, there):
    """The checkpoint was saved before the first step."""
    here.first = 0


@case
def resume_no_step_after_saving(here, there):
    """The first run ends when it has saved."""
    here.steps = 0


@case
def resume_no_step_after_loading(here, there):
    """The resumed run ends when it has loaded."""
    there.steps = 0


@case
def resume_on_other_ranks(here, there):
    """The resumed run has another number of ranks."""
    here.facts, there.facts = {"distributed.ranks": 2}, {"distributed.ranks": 4}
