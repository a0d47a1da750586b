# SPDX-License-Identifier: Apache-2.0
"""Small dumps of programs that never ran: their records as `repro-check exec` writes them, by `DumpWriter`."""

import json
import pathlib
import subprocess
import zlib

import numpy as np
import repro_check
from repro_check import manifest

MAKE_DUMP = ""  # the program of the other golden tests, set by the test


def describe(fixture):
    """Makes a dump of a description as the other golden tests have it, for what `DumpWriter` has no word for."""
    pathlib.Path("fixture.json").write_text(json.dumps(fixture))
    subprocess.run([MAKE_DUMP, "fixture.json", fixture["run"]], check=True)


def numbers(*what, count=2):
    """A tensor of a few numbers, other ones for other words."""
    seed = zlib.crc32(repr(what).encode())
    return np.array([(seed >> 8 * i & 255) / 8 for i in range(count)], "f4")


class Recording:
    """The dump of one process, written record by record.

    facts: facts of the environment; fields: further members of the manifest, those of `trace` in a mapping.
    """

    def __init__(self, directory, facts=None, fields=None, level="digest", **options):
        self.directory = pathlib.Path(directory)
        self.fields = {"run_id": "1f" * 16, "end": {"exit_code": 0}, **(fields or {})}
        self.writer = repro_check.DumpWriter(directory, level=level, environment=facts, **options)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            return self.writer.discard()
        self.writer.close()
        path = self.directory / "manifest.json"
        made = manifest.parse(path.read_bytes(), str(path))
        del made["manifest_digest"]
        trace = {**made["trace"], **self.fields.pop("trace", {})}
        path.write_bytes(manifest.to_bytes({**made, "model_method": "program", **self.fields, "trace": trace}))

    def op(self, name, inputs=(), outputs=(), **more):
        """An operator of the program, at a line of it."""
        return self.writer.op(name, inputs=inputs, outputs=outputs, **{"source": "train.py:7", **more})

    def record(self, name, tensors=None, scalars=None, beside=None, **more):
        """One of `repro_check::`, which holds tensors and numbers by name.
        beside: arguments that follow from these, or are said of them."""
        tensors, scalars = tensors or {}, scalars or {}
        return self.op(
            f"repro_check::{name}",
            tensors,
            {slot: np.array(data) for slot, data in tensors.items()},
            arguments={**scalars, **(beside or {})},
            results=list(scalars.values()),
            **more,
        )


def below(prefix, values):
    return {prefix + name: value for name, value in values.items()}


class Rank(Recording):
    """One of several ranks of a training."""

    def __init__(self, run, rank, ranks, facts=None, fields=None, wrapper=True, blocks=False):
        facts = {
            "distributed.rank": rank,
            "distributed.ranks": ranks,
            **({"distributed.wrapper": "DistributedDataParallel"} if wrapper else {}),
            **(facts or {}),
        }
        depth = {"depth": "blocks"} if blocks else {}
        super().__init__(pathlib.Path(run) / f"rank-{rank}", facts, fields, **depth)
        self.rank, self.ranks, self.blocks = rank, ranks, blocks
        self.sequences = {}

    def group(self, name, *ranks):
        self.record("group", beside={"name": name, "ranks": list(ranks)})

    def exchange(self, name, tensors, group="world", returns=None, inputs=(), line=20, step=0, **beside):
        """A collective, or with a `tag` a message. returns: what it gives; None = it never came back."""
        where = {"source": f"train.py:{line}", "step": step, "phase": "reduce"}
        self.sequences[group] = self.sequences.get(group, 0) + 1
        self.record(
            "collective",
            beside={"operator": name, "tensors": tensors, "group": group, "sequence": self.sequences[group], **beside},
            **where,
        )
        return None if returns is None else self.op(name, inputs, returns, **where)

    def write(self, now):
        """All that a step has, in the order in which a program comes by it."""
        for early in now.early:
            early(self)
        self.record(
            "replica",
            {**below("param.", now.begin), **below("buffer.", now.buffers), **now.input},
            beside={} if now.through is None else {"through_wrapper": now.through},
            step=now.step,
        )
        for event in now.events:
            event(self)
        for _ in range(now.passes):
            self.record("loss", {"loss": now.loss}, step=now.step, phase="loss", source="train.py:9")
        for event in now.behind:
            event(self)
        if now.clip is not None:
            told = {name: value for name, value in now.clip.items() if not name.startswith("local")}
            self.record(
                "clip_grad",
                scalars=told,
                step=now.step,
                beside={name: value for name, value in now.clip.items() if name not in told},
            )
        if now.steps:
            told = {f"lr[{group}]": rate for group, rate in enumerate(now.rates)} | below("option.", now.options)
            left = {**below("grad.", now.grads), **below("state.", now.state), **below("param.", now.params)}
            if not self.blocks:
                told["grad_norm"] = now.norm
            where = {"step": now.step, "phase": "optimizer", "source": "train.py:12"}
            self.record("optimizer_step", {} if self.blocks else left, told, **where)
            for name, data in now.params.items() if self.blocks else ():
                self.writer.parameter_read(name, data, step=now.step)
        if now.scale is not None:
            # A program counts its steps when the optimizer makes them.
            self.record("grad_scaler", scalars=now.scale, step=now.step + now.steps)


class Step:
    """What a healthy rank has in one step. Faults change it."""

    NAMES = ("fc.weight", "fc.bias")

    def __init__(self, rank, step, ranks=2, steps=3):
        self.rank, self.step, self.ranks, self.all_steps = rank, step, ranks, steps
        self.early = []  # before all else; calls with the Rank, as the next two
        self.begin = {name: numbers(name, step) for name in self.NAMES}
        self.buffers = {}
        self.input = {"input[0]": numbers("input", rank, step)}
        self.through = None
        self.events = []
        self.loss = numbers("loss", rank, step, count=1)
        self.passes = 1
        self.behind = []
        self.clip = None
        self.grads = {name: numbers("grad", name, step) for name in self.NAMES}
        self.norm = 1.0
        self.rates = [0.1]
        self.options = {}
        self.state = {}
        self.params = {name: numbers(name, step + 1) for name in self.NAMES}
        self.steps = True
        self.scale = None


def train(
    run,
    change=lambda now: None,
    ranks=2,
    steps=3,
    facts=None,
    fields=None,
    wrapper=True,
    last=lambda rank: None,
    blocks=False,
):
    """Writes the dumps of a training.

    change: called with each Step; last: with each Rank behind its last step. facts, fields: of each, or a function of
    the rank's number. blocks: recordings of blocks, which say of a step what it was told and parameters that were read.
    """

    def of(what, rank):
        return what(rank) if callable(what) else what

    for rank in range(ranks):
        with Rank(run, rank, ranks, of(facts, rank), of(fields, rank), wrapper, blocks) as recording:
            for step in range(steps):
                now = Step(rank, step, ranks, steps)
                change(now)
                recording.write(now)
            last(recording)
    count = {"format": "repro-check-rank-dumps", "version": "1.0", "ranks": ranks}
    (pathlib.Path(run) / "ranks.json").write_text(json.dumps(count))
