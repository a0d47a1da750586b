#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same tensors compared by msprobe and by repro-check:
`diff_msprobe.py REPRO_CHECK FOLDER ROUNDS MODEL...`.

msprobe records two forwards of each model, of which the second has other weights, so that every tensor
differs. Its two folders are written again as dumps, tensor by tensor, with the package in python/.
Measured is the whole command of either, from the page cache, two threads each."""
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import make_models
import torch
from msprobe.pytorch import PrecisionDebugger

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
import repro_check  # noqa: E402  the package beside this folder

THREADS = 2


def perturbed(model, inputs) -> list:
    """Changes every weight, and returns other inputs."""
    for parameter in model.parameters():
        parameter.mul_(1 + 2**-12)
    return [each * (1 + 2**-12) if each.is_floating_point() else each for each in inputs]


def record(debugger, model, inputs) -> None:
    debugger.start(model)
    model(*inputs)
    debugger.stop()
    debugger.step()


def tensors_of(described, found) -> list:
    """Files of the tensors in what msprobe says of arguments or results, in order."""
    if isinstance(described, list):
        for item in described:
            tensors_of(item, found)
    elif isinstance(described, dict):
        if described.get("data_name"):
            found.append(described["data_name"])
        else:
            for item in described.values():
                tensors_of(item, found)
    return found


def load(folder: Path, described) -> list:
    return [torch.load(folder / "dump_tensor_data" / name).contiguous().numpy()
            for name in tensors_of(described, [])]


def convert(step: Path, dump: Path) -> int:
    """Writes what msprobe recorded as a dump; returns its bytes."""
    file = next(step.rglob("dump.json"))
    described = json.loads(file.read_text())["data"]
    size = 0
    with repro_check.DumpWriter(dump) as writer:
        for name, call in described.items():
            if not name.endswith(".forward"):
                continue
            inputs = load(file.parent, [call.get("input_args"), call.get("input_kwargs")])
            outputs = load(file.parent, call.get("output"))
            size += sum(array.nbytes for array in inputs + outputs)
            kind, operator = name.split(".")[:2]
            writer.op(f"{kind.lower()}::{operator}",
                      inputs={f"in{i}": array for i, array in enumerate(inputs)}, outputs=outputs)
    return size


def measured(command, expected: int) -> float:
    """Seconds of a whole command that ends with `expected`."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": str(THREADS)})
    if done.returncode != expected:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return time.perf_counter() - start


def rows_of(folder: Path) -> list[dict]:
    with open(next(folder.glob("compare_result_*.csv")), encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def measure(tool: str, folder: Path, rounds: int, name: str, debugger) -> None:
    model, inputs = make_models.MODELS[name]()
    root = folder / "msprobe"
    known = set(root.glob("step*"))
    record(debugger, model, inputs)
    record(debugger, model, perturbed(model, inputs))
    golden, target = sorted(set(root.glob("step*")) - known, key=lambda path: int(path.name[4:]))
    size = convert(golden, folder / "golden")
    convert(target, folder / "target")
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(measured([tool, "diff", str(folder / "golden"), str(folder / "target")], 1))
        shutil.rmtree(folder / "result", ignore_errors=True)
        theirs.append(measured([str(Path(sys.executable).parent / "msprobe"), "compare",
                                "--target_path", str(target), "--golden_path", str(golden),
                                "--output_path", str(folder / "result")], 0))
    print(f"{name}: {size / 1e9:.2f} GB a side, {len(rows_of(folder / 'result'))} tensors, medians of "
          f"{rounds} alternating runs\n"
          f"  msprobe compare   {statistics.median(theirs):8.2f} s\n"
          f"  repro-check diff  {statistics.median(ours):8.2f} s\n"
          f"  repro-check took {statistics.median(theirs) / statistics.median(ours):.1f} times less "
          "time\n", flush=True)
    for path in (golden, target, folder / "golden", folder / "target", folder / "result"):
        shutil.rmtree(path)


def main() -> None:
    tool, folder, rounds, names = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    torch.set_num_threads(THREADS)
    debugger = PrecisionDebugger(task="tensor", level="L1", dump_path=str(folder / "msprobe"))
    with torch.no_grad():
        for name in names:
            measure(tool, folder, rounds, name, debugger)


if __name__ == "__main__":
    main()
