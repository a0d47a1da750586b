#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs that `extract` writes: `reproducer_test.py TOOL MAKE_DUMP`. Skipped (77) where
there is no torch."""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
except ImportError:
    sys.exit(77)


def values(tensor):
    return tensor.double().reshape(-1).tolist()


def entry(tensor):
    return {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape),
            "values": values(tensor)}


def fixture(right):
    """Two calls, one of them in bfloat16. The module of the other tries to get out of its string."""
    x = torch.tensor([[1.5, -2.0], [0.25, 4.0]])
    narrow = x.to(torch.bfloat16)
    total = torch.ops.aten.sum.dim_IntList(narrow, [1], False)
    if not right:
        total = total + 0.5
    return {
        "run": "baseline",
        "manifest": {"seed": 7, "settings": {"threads.intra_op": "1"}},
        "tensors": {"x": entry(x), "n": entry(narrow), "s": entry(total)},
        "ops": [
            {"operator": "aten::sum.dim_IntList", "module": "a",
             "inputs": {"self": "n"}, "scalars": {"dim": [1], "keepdim": False}, "outputs": ["s"]},
            {"operator": "aten::mul.Scalar", "module": "b\"); import os; (\"",
             "inputs": {"self": "x"}, "scalars": {"other": 1.0}, "outputs": ["x"]},
        ],
    }


def run_case(tool, make_dump, directory, description, op, expected):
    (directory / "fixture.json").write_text(json.dumps(description))
    subprocess.run([make_dump, directory / "fixture.json", directory / "dump"], check=True)
    script = directory / "repro.py"
    subprocess.run([tool, "extract", directory / "dump", "--op", str(op), "-o", script],
                   check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([sys.executable, script, "3"], capture_output=True, text=True, check=False)
    if done.returncode != expected or "1 distinct results in 3 calls" not in done.stdout:
        print(f"op {op}: exit code {done.returncode}, expected {expected}\n{done.stdout}{done.stderr}")
        return 1
    return 0


def main():
    tool, make_dump = sys.argv[1:3]
    failures = 0
    for right, op, expected in ((True, 0, 0), (True, 1, 0), (False, 0, 1)):
        with tempfile.TemporaryDirectory() as name:
            failures += run_case(tool, make_dump, pathlib.Path(name), fixture(right), op, expected)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
