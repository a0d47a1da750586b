#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensor recordings by msprobe and by repro-check, each against a bare forward:
`compare_msprobe.py REPRO_CHECK FOLDER ROUNDS MODEL...`. FOLDER holds what make_models.py has written.

msprobe hooks the calls of eager Python, repro-check runs the TorchScript of the same model; so each is
compared with a bare forward of its own kind, two threads, medians of alternating runs. Measured is the
forward while it is recorded: with msprobe until all its files are written, with repro-check until its
last tensor is in the hands of the thread that writes."""
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import make_models
import numpy
import torch
from msprobe.pytorch import PrecisionDebugger

THREADS = 2


def seconds(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def config_for(folder: Path, name: str, inputs) -> Path:
    described = []
    for i, tensor in enumerate(inputs):
        file = folder / f"{name}.{i}.npy"
        numpy.save(file, tensor.numpy())
        described.append({"npy": file.name})
    config = {"model": {"path": f"{name}.pt"}, "inputs": described, "seed": 1, "threads": THREADS,
              "dump": {"level": "tensor", "browse": "never"}}
    file = folder / f"{name}.json"
    file.write_text(json.dumps(config))
    return file


def record(tool: str, config: Path, dump: Path) -> float:
    """Seconds of the forward while it is recorded, from the summary."""
    done = subprocess.run([tool, "record", "-c", str(config), "-o", str(dump), "--force", "-q",
                           "--format", "json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["seconds"]


def bare_script(folder: Path, name: str, inputs) -> float:
    torch._C._set_graph_executor_optimize(False)
    module = torch.jit.load(str(folder / f"{name}.pt"))
    return seconds(lambda: module(*inputs))


class Msprobe:
    """One debugger a process: it goes on with the next step each time."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.debugger = PrecisionDebugger(task="tensor", level="L1", dump_path=str(folder))

    def forward(self, model, inputs) -> None:
        self.debugger.start(model)
        model(*inputs)
        self.debugger.stop()
        self.debugger.step()

    def clear(self) -> None:
        for path in self.folder.glob("step*"):
            shutil.rmtree(path)


def measure(tool: str, folder: Path, rounds: int, name: str, probe: Msprobe) -> None:
    model, inputs = make_models.MODELS[name]()
    config = config_for(folder, name, inputs)
    eager, probed, script, recorded = [], [], [], []
    model(*inputs)
    for _ in range(rounds):
        eager.append(seconds(lambda: model(*inputs)))
        probed.append(seconds(lambda: probe.forward(model, inputs)))
        probe.clear()
        script.append(bare_script(folder, name, inputs))
        recorded.append(record(tool, config, folder / "dump"))
    ours = statistics.median(recorded) / statistics.median(script)
    theirs = statistics.median(probed) / statistics.median(eager)
    print(f"{name}: tensors of a forward, medians of {rounds} alternating runs, {THREADS} threads\n"
          f"  msprobe      {theirs:8.2f} of {statistics.median(eager):.4f} s bare\n"
          f"  repro-check  {ours:8.2f} of {statistics.median(script):.4f} s bare\n"
          f"  repro-check took {statistics.median(probed) / statistics.median(recorded):.1f} times less "
          "time than msprobe\n", flush=True)


def main() -> None:
    tool, folder, rounds, names = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    torch.set_num_threads(THREADS)
    with torch.no_grad():
        probe = Msprobe(folder / "msprobe")
        for name in names:
            measure(tool, folder, rounds, name, probe)


if __name__ == "__main__":
    main()
