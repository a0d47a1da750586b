#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of training libraries, bare and under `exec`: `programs.py REPRO_CHECK LIBRARIES SCRATCH`. The
last line that each prints is its final loss and the sum of its parameters, in hexadecimal."""
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
OWN, TESTS = ROOT / "bench/outside", ROOT / "tests/models/programs"


class Program(NamedTuple):
    name: str
    needs: str  # a module
    libraries: str  # where it is, if the set-up has not got it
    command: list


PROGRAMS = (
    Program("convnet of pytorch/examples, 2 workers", "torch", "", [TESTS / "convnet.py", "7"]),
    Program("Trainer of transformers, BERT", "accelerate", "libraries", [TESTS / "fine_tuning.py", "5"]),
    Program("Trainer of lightning", "lightning", "libraries", [OWN / "lightning_trainer.py"]),
    Program("loop of accelerate", "accelerate", "libraries", [OWN / "accelerated.py"]),
    Program("ResNet and AdamW of timm", "timm", "timm", [OWN / "timm_resnet.py"]),
    Program("word language model", "torch", "", [TESTS / "language_model.py", "1"]),
    Program("GAN, two optimizers", "torch", "", [TESTS / "gan.py", "3"]),
)


def run(command, folder, environment):
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    return done.returncode, lines[-1] if lines else "", done.stderr


def try_program(tool, libraries, folder, program):
    """Lines on one program, and whether it is `right`, `wrong` or `not run`."""
    environment = dict(os.environ)
    if program.libraries:
        environment["PYTHONPATH"] = str(libraries / program.libraries)
    code, _, errors = run([sys.executable, "-c", f"import {program.needs}"], folder, environment)
    if code:
        why = errors.strip().splitlines()
        return [f"not run: {program.needs} cannot be imported: {why[-1] if why else code}"], "not run"
    command = [sys.executable, "-B", "-W", "ignore", *map(str, program.command)]
    code, bare, errors = run(command, folder, environment)
    if code:
        return [f"fails bare, exit code {code}: {errors[-500:]}"], "wrong"
    lines, good = [f"bare: exit code {code}, {bare}"], True
    for dump in ("first", "second"):
        recorded, printed, errors = run([tool, "exec", "-o", dump, "--", *command], folder, environment)
        said = [line for line in errors.splitlines() if line.startswith("repro-check:")]
        equal = "loss and parameters bit-equal" if printed == bare else f"{printed} is NOT what it was bare"
        lines.append(f"exec: exit code {recorded}{'' if recorded == code else ' is NOT that of bare'}, {equal}; "
                     f"{said[-1].partition('info: ')[2] if said else errors[-300:]}")
        good = good and recorded == code and printed == bare
    verdict, said, _ = run([tool, "diff", "-q", "first", "second"], folder, environment)
    lines.append(f"diff: exit code {verdict}, {said}")
    return lines, "right" if good and verdict == 0 else "wrong"


def main():
    tool, libraries, scratch = (Path(word).resolve() for word in sys.argv[1:])
    found = []
    for number, program in enumerate(PROGRAMS):
        folder = scratch / str(number)
        folder.mkdir()
        lines, outcome = try_program(tool, libraries, folder, program)
        found.append(outcome)
        print(f"{program.name}\n  " + "\n  ".join(lines), flush=True)
    print(", ".join(f"{found.count(outcome)} {outcome}" for outcome in ("right", "wrong", "not run")))
    return int("wrong" in found)


if __name__ == "__main__":
    sys.exit(main())
