#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `repro-check exec` costs a step of training: `exec.py REPRO_CHECK SCRATCH TURNS`. Every program runs
bare, bare again, recorded by blocks, recorded by operators, and under PyTorch's DebugMode, as several processes each,
since where a process finds its memory alone is worth some per cent. They take turns: one trains for about half a
second while all others wait, in another order each time, so that a machine that is slow for a minute is slow for all.
A turn's ratios are those of the mean over a kind's processes of their median step; printed are medians over the
turns and the middle half. Below the spread of the second bare series nothing can be told. Then what the start costs,
and, in 25 rounds, the first of the programs on two ranks under DistributedDataParallel."""
import json
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

# Of a turn.
STEPS = {"resnet": 4, "bert": 4, "gpt2": 20}
PROCESSES = 3
KINDS = {"bare": None, "bare again": None, "exec, blocks": "blocks", "exec, digests": "top",
         "DebugMode hashes": None}
NAMES = {"resnet": "ResNet 2-2-2-2, 64 x 64, batch 16", "bert": "BERT 4 x 256, batch 8 x 64",
         "gpt2": "GPT-2 4 x 128, batch 2 x 32"}
PROGRAM = Path(__file__).with_name("exec_step.py")
# The objects bring about a full collection that is due a little later in any program that imports PyTorch, so that it
# falls into both: those of the recorder alone would bring it forward, into the one.
STARTS = {"without torch": "pass",
          "with torch": "import torch; torch.ones(2) + 1; held = [[] for _ in range(20_000)]"}


class Bench:
    def __init__(self, tool: str, scratch: Path):
        self.tool, self.scratch = tool, scratch
        self.python = [sys.executable, "-B", "-W", "ignore"]

    def recording(self, depth: str | None, dump: str) -> list:
        if depth is None:
            return []
        return [self.tool, "exec", "--force", "--depth", depth, "-o", str(self.scratch / dump), "--"]

    def run(self, command, recorded: bool) -> str:
        done = subprocess.run(self.recording("top" if recorded else None, "dump") + command, capture_output=True,
                              text=True)
        # 4: nothing was recorded, which is right where no operator ran.
        if done.returncode not in ((0, 4) if recorded else (0,)):
            sys.exit(f"{command}: exit {done.returncode}\n{done.stderr[-2000:]}")
        shutil.rmtree(self.scratch / "dump", ignore_errors=True)
        return done.stdout

    def trainer(self, model: str, kind: str, number: int) -> subprocess.Popen:
        peer = ["debug-mode"] if kind.startswith("DebugMode") else []
        steps = STEPS[model] // (4 if peer else 1)
        command = [*self.python, str(PROGRAM), model, str(steps), *peer]
        dump = self.recording(KINDS[kind], f"{kind}-{number}".replace(", ", "-"))
        return subprocess.Popen(dump + command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True)

    def turn(self, trainer: subprocess.Popen):
        """@return milliseconds of the median step, and the MiB that the process held at most"""
        trainer.stdin.write("\n")
        trainer.stdin.flush()
        answer = trainer.stdout.readline()
        if not answer:
            sys.exit(f"{trainer.args}: exit {trainer.wait()}")
        done = json.loads(answer)
        return statistics.median(wall for wall, _ in done["steps"]), done["held"]

    def turns(self, model: str, count: int) -> dict:
        """@return for each kind and turn: milliseconds of a step and MiB, means over the kind's processes"""
        trainers = [(kind, self.trainer(model, kind, number)) for kind in KINDS for number in range(PROCESSES)]
        for _, trainer in trainers:
            self.turn(trainer)
        figures = {kind: [] for kind in KINDS}
        for _ in range(count):
            of_turn = {kind: [] for kind in KINDS}
            for kind, trainer in random.sample(trainers, len(trainers)):
                of_turn[kind].append(self.turn(trainer))
            for kind, taken in of_turn.items():
                figures[kind].append([statistics.mean(column) for column in zip(*taken)])
        for _, trainer in trainers:
            trainer.stdin.close()
        for _, trainer in trainers:
            trainer.wait()
        return figures

    def step_of_ranks(self, recorded: bool):
        """@return by the clock, and what of it is waiting, above all for the other rank"""
        launcher = self.python + ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        steps = json.loads(self.run([*launcher, str(PROGRAM), "resnet", "10"], recorded))["steps"][2:]
        return (statistics.median(wall for wall, _ in steps),
                statistics.median(wall - busy for wall, busy in steps))

    def start(self, code: str, recorded: bool) -> float:
        begun = time.perf_counter()
        self.run(self.python + ["-c", code], recorded)
        return (time.perf_counter() - begun) * 1e3


def spread(values) -> str:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:7.3f}   middle half {low:.3f} to {high:.3f}"


def show_ranks(bench: Bench, rounds: int) -> None:
    bare, recorded = [], []
    for _ in range(rounds):
        bare.append(bench.step_of_ranks(False))
        recorded.append(bench.step_of_ranks(True))
    wall, waiting = (statistics.median(column) for column in zip(*bare))
    print(f"\n{NAMES['resnet']}, two ranks of one thread: {rounds} rounds, bare {wall:.1f} ms, {waiting:.1f} of it waiting")
    print(f"  {'exec, digests':<18}{spread([r[0] / b[0] for r, b in zip(recorded, bare)])}")
    print(f"  {'without waiting':<18}{spread([(r[0] - r[1]) / (b[0] - b[1]) for r, b in zip(recorded, bare)])}")
    print(f"  {'waiting, ms more':<18}{spread([r[1] - b[1] for r, b in zip(recorded, bare)])}", flush=True)


def main() -> None:
    bench, turns = Bench(sys.argv[1], Path(sys.argv[2])), int(sys.argv[3])
    print(f"A step of training with AdamW against a bare one: {turns} turns of {PROCESSES} processes, 2 threads.\n")
    for model, name in NAMES.items():
        figures = bench.turns(model, turns)
        bare = figures.pop("bare")
        time, held = (statistics.median(column) for column in zip(*bare))
        print(f"{name}: bare {time:.1f} ms, {held:.0f} MiB")
        for kind, taken in figures.items():
            times, memory = zip(*([of / base for of, base in zip(*pair)] for pair in zip(taken, bare)))
            print(f"  {kind:<18}{spread(times)}   memory {statistics.median(memory):.2f}", flush=True)
    print("\nMilliseconds more to start and end")
    for name, code in STARTS.items():
        more = [bench.start(code, True) - bench.start(code, False) for _ in range(9)]
        print(f"  {name:<18}{spread(more)}", flush=True)
    show_ranks(bench, 25)


if __name__ == "__main__":
    main()
