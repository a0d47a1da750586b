#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What recording costs a forward as anybody sees it who only has a clock: `overhead_outside.py
REPRO_CHECK MODELS SCRATCH ROUNDS`. Whole commands are timed, of 28 forwards and of 4; a 24th of the difference is one
forward, without what a process costs once. Beside it the same file in Python, measured likewise. Medians
of alternating rounds, and the middle half of the ratios of each round."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

MANY, FEW = 28, 4
THREADS = 2
LEVELS = ("digest", "stats")
SUBJECTS = {
    "ResNet-50, batch 8": ("resnet50.pt", [
        {"generate": "normal", "shape": [8, 3, 224, 224], "dtype": "float32", "seed": 7}]),
    "BERT-base, batch 8 x 128": ("bert-base.pt", [
        {"generate": "randint", "low": 0, "high": 30000, "shape": [8, 128], "dtype": "int64", "seed": 7},
        {"generate": "ones", "shape": [8, 128], "dtype": "int64"}]),
}
BARE = """
import sys, torch
torch._C._set_graph_executor_optimize(False)
torch._C._jit_set_profiling_mode(False)
torch.set_num_threads(int(sys.argv[3]))
model = torch.jit.load(sys.argv[1]).eval()
torch.manual_seed(7)
if "bert" in sys.argv[1]:
    inputs = torch.randint(0, 30000, (8, 128)), torch.ones(8, 128, dtype=torch.long)
else:
    inputs = (torch.randn(8, 3, 224, 224),)
with torch.no_grad():
    for _ in range(int(sys.argv[2])):
        model(*inputs)
"""


def seconds_of(command) -> float:
    start = time.perf_counter()
    done = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr.decode()[-2000:]}")
    return seconds


class Subject:
    def __init__(self, tool: Path, model: Path, inputs: list, scratch: Path):
        self.tool, self.model, self.inputs, self.scratch = tool, model, inputs, scratch

    def bare(self) -> float:
        return self._one_forward(lambda calls: seconds_of(
            [sys.executable, "-W", "ignore", "-c", BARE, self.model, calls, THREADS]))

    def recorded(self, level: str) -> float:
        return self._one_forward(lambda calls: self._record(level, calls))

    def _record(self, level: str, calls: int) -> float:
        config, dump = self.scratch / "config.json", self.scratch / "dump"
        config.write_text(json.dumps({
            "model": str(self.model), "calls": [{"inputs": self.inputs}] * calls, "threads": THREADS,
            "dump": {"level": level}}))
        seconds = seconds_of([self.tool, "record", "-c", config, "-o", dump, "--progress", "never"])
        shutil.rmtree(dump)
        return seconds

    @staticmethod
    def _one_forward(run) -> float:
        return (run(MANY) - run(FEW)) / (MANY - FEW)


def quarters(ratios: list) -> str:
    ordered = sorted(ratios)
    return f"{ordered[len(ordered) // 4]:.2f} to {ordered[len(ordered) * 3 // 4]:.2f}"


def measure(title: str, subject: Subject, rounds: int) -> None:
    bare, recorded = [], {level: [] for level in LEVELS}
    for _ in range(rounds):
        bare.append(subject.bare())
        for level in LEVELS:
            recorded[level].append(subject.recorded(level))
    print(f"{title}: bare forward in Python {statistics.median(bare):.4f} s")
    for level, seconds in recorded.items():
        ratios = [one / other for one, other in zip(seconds, bare)]
        print(f"  {level:<8} {statistics.median(seconds) / statistics.median(bare):>6.2f}"
              f"   middle half of the rounds {quarters(ratios)}")
    print(flush=True)


def main() -> None:
    tool, models, scratch, rounds = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    print(f"From outside: (time of {MANY} calls - time of {FEW} calls) / {MANY - FEW}, medians of {rounds} "
          f"rounds, {THREADS} threads.\n")
    for title, (file, inputs) in SUBJECTS.items():
        measure(title, Subject(tool, models / file, inputs, scratch), rounds)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    main()
