#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs random programs twice bare and twice recorded: `random_programs.py REPRO_CHECK SCRATCH [--seed N]
[--programs N] [--minutes M] [--jobs N] [--keep] [--print]`.

The seed alone decides which features of random_features.txt a program has: `--seed N --programs 1` runs one program
again, `--print` shows it. The outcomes: *harm*, a recorded run prints, writes or ends differently than a bare one;
*false*, `diff` passes two runs although two bare runs differ, or the other way round; *refused*, `diff` exits with 4
(with 3 where a signal ends the program), its reason is printed; *broken*, the program fails bare; *right* otherwise."""
import argparse
import collections
import concurrent.futures
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

FEATURES = Path(__file__).with_name("random_features.txt")
SECTIONS = ("import", "import first", "top", "start", "before", "data", "loop", "loss", "backward", "after", "end")
SKELETON = """\
# {names}
{import_first}
import hashlib, os, sys
{imports}
import torch
from torch import nn
{top}
def show(name, value):
    print(name, torch.as_tensor(value).detach().double().sum().item().hex(), flush=True)
def main():
    torch.manual_seed({seed}); torch.set_num_threads({threads})
{start}
{before}
    for step in range(3):
{data}
{loop}
        loss = nn.functional.cross_entropy(net(x), y)
{loss}
        opt.zero_grad(); loss.backward()
{backward}
        opt.step(); show("loss", loss)
{after}
    show("weights", torch.cat([p.detach().flatten() for p in net.parameters()])); torch.save(net.state_dict(), "model.pt")
{end}
if __name__ == "__main__":
    main()
"""


class Feature:
    def __init__(self, text):
        head, *lines = text.splitlines()
        name = re.match(r"(.*?)((?: (?:net|data|opt|end|leak|fork|main|untimed))*)$", head)
        self.name, self.flags, self.parts, section = name[1], name[2].split(), collections.defaultdict(list), None
        for line in lines:
            if line.startswith("@") and line[1:] in SECTIONS:
                section = line[1:]
            elif line.strip():
                self.parts[section].append(line)


def features():
    return [Feature(text) for text in FEATURES.read_text(encoding="utf-8").split("\n== ")[1:]]


class Program:
    """The program of a seed."""

    def __init__(self, seed):
        draw, known = random.Random(seed), features()
        of = lambda flag: [f for f in known if flag in f.flags]
        plain = [f for f in known if not {"net", "data", "opt", "end", "leak"} & set(f.flags)]
        chosen = [draw.choice(of("net")), draw.choice(of("opt")), draw.choice(of("data"))]
        chosen += draw.sample(plain, draw.randint(3, 7))
        if draw.random() < 0.2:
            chosen.append(draw.choice(of("leak")))
        end = draw.choice(of("end")) if draw.random() < 0.2 else None
        rest = chosen[3:]
        # A fork copies only the calling thread, so features that fork come before features that start threads.
        rest.sort(key=lambda f: "fork" not in f.flags)
        chosen = chosen[:3] + rest + ([end] if end else [])
        self.seed, self.names, self.ends = seed, [f.name for f in chosen], end.name if end else ""
        self.judged = not any("untimed" in f.flags for f in chosen)
        code = lambda section, depth: textwrap.indent(
            "\n".join(line for f in chosen for line in f.parts[section]), "    " * depth)
        unique = lambda section: "\n".join(dict.fromkeys(line for f in chosen for line in f.parts[section]))
        text = SKELETON.format(
            names=f"{seed}: {', '.join(self.names)}", import_first=unique("import first"), imports=unique("import"),
            top=code("top", 0), start=code("start", 1), before=code("before", 1), data=code("data", 2), loop=code("loop", 2),
            loss=code("loss", 2), backward=code("backward", 2), after=code("after", 1), end=code("end", 1), seed=seed,
            threads=1 if any("fork" in f.flags for f in chosen) else draw.choice((1, 2))).replace("SEED", str(seed))
        self.text = "\n".join(line for line in text.splitlines() if line.strip()) + "\n"


def plainly(text):
    """The printed text without addresses, process ids, times and the lines of the tool."""
    lines = [line for line in text.splitlines() if not line.startswith(("repro-check", "USDT:"))]
    return re.sub(r"0x[0-9a-f]+|\[[WE]\d{4} [\d:.]+|pid=\d+", "?", "\n".join(lines))


class Trial:
    def __init__(self, tool, scratch, program):
        self.tool, self.program, self.folder = tool, program, scratch / str(program.seed)

    def run(self, name, record):
        """Runs the program once, always in the same folder. @return exit code, stdout, stderr, digests of the files"""
        work = self.folder / "work"
        work.mkdir(parents=True)
        (work / "program.py").write_text(self.program.text, encoding="utf-8")
        command = [sys.executable, "program.py"]
        if record:
            command = [self.tool, "exec", "-o", self.folder / name, "--", *command]
        with open(self.folder / f"{name}.out", "wb") as out, open(self.folder / f"{name}.err", "wb") as err:
            process = subprocess.Popen(command, cwd=work, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       start_new_session=True, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
            try:
                code = process.wait(timeout=300)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code, _ = "hangs", process.wait()
        files = {str(f.relative_to(work)): hashlib.sha256(f.read_bytes()).hexdigest()
                 for f in sorted(work.rglob("*")) if f.is_file()}
        shutil.rmtree(work)
        said = [plainly((self.folder / f"{name}.{end}").read_text(errors="replace")) for end in ("out", "err")]
        return code, *said, files

    def verdict(self):
        done = subprocess.run([self.tool, "diff", "first", "second"], cwd=self.folder, capture_output=True, text=True)
        return done.returncode, (done.stdout + done.stderr).strip()

    def judge(self):
        """@return the outcome and the reason"""
        bare = [self.run(name, record=False) for name in ("bare", "again")]
        if not self.program.ends.startswith("exception"):
            for run in bare:
                if run[0] == 1 and "Error" in run[2]:
                    return "broken", run[2].strip().splitlines()[-1]
        recorded = [self.run(name, record=True) for name in ("first", "second")]
        equal = bare[0] == bare[1]
        for run in recorded:
            if run[0] != bare[0][0]:
                return "harm", f"exit code {run[0]}, {bare[0][0]} bare: {run[2].strip()[-200:]}"
            for place, what in ((1, "stdout"), (2, "stderr"), (3, "files")):
                if equal and run[place] != bare[0][place] or len(run[place]) != len(bare[0][place]):
                    if equal or what == "files":
                        return "harm", f"{what} differs"
        code, said = self.verdict()
        head = said.splitlines()[0] if said else ""
        if not self.program.judged:
            return "right", "not judged"
        # A recording that a signal ends is partial: 3 until somebody asks for what there is of it.
        if code == 4 or (code == 3 and bare[0][0] < 0):
            return "refused", head
        return ("right" if code == (0 if equal else 1) else "false"), f"equal bare: {equal}; diff {code}: {head}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", type=int, default=10 ** 6)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the dumps of right programs too")
    parser.add_argument("--print", action="store_true", help="print the programs, run none")
    ask = parser.parse_args()
    if ask.print:
        for seed in range(ask.seed, ask.seed + min(ask.programs, 1000)):
            print(Program(seed).text)
        return 0
    tool, scratch, stop = ask.tool.resolve(), ask.scratch.resolve(), time.monotonic() + 60 * ask.minutes
    scratch.mkdir(parents=True, exist_ok=True)

    def one(seed):
        if time.monotonic() > stop:
            return None
        trial = Trial(tool, scratch, Program(seed))
        outcome, why = trial.judge()
        if outcome in ("right", "refused") and not ask.keep:
            shutil.rmtree(trial.folder)
        else:
            (trial.folder / "program.py").write_text(trial.program.text, encoding="utf-8")
        return trial.program, outcome, why

    found = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(ask.jobs) as pool:
        seeds = iter(range(ask.seed, ask.seed + ask.programs))
        running = {pool.submit(one, seed) for _, seed in zip(range(ask.jobs), seeds)}
        while running:
            done, running = concurrent.futures.wait(running, return_when="FIRST_COMPLETED")
            for result in [future.result() for future in done]:
                if result is None:
                    continue
                program, outcome, why = result
                found[outcome] += 1
                print(f"{program.seed:6}  {outcome:8} {why}\n{'':16} {', '.join(program.names)}", flush=True)
                for seed in seeds:
                    running.add(pool.submit(one, seed))
                    break
    print(f"seeds from {ask.seed}: {sum(found.values())} programs, " + ", ".join(
        f"{found[outcome]} {outcome}" for outcome in ("right", "refused", "harm", "false", "broken")))
    return int(found["harm"] + found["false"] + found["broken"] > 0)


if __name__ == "__main__":
    sys.exit(main())
