#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`diff` says the same, byte for byte, whatever the number of its threads.

`threads_test.py TOOL MAKE_DUMP`: two dumps whose tensors are several leaves of 65,536 elements and
several digest chunks long, and differ in many of them.
"""

import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

from run_case import normalise

THREADS = (1, 2, 8)
# dtype and number of elements; none a multiple of a leaf or of a chunk.
TENSORS = {"a": ("float32", 600_001), "b": ("float64", 300_007), "c": ("float32", 131_073),
           "d": ("int64", 200_003)}


def values(dtype, count, generator):
    if dtype == "int64":
        return [generator.randrange(-1 << 40, 1 << 40) for _ in range(count)]
    return [round(generator.uniform(-3, 3), 6) for _ in range(count)]


def changed(dtype, numbers, generator):
    """Every seventh element or so moved, by sums that rounding makes depend on their order."""
    moved = list(numbers)
    for index in range(generator.randrange(7), len(moved), 7):
        moved[index] += 3 if dtype == "int64" else round(generator.gauss(0, 1e-2), 9)
    if dtype == "float32":
        moved[70_000], moved[131_072] = "nan", "inf"
    return moved


def make(make_dump, folder, name, contents):
    ops = []
    for position, tensor in enumerate(contents):
        ops.append({"operator": f"aten::op{position}", "module": "m", "source": "model.py:7",
                    "inputs": {"self": "x"}, "outputs": [tensor]})
    tensors = {"x": {"dtype": "float32", "shape": [1], "values": [1]}}
    for tensor, numbers in contents.items():
        tensors[tensor] = {"dtype": TENSORS[tensor][0], "shape": [len(numbers)], "values": numbers}
    fixture = folder / "fixture.json"
    fixture.write_text(json.dumps({"run": name, "tensors": tensors, "ops": ops}))
    subprocess.run([make_dump, fixture, folder / name], check=True)
    fixture.unlink()


def diff(tool, folder, threads, *options):
    done = subprocess.run([tool, "diff", "baseline", "candidate", "--threads", str(threads),
                           "--color", "never", *options], cwd=folder,
                          capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 1:
        raise SystemExit(f"exit {done.returncode} with {threads} threads: {done.stdout}{done.stderr}")
    return normalise(done.stdout, folder)


def check(tool, folder, options, expected):
    first = diff(tool, folder, THREADS[0], *options)
    for text in expected:
        if text not in first:
            raise SystemExit(f"{options}: no {text!r} in\n{first[:4000]}")
    for threads in THREADS[1:]:
        again = diff(tool, folder, threads, *options)
        if again != first:
            at = next(i for i, (one, other) in enumerate(zip(first + "\0", again + "\0"))
                      if one != other)
            raise SystemExit(f"{options}: {threads} threads say {again[max(0, at - 200):at + 200]!r}\n"
                             f"1 thread says {first[max(0, at - 200):at + 200]!r}")


def depends_on_order(numbers):
    """Whether the order of a sum shows in its last bits, as it must to test anything."""
    forward = backward = 0.0
    for one in numbers:
        forward += one * one
    for one in reversed(numbers):
        backward += one * one
    return struct.pack("d", forward) != struct.pack("d", backward)


def main():
    tool, make_dump = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:])
    generator = random.Random(20)
    with tempfile.TemporaryDirectory(prefix="repro-check-") as name:
        folder = pathlib.Path(name)
        baseline = {tensor: values(*kind, generator) for tensor, kind in TENSORS.items()}
        candidate = {tensor: changed(TENSORS[tensor][0], numbers, generator)
                     for tensor, numbers in baseline.items()}
        if not depends_on_order(baseline["b"]):
            raise SystemExit("these numbers cannot show a sum in another order")
        make(make_dump, folder, "baseline", baseline)
        make(make_dump, folder, "candidate", candidate)
        check(tool, folder, ["--all", "-v"], ["DIVERGED at op 0 aten::op0", "op 3 aten::op3"])
        check(tool, folder, ["--format", "json"], ['"mean_abs"', '"rmse"', '"cosine"'])
        check(tool, folder, ["--policy", "tolerance", "--format", "json", "--all"], ['"n_beyond"'])
    return 0


if __name__ == "__main__":
    sys.exit(main())
