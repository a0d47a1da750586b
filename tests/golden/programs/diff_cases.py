# SPDX-License-Identifier: Apache-2.0
"""What `diff` says of two runs of a small training, by what differs between them. See rank_cases.py."""

import functools

import numpy as np
import repro_check
from recording import Recording, numbers
from repro_check.records import GeneratorUse

CASES = {}
SETTINGS = {"threads.intra_op": "4", "deterministic_algorithms": "false"}


class Run:
    """One of the two runs, as a healthy program makes it. Cases change it."""

    def __init__(self, name):
        self.name = name
        self.is_baseline = name == "baseline"
        self.facts = {"process.command_line": "python train.py"}
        self.settings = dict(SETTINGS)
        self.fields = {}
        self.weight = numbers("weight")
        self.samples = [[0, 1], [2, 3]]  # by step
        self.contents = None  # what these are, by step
        self.epochs = [0, 0]  # by step
        self.noise = None  # the seed by which dropout draws
        self.linear = ("aten::linear", "cpu")
        self.output = numbers("y")
        self.options = {"lr[0]": 0.1}
        self.steps = 2
        self.gradient = np.float32(1)  # by which that of the second step is multiplied
        self.setup = False  # an operator before the first step
        self.extra = []  # calls with the recording and the step, behind the forward pass

    def write(self):
        with Recording(self.name, self.facts, self.fields, "tensor", settings=self.settings) as recording:
            recording.writer.parameter("fc.weight", self.weight)
            if self.setup:
                recording.op("aten::zeros", (), [numbers("zeros")], phase="setup", source="train.py:3")
            for step in range(self.steps):
                self.write_step(recording, step)

    def write_step(self, recording, step):
        at = {"step": step}
        samples = self.samples[step % len(self.samples)]
        loader = {"sampler": "RandomSampler", "loader": 0, "epoch": self.epochs[step % len(self.epochs)], "workers": 0}
        recording.record("order", scalars={"samples": samples}, beside=loader, phase="data", source="train.py:5", **at)
        contents = self.contents and self.contents[step % len(self.contents)]
        batch = numbers("batch", contents or samples)
        digests = {"sample_digests": [half for each in contents for half in (each, 7)]} if contents else {}
        recording.record("batch", {"batch[0]": batch}, beside=digests, phase="data", source="train.py:5", **at)
        name, device = self.linear
        inside = {"module": "fc", "module_type": "Linear", "source": "train.py:7", **at}
        output = repro_check.tensor(self.output if step == 0 else numbers("y", step), device=device)
        inputs = {"input": repro_check.tensor(batch, device=device), "weight": self.weight}
        recording.op(name, inputs, [output], **inside)
        if self.noise is not None:
            draw = GeneratorUse("cpu", self.noise, 2 * step, 2 * step + 2, 2)
            dropped = numbers("dropped", self.noise, step)
            inside = {"module": "drop", "module_type": "Dropout", "source": "train.py:8", **at}
            recording.op("aten::dropout", {"input": output.data}, [dropped], seeded=True, generator=draw, **inside)
        for event in self.extra:
            event(recording, step)
        recording.record("loss", {"loss": numbers("loss", step, count=1)}, phase="loss", source="train.py:9", **at)
        gradient = numbers("gradient", step) * (self.gradient if step == 1 else 1)
        state = {"grad.fc.weight": gradient.astype("f4"), "param.fc.weight": numbers("weight", step + 1)}
        recording.record("optimizer_step", state, self.options, phase="optimizer", source="train.py:12", **at)


def case(change, *options):
    """A case that changes what the two runs do."""

    @functools.wraps(change)
    def made():
        runs = Run("baseline"), Run("candidate")
        change(*runs)
        for run in runs:
            run.write()
        return [["diff", "baseline", "candidate", *words] for words in options or [()]]

    CASES[change.__name__] = made
    return change


def numbers_case(*options):
    """A case in which numbers are judged, by each of these options."""
    return lambda change: case(change, *options or [("--numbers",)])


@case
def diff_equal(baseline, candidate):
    """Two runs that are equal."""


@case
def diff_not_seeded(baseline, candidate):
    """Dropout draws from a generator that nothing seeded."""
    baseline.noise, candidate.noise = 11, 22


@case
def diff_other_samples(baseline, candidate):
    """The sampler takes other samples."""
    candidate.samples = [[0, 3], [2, 1]]


@case
def diff_other_dataset(baseline, candidate):
    """The sampler takes samples that the other run never takes."""
    candidate.samples = [[0, 7], [2, 9]]


@case
def diff_batch_sizes(baseline, candidate):
    """One run has larger batches."""
    candidate.samples = [[0, 1, 2], [3, 4, 5]]


@case
def diff_augmented(baseline, candidate):
    """The same samples are augmented otherwise."""
    baseline.contents, candidate.contents = [[0, 1], [2, 3]], [[0, 1], [2, 33]]


@case
def diff_epoch_repeated(baseline, candidate):
    """One run goes through its first epoch twice."""
    baseline.steps = candidate.steps = 6
    baseline.epochs = candidate.epochs = [0, 0, 0, 1, 1, 1]
    candidate.samples = [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3], [4, 5]]
    baseline.samples = [[0, 1], [2, 3], [4, 5], [5, 0], [3, 1], [4, 2]]
    baseline.contents, candidate.contents = baseline.samples, candidate.samples


@case
def diff_other_weights(baseline, candidate):
    """The runs start from other weights."""
    candidate.weight = numbers("other weight")
    candidate.output = numbers("other y")


@case
def diff_optimizer_options(baseline, candidate):
    """The optimizer has another learning rate."""
    candidate.options = {"lr[0]": 0.2}


@case
def diff_threads(baseline, candidate):
    """An operator gives other bits, and the runs had other numbers of threads."""
    candidate.settings["threads.intra_op"] = "8"
    candidate.output = numbers("y") * np.float32(1.0000001)


@case
def diff_kernel(baseline, candidate):
    """An operator gives other bits whose kernel adds in the order in which threads arrive."""
    baseline.linear = candidate.linear = ("aten::index_add_", "cuda:0")
    candidate.output = numbers("y") * np.float32(1.0000001)


@case
def diff_unexplained(baseline, candidate):
    """An operator gives other bits, and nothing says why."""
    candidate.output = numbers("y") * np.float32(1.0000001)


@case
def diff_argument(baseline, candidate):
    """An operator is called with another number."""
    for run, scale in ((baseline, 0.5), (candidate, 0.25)):
        run.extra.append(
            lambda recording, step, scale=scale: recording.op(
                "aten::mul",
                {"self": numbers("z", step)},
                [numbers("scaled", scale, step)],
                arguments={"other": scale},
                step=step,
                source="train.py:8",
            )
        )


@case
def diff_more_operators(baseline, candidate):
    """One run calls an operator that the other one does not."""
    candidate.extra.append(
        lambda recording, step: recording.op(
            "aten::relu", {"self": numbers("z", step)}, [numbers("relu", step)], step=step, source="train.py:8"
        )
    )


@case
def diff_more_steps(baseline, candidate):
    """One run makes a step more."""
    candidate.steps = 3


@case
def diff_raised(baseline, candidate):
    """An exception ends one run."""
    candidate.steps = 1
    candidate.fields["end"] = {
        "exit_code": 1,
        "exception": {"type": "ValueError", "file": "train.py", "line": 10, "text": "0" * 32},
    }


def other_implementation(run):
    """Computes what `aten::linear` does by two other operators."""
    run.linear = ("aten::matmul", "cpu")
    run.extra.append(
        lambda recording, step: recording.op(
            "aten::add", {"self": numbers("y", step)}, [numbers("y", step)], step=step, source="train.py:8"
        )
    )


def write_gradient(run, factor):
    run.gradient = np.float32(factor)


@numbers_case(("--numbers",), ("--numbers", "losses,parameters"), ("--numbers", "--quiet"))
def diff_numbers(baseline, candidate):
    """Other operators give the same numbers."""
    other_implementation(candidate)


@numbers_case()
def diff_numbers_apart(baseline, candidate):
    """Other operators give another gradient in the second step."""
    other_implementation(candidate)
    write_gradient(candidate, 1.5)


@numbers_case(("--numbers", "--rtol", "1", "--atol", "0"), ("--numbers", "losses"))
def diff_numbers_within_policy(baseline, candidate):
    """Other operators give another gradient, which is within the policy, and equal losses."""
    other_implementation(candidate)
    write_gradient(candidate, 1.5)


@numbers_case()
def diff_numbers_more_steps(baseline, candidate):
    """One run makes a step more."""
    candidate.steps = 3


@numbers_case(("--numbers", "losses,results"), ("--numbers=state",))
def diff_numbers_not_recorded(baseline, candidate):
    """Numbers were asked for that were not recorded."""


@numbers_case()
def diff_numbers_of_none(baseline, candidate):
    """Neither a step nor a result was recorded."""
    baseline.steps = candidate.steps = 0
    baseline.setup = candidate.setup = True


@numbers_case()
def diff_numbers_raised(baseline, candidate):
    """An exception ends one run, behind its last step."""
    diff_raised(baseline, candidate)
    candidate.steps = 2
