#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands that are started beside each other in one place, with nobody's help: `races.py
REPRO_CHECK MODEL SCRATCH RACES`. Of two configurations one always diverges and one never does; what
must not come out is an exit 0 of the first, or an exit 0 of a recording whose dump is damaged."""
import collections
import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path


class Races:
    def __init__(self, tool: Path, model: Path, scratch: Path):
        self.tool, self.scratch = tool, scratch
        self.faults = []
        inputs = [[{"generate": "normal", "shape": [1, 3, 32, 32], "dtype": "float32", "seed": seed}]
                  for seed in (1, 2)]
        base = {"model": str(model.resolve()), "baselines": {"name": "shared"}, "inputs": inputs[0]}
        (scratch / "never.json").write_text(json.dumps(base))
        (scratch / "always.json").write_text(json.dumps(
            {**base, "runs": [{"name": "baseline"}, {"name": "candidate", "inputs": inputs[1]}]}))

    def accept(self):
        """The baseline that both configurations ask, so that each of them could pass; by itself each
        does as it is called."""
        for code, *words in ((4, "gate", "-c", "never.json"),
                             (0, "gate", "accept", "--yes-in-ci", "-c", "never.json"),
                             (0, "gate", "-c", "never.json"), (1, "gate", "-c", "always.json")):
            process = self.start(*words)
            said = process.communicate()
            if process.returncode != code:
                sys.exit("\n".join(said))

    def start(self, *words):
        return subprocess.Popen([self.tool, *words], cwd=self.scratch, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def race(self, *commands):
        """@return the exit codes, in the order of the commands"""
        started = []
        for command in random.sample(list(enumerate(commands)), len(commands)):
            started.append((command[0], self.start(*command[1])))
            time.sleep(random.choice((0, random.random(), 3 * random.random())))
        codes = {place: (process.communicate(), process.returncode)[1] for place, process in started}
        return [codes[place] for place in range(len(commands))]

    def verdicts(self, verb):
        force = ["--force"] if verb == "run" else []
        codes = self.race([verb, "-c", "always.json", *force], [verb, "-c", "never.json", *force])
        if codes[0] == 0:
            self.faults.append(f"{verb}: what always diverges ended with exit 0")
        return codes

    def recordings(self):
        command = ["record", "-c", "never.json", "-o", "same", "--force"]
        codes = self.race(command, command, command, ["verify", "same"], ["diff", "same", "same"])
        whole = self.race(["verify", "same"])[0]
        if 0 in codes[:3] and whole != 0:
            self.faults.append(f"record --force: exit 0, and verify says {whole}")
        if 3 in codes[3:] and self.had_dump:
            self.faults.append(f"a reader beside the recording said {codes[3:]}")
        self.had_dump = whole == 0
        return codes

    had_dump = False


def main() -> None:
    tool, model, scratch, races = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), Path(sys.argv[3]), \
        int(sys.argv[4])
    scratch.mkdir(parents=True, exist_ok=True)
    random.seed(2026)
    arena = Races(tool, model, scratch)
    kinds = {"gate": lambda: arena.verdicts("gate"), "run --force": lambda: arena.verdicts("run"),
             "record --force": arena.recordings}
    arena.accept()
    counts = {name: collections.Counter() for name in kinds}
    for number in range(races):
        name = list(kinds)[number % len(kinds)]
        counts[name][tuple(kinds[name]())] += 1
    for name, seen in counts.items():
        print(f"{name}: " + ", ".join(f"{codes} {times} times" for codes, times in seen.most_common()))
    for fault in arena.faults:
        print("FAULT", fault)
    print(f"{races} races, {len(arena.faults)} faults")
    shutil.rmtree(scratch)
    sys.exit(1 if arena.faults else 0)


if __name__ == "__main__":
    main()
