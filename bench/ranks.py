#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Called by bench/ranks: `ranks.py REPRO_CHECK RANK_DUMPS SCRATCH [RANKS ...]`."""
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

STEPS, TENSORS = 100, 200
KINDS = {"grad": "gradients", "state": "optimizer state", "param": "parameters"}


def measure(command) -> tuple:
    """Its output, seconds and the most memory it had, in MiB."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    return output, time.perf_counter() - begun, usage.ru_maxrss / 1024


def finds_all(report, odd, step, kind, truncated, absent) -> bool:
    first = report["first"]
    return (first["odd_ranks"] == [odd] and first["step"] == step and first["kind"] == KINDS[kind]
            and report["absent"] == [absent] and report["verdict"]["exit_code"] == 3
            and [each["rank"] for each in report["ranks"] if each["message"]] == [truncated])


@contextlib.contextmanager
def workers():
    """A Dask cluster of two workers on this machine; None where there is no Dask."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
    try:
        from dask.distributed import Client
    except ImportError:
        yield None
        return
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        yield client


def main() -> None:
    with workers() as client:
        run(client)


def on_dask(client, tool, dump):
    if client is None:
        return None, "no Dask"
    from repro_check import distributed

    begun = time.perf_counter()
    verdict = distributed.ranks(dump, client, width=64, tool=tool)
    return verdict.report, f"{time.perf_counter() - begun:.2f}"


def run(client) -> None:
    tool, make, scratch = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    draw = random.Random()
    print(f"{STEPS} steps, {TENSORS} tensors each and what the forward pass begins with.\n")
    print(f"{'ranks':>6} {'seconds':>8} {'MiB':>6} {'on Dask':>8}  found")
    for ranks in map(int, sys.argv[4:] or ("64", "256", "1024")):
        odd, truncated, absent = draw.sample(range(ranks), 3)
        step, kind = draw.randrange(STEPS), draw.choice(list(KINDS))
        dump = scratch / "run"
        subprocess.run([make, dump, str(ranks), str(STEPS), str(TENSORS), str(odd), str(step), kind], check=True)
        os.truncate(dump / f"rank-{truncated}" / "trace.h5", 100_000)
        shutil.rmtree(dump / f"rank-{absent}")
        output, seconds, memory = measure([tool, "ranks", dump, "--format", "json"])
        report = json.loads(output)
        merged, dask_seconds = on_dask(client, tool, dump)
        found = all(finds_all(each, odd, step, kind, truncated, absent) for each in (report, merged) if each)
        word = "all three" if found else "NOT ALL"
        print(f"{ranks:>6} {seconds:>8.2f} {memory:>6.0f} {dask_seconds:>8}  {word}", flush=True)
        shutil.rmtree(dump)


if __name__ == "__main__":
    main()
