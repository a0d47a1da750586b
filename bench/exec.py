#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `repro-check exec` costs a step of training: `exec.py REPRO_CHECK SCRATCH ROUNDS`. In each round
every program runs bare, bare again, recorded by blocks, recorded by operators, and under PyTorch's DebugMode; a round's
ratios are those of its median steps and of the memory that it held at most. Printed are medians over the rounds,
the middle half, and what the start costs. Below the spread of the second bare series nothing can be told. Then, in at
least 25 rounds, the first of the programs on two ranks under DistributedDataParallel, bare and recorded."""
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

STEPS = {"resnet": 16, "bert": 12, "gpt2": 40}
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

    def run(self, command, recorded: bool, depth: str = "top") -> str:
        dump = self.scratch / "dump"
        before = [self.tool, "exec", "--force", "--depth", depth, "-o", str(dump), "--"] if recorded else []
        done = subprocess.run(before + command, capture_output=True, text=True)
        # 4: nothing was recorded, which is right where no operator ran.
        if done.returncode not in ((0, 4) if recorded else (0,)):
            sys.exit(f"{command}: exit {done.returncode}\n{done.stderr[-2000:]}")
        shutil.rmtree(dump, ignore_errors=True)
        return done.stdout

    def step(self, model: str, recorded: bool, *more: str, depth: str = "top"):
        """@return milliseconds, and the MiB that the process held at most"""
        steps = STEPS[model] if not more else max(5, STEPS[model] // 4)
        done = json.loads(self.run(self.python + [str(PROGRAM), model, str(steps), *more], recorded, depth))
        return statistics.median(wall for wall, _ in done["steps"]), done["held"]

    def step_of_ranks(self, recorded: bool):
        """@return by the clock, and what of it is waiting, above all for the other rank"""
        launcher = self.python + ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        steps = json.loads(self.run([*launcher, str(PROGRAM), "resnet", "8"], recorded))["steps"]
        return (statistics.median(wall for wall, _ in steps),
                statistics.median(wall - busy for wall, busy in steps))

    def start(self, code: str, recorded: bool) -> float:
        begun = time.perf_counter()
        self.run(self.python + ["-c", code], recorded)
        return (time.perf_counter() - begun) * 1e3


def spread(values) -> str:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:6.2f}   middle half {low:.2f} to {high:.2f}"


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
    bench, rounds = Bench(sys.argv[1], Path(sys.argv[2])), int(sys.argv[3])
    print(f"A step of training with AdamW against a bare one: {rounds} rounds, 2 threads.\n")
    for model, name in NAMES.items():
        bare, again, blocks, recorded, peer = [], [], [], [], []
        for _ in range(rounds):
            bare.append(bench.step(model, False))
            blocks.append(bench.step(model, True, depth="blocks"))
            again.append(bench.step(model, False))
            recorded.append(bench.step(model, True))
            peer.append(bench.step(model, False, "debug-mode"))
        time, held = (statistics.median(column) for column in zip(*bare))
        print(f"{name}: bare {time:.1f} ms, {held:.0f} MiB")
        for title, runs in (("bare again", again), ("exec, blocks", blocks), ("exec, digests", recorded),
                            ("DebugMode hashes", peer)):
            times, memory = zip(*([of / base for of, base in zip(*pair)] for pair in zip(runs, bare)))
            print(f"  {title:<18}{spread(times)}   memory {statistics.median(memory):.2f}", flush=True)
    print("\nMilliseconds more to start and end")
    for name, code in STARTS.items():
        more = [bench.start(code, True) - bench.start(code, False) for _ in range(max(rounds, 5))]
        print(f"  {name:<18}{spread(more)}", flush=True)
    show_ranks(bench, max(rounds, 25))


if __name__ == "__main__":
    main()
