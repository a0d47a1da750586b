# SPDX-License-Identifier: Apache-2.0
"""Plants faults into programs, one at a time, and reads the first lines of what repro-check says of each.

usage: planted_programs.py [NAME ...]     faults whose name begins with one of these words; all by default

The first six lines must hold the cause, the user's own line, and a fix; and the fix must mend the fault when it is
done as written: a seed or a line of code is taken from the report's own text and put where it says; what both runs
are to be given alike is given alike at the line that the report names. Prints a table and totals, and ends with 1
where fewer than nine of ten faults are so."""
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, NamedTuple

import harness

harness.need("torch", "numpy")

ROOM = Path(__file__).resolve().parent
TRAINING = ROOM / "programs" / "faulty_training.py"
RESUMED = ROOM / "programs" / "resumed_training.py"
REPLICAS = ROOM / "ranks" / "replicas.py"
TOGETHER = ROOM / "ranks" / "together.py"
READ = 6  # lines


class Told(NamedTuple):
    code: int
    text: str

    @property
    def head(self) -> str:
        return "\n".join(self.text.splitlines()[:READ])

    @property
    def fix(self) -> str:
        found = re.search(r"(?m)^  fix +(.*)$", self.text)
        return found[1] if found else ""


class Fault(NamedTuple):
    name: str
    plant: Callable  # in a folder: what the tool says of it
    cause: str       # regular expressions, of what the first lines hold
    line: str
    fix: str
    mend: Callable   # in the folder, told what was said: does the fix, and what the tool says then


def line_of(program: Path, mark: str) -> str:
    for number, line in enumerate(program.read_text(encoding="utf-8").splitlines(), 1):
        if line.endswith(f"# {mark}"):
            return f"{program.name}:{number}"
    raise KeyError(mark)


def tool(folder: Path, *words) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTHONHASHSEED", "PYTHONPATH")}
    environment["OMP_NUM_THREADS"] = "1"
    return subprocess.run([os.environ["REPRO_CHECK"], *map(str, words)], cwd=folder, capture_output=True, text=True,
                          timeout=300, env=environment)


def record(folder: Path, dump: str, command: list, *flags):
    done = tool(folder, "exec", "--force", *flags, "-o", dump, "--", *command)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{command}: {done.returncode} {done.stderr[-2000:]}")


def told(folder: Path, *words) -> Told:
    done = tool(folder, *words)
    return Told(done.returncode, done.stdout or done.stderr)


def pair(folder: Path, one: list, other: list, *flags) -> Told:
    """Two runs, which differ in their last word or in nothing."""
    record(folder, "A", one, *flags)
    record(folder, "B", other, *flags)
    return told(folder, "diff", "A", "B")


def of_training(fault: str, on: str, *more) -> list:
    return [sys.executable, "-W", "ignore", str(TRAINING), fault, on, *more]


def training(name: str, cause: str, mark: str, fix: str, *flags) -> Fault:
    """A run without the fault against one with it; mended by what both are given alike."""
    return Fault(name, lambda folder: pair(folder, of_training(name, "0"), of_training(name, "1"), *flags), cause,
                 re.escape(line_of(TRAINING, mark)), fix,
                 lambda folder, _: pair(folder, of_training(name, "0"), of_training(name, "0"), *flags))


def put_line(folder: Path, program: Path, said: Told) -> list:
    """A copy of the program with the call that the fix names, where it says."""
    call = re.match(r"([\w.]+\(0\))", said.fix)[1]
    lines = program.read_text(encoding="utf-8").splitlines(keepends=True)
    number = int(re.search(r"(?m)^  code +[^:]+:(\d+):", said.text)[1]) if "before this line" in said.fix else 1
    indent = re.match(r" *", lines[number - 1])[0]
    lines.insert(number - 1, f"{indent}import torch, random, numpy; {call}\n")
    copy = folder / program.name
    copy.write_text("".join(lines), encoding="utf-8")
    return [str(copy)]


def unseeded(name: str, program: Callable, words: list, cause: str, line: Callable, fix: str, by_seed: bool) -> Fault:
    """The same program twice. Mended by the line that the fix gives, or by the seed that it gives."""
    def command(place):
        return [sys.executable, "-W", "ignore", *map(str, place), *words]

    def plant(folder):
        one = command([program(folder)])
        return pair(folder, one, one)

    def mend(folder, said):
        if by_seed:
            flags = re.search(r"--seed \d+", said.fix)[0].split()
            one = command([program(folder)])
            return pair(folder, one, one, *flags)
        one = command(put_line(folder, program(folder), said))
        return pair(folder, one, one)

    return Fault(name, plant, cause, line, fix, mend)


LOADER = """import torch
from torch.utils.data import DataLoader, TensorDataset

batches = DataLoader(TensorDataset(torch.ones(32, 4)), 8, num_workers=2)
weight = torch.full((4,), 0.5, requires_grad=True)
for x, in batches:
    (x @ weight).sum().backward()
"""

SECRET = """import random
import torch

torch.manual_seed(random.SystemRandom().randrange(2**31))
print(torch.nn.Linear(4, 2)(torch.ones(4)).sum().item())
"""


def written(text: str) -> Callable:
    def write(folder: Path) -> Path:
        file = folder / "program.py"
        file.write_text(text, encoding="utf-8")
        return file
    return write


def resumed(name: str, cause: str, line: str, fix: str) -> Fault:
    def command(what):
        return [sys.executable, "-W", "ignore", str(RESUMED), "checkpoint.pt", what]

    def compare(folder, what):
        record(folder, "whole", command("whole"), "--checkpoints")
        record(folder, "resumed", command(what), "--checkpoints")
        return told(folder, "diff", "--resume", "whole", "resumed")

    return Fault(f"resume-{name}", lambda folder: compare(folder, name), cause, re.escape(line_of(RESUMED, line)), fix,
                 lambda folder, _: compare(folder, "nothing"))


def ranks(program: Path, name: str, cause: str, fix: str, right: str = "", line: str = r"\w+\.py:\d+") -> Fault:
    """A job of two ranks, held against each other; mended by one without the fault."""
    def compare(folder, case):
        done = tool(folder, "exec", "--force", "-o", "run", "--", *harness.on_ranks(2, program, case))
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stderr[-2000:])
        return told(folder, "ranks", "run")

    return Fault(f"ranks-{name}", lambda folder: compare(folder, name), cause, line, fix,
                 lambda folder, _: compare(folder, right))


SAME = "torch.manual_seed"
OPERATORS = ("--optimizer", "operators")  # which a report of the step alone asks for


def training_faults() -> list:
    return [
        training("epsilon", "optimizer was given different numbers: option.eps", "STEP", "same options"),
        training("state", "changed by something that is not recorded", "STEP", "look for what writes it between",
                 *OPERATORS),
        training("inside_step", "handed over another (number|value)", "INSIDE", "hand to the operator", *OPERATORS),
        training("nudge", "handed over another value", "NUDGED", "hand to the operator"),
        training("twice", "made 1 step of the optimizer more", "TWICE", "step of the optimizer in one run alone"),
        training("stale", "a gradient was not cleared", "BACKWARD", r"zero_grad\(\)"),
        training("gradient", "handed over another (number|value)", "SCALED", "hand to the operator"),
        training("train_mode", "module `norm` ran in another mode", "NORM", r"train\(\) and eval\(\)"),
        training("set_order", "ordered the samples otherwise", "ORDER", "order them by something that repeats"),
        training("set_order_workers", "ordered the samples otherwise", "ORDER", "order them by something"),
        training("index_put", "changed by something that is not recorded", "RACE", "look for what writes it between"),
        training("cast", "candidate alone called operators", "CAST", "leads to this line in one run alone"),
        training("detached", "candidate alone called operators", "DETACHED", "leads to this line in one run alone"),
        training("init", "other seeds", "INIT", "give that generator the same seed"),
        training("reseeded", "other seeds.*|manual_seed", "RESEEDED", f"give {SAME} the same value"),
        training("loader_seed", "other seeds", "BATCH", "give that generator the same seed"),
        training("frozen", "computes a gradient", "ENCODED", "requires_grad"),
        training("buffer", "wrote a tensor with no operator", "BUFFER", "written from this line on"),
        training("taken", "wrote a tensor with no operator", "TAKEN", "written from this line on"),
        training("batch_size", "batches have another size", "ORDER", "one batch size"),
        training("loss", "cross_entropy_loss was called with other arguments", "LOSS", "at this line"),
        training("accumulated", "handed over another (number|value)", "ACCUMULATED", "hand to the operator"),
        training("clip", "clipped by another norm", "CLIP", "the same max_norm"),
        training("schedule", "optimizer was given different numbers: lr", "STEP", "their schedules"),
        training("drawn", "alone drew random numbers", "DRAWN", "leads to this line in one run alone"),
    ]


def unseeded_faults() -> list:
    def program(_folder):
        return TRAINING

    def own(mark):
        return re.escape(line_of(TRAINING, mark))

    return [
        unseeded("unseeded", program, ["unseeded", "1"], "random numbers were not seeded", own("ENCODER"),
                 r"torch.manual_seed\(0\) before this line", False),
        unseeded("numpy_unseeded", program, ["numpy_unseeded", "1"], "random numbers were not seeded", own("GLOBAL"),
                 r"numpy.random.seed\(0\)", False),
        unseeded("python_unseeded", program, ["python_unseeded", "1"], "random numbers were not seeded",
                 own("PYTHON"), r"random.seed\(0\)", False),
        unseeded("default_rng", program, ["default_rng", "1"], "numpy.random.default_rng", own("DRAW"),
                 "give numpy.random.default_rng", True),
        unseeded("loader", written(LOADER), [], "random numbers were not seeded", "program.py:6",
                 r"torch.manual_seed\(0\)", False),
        Fault("urandom", lambda folder: pair(folder, of_training("urandom", "1"), of_training("urandom", "1")),
              "os.urandom", own("URANDOM"), "os.urandom at .* does not repeat",
              lambda folder, _: pair(folder, of_training("none", "0"), of_training("none", "0"))),
        Fault("secret", lambda folder: pair(folder, *[[sys.executable, str(written(SECRET)(folder))]] * 2),
              "other seeds", "program.py:4", f"give {SAME} the same value",
              lambda folder, _: pair(folder, *[[sys.executable, str(written(SECRET.replace(
                  "random.SystemRandom().randrange(2**31)", "7"))(folder))]] * 2)),
    ]


def resumed_faults() -> list:
    return [
        *(resumed(name, f"{state} not loaded", "LOADED", "the checkpoint has .*: restore it") for name, state in (
            ("parameters", "parameters"),
            ("optimizer", "state of the optimizer"),
            ("count", "step count of the optimizer"),
            ("schedule", "schedule"),
            ("scaler", "loss scale"),
            ("torch", "generator of PyTorch"),
            ("numpy", "generator of NumPy"),
            ("position", "batch"),
            ("order", "batch"))),
        resumed("iterator", "generator of PyTorch used up between", "BATCH", "after what changes it"),
        resumed("skip", "generator of NumPy used up between", "BATCH", "after what changes it"),
    ]


def rank_faults() -> list:
    return [
        *(ranks(REPLICAS, name, cause, fix, right) for name, cause, fix, right in (
            ("no-broadcast", "initial weights not synchronised", "broadcast the parameters", ""),
            ("buffers", "running statistics drift apart", "broadcast_buffers", ""),
            ("no-sync", "gradients not reduced", r"no_sync\(\)", ""),
            ("skipped", "some gradients not reduced", "the reduction leaves out", ""),
            ("past-wrapper", "called past its wrapper", "call the wrapper itself", ""),
            ("no-step", "skipped a step on some ranks", "step the optimizer on all ranks or on none", ""),
            ("lost-state", "optimizer state differs", "load the optimizer's state on every rank", ""),
            ("nudged", "weights written outside the optimizer", "writes parameters between two steps", ""),
            ("rate", "learning rates differ", "step the scheduler on every rank", ""),
            ("decay", "options of the optimizers differ", "the same options on every rank", ""),
            ("clip-max", "clipped to different norms", "the same max_norm", ""),
            ("clip-alone", "clipped on some ranks alone", "clip on all ranks or on none", ""),
            ("halved", "changed after their reduction", "between the reduction and the step", ""),
            ("found-inf", "skipped steps differ", "overflow on any", "scaled"),
            ("same-data", "read the same data", "DistributedSampler", ""))),
        *(ranks(TOGETHER, name, cause, fix, "zero") for name, cause, fix in (
            ("head_alone", "never move", "give the optimizer all parameters"),
            ("own_norm", "clipped by different norms", "the norm over all shards"),
            ("overwritten", "content mismatch", "wait for an isend"))),
    ]


class Outcome(NamedTuple):
    said: Told
    wrong: list
    seconds: float


def judge(fault: Fault) -> Outcome:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="repro-check-planted-") as name:
        folder = Path(name)
        said, wrong = Told(-1, ""), []
        try:
            said = fault.plant(folder)
            wrong = [what for what, pattern in (("cause", fault.cause), ("line", fault.line))
                     if not re.search(pattern, said.head)]
            if said.code != 1:
                wrong.append(f"exit {said.code}")
            if not said.fix or said.fix not in said.head or not re.search(fault.fix, said.fix):
                wrong.append("fix")
            mended = fault.mend(folder, said)
            if mended.code != 0:
                wrong.append(f"mended: {mended.code}")
        except Exception as error:  # one fault must not end the table
            wrong.append(f"{type(error).__name__}: {str(error)[:200]}")
    return Outcome(said, wrong, time.monotonic() - begun)


def main() -> int:
    wanted = sys.argv[1:]
    every = [*training_faults(), *unseeded_faults(), *resumed_faults(), *rank_faults()]
    faults = [each for each in every if not wanted or each.name.startswith(tuple(wanted))]
    good = 0
    with ThreadPoolExecutor(2) as pool:
        for fault, outcome in zip(faults, pool.map(judge, faults)):
            good += not outcome.wrong
            print(f"{fault.name:<22} {outcome.seconds:5.0f} s  {'; '.join(outcome.wrong) or 'ok'}")
            shown = outcome.said.text.splitlines()[:READ if outcome.wrong else 1]
            print("\n".join(f"    {line[:150]}" for line in shown), flush=True)
    print(f"{good} of {len(faults)} faults: cause, own line and a fix that mends it in the first {READ} lines")
    return 0 if faults and good * 10 >= len(faults) * 9 else 1


if __name__ == "__main__":
    sys.exit(main())
