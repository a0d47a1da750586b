#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What comparing costs: `compare.py REPRO_CHECK COMPARE_DUMPS SCRATCH MIB`. Whole commands, from the page
cache, time and peak memory of each; the median of three runs. Beside the target of each figure, and
h5diff over the same two files where it is installed."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 3
STREAM = 1_000_000


def measured(command) -> tuple:
    """Seconds, peak memory in MiB, exit code and stdout of one run."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - start, usage.ru_maxrss / 1024, child.returncode, out


def median_of(command, expected: int) -> tuple:
    runs = [measured(command) for _ in range(ROUNDS)]
    for _, _, code, out in runs:
        if code != expected:
            sys.exit(f"{' '.join(map(str, command))}: exit {code}, expected {expected}\n{out.decode()[:2000]}")
    return (statistics.median(run[0] for run in runs), max(run[1] for run in runs), runs[0][3])


class Bench:
    def __init__(self, tool: str, maker: str, scratch: Path):
        self.tool, self.maker, self.scratch = tool, maker, scratch

    def pair(self, kind: str, size: int) -> Path:
        folder = self.scratch / kind
        folder.mkdir()
        subprocess.run([self.maker, kind, str(folder), str(size)], check=True)
        for file in folder.glob("*/trace.h5"):
            into_page_cache(file)
        return folder

    def diff(self, folder: Path, expected: int, *flags: str) -> tuple:
        return median_of([self.tool, "diff", str(folder / "A"), str(folder / "B"), *flags], expected)

    def gate(self, folder: Path, expected: int, what: str, rest: str = "") -> None:
        seconds, memory, _ = median_of([self.tool, "gate", "--against", str(folder)], expected)
        line(what, seconds, memory, rest)


def into_page_cache(file: Path) -> None:
    # In pieces: a child starts with the peak memory of whoever started it.
    with file.open("rb", buffering=0) as stream:
        while stream.read(1 << 20):
            pass


def line(what: str, seconds: float, memory: float, rest: str = "") -> None:
    print(f"{what:58} {seconds:8.3f} s {memory:7.0f} MiB  {rest}", flush=True)


def equal(bench: Bench) -> None:
    folder = bench.pair("equal", 100_000)
    seconds, memory, _ = bench.diff(folder, 0, "--verify", "differing")
    line("100,000 equal operators, digests alone", seconds, memory, "(target < 1 s)")
    seconds, memory, _ = bench.diff(folder, 0)
    line("  and every stored byte verified", seconds, memory)
    bench.gate(folder, 4, "  the same as `gate --against`, no baseline", "(target < 1 s)")
    shutil.rmtree(folder)


def different(bench: Bench, mib: int) -> None:
    folder = bench.pair("different", mib)
    gigabytes = stored_bytes(folder) / 1e9
    times = {}
    reports = {}
    for threads in ("1", "2", "8"):
        seconds, memory, out = bench.diff(
            folder, 1, "--threads", threads, "--verify", "differing", "--format", "json")
        times[threads] = seconds
        reports[threads] = without_times(out)
        line(f"{gigabytes:.2f} GB a side, all different, {threads} threads", seconds, memory,
             f"{gigabytes / seconds:.2f} GB/s a side")
    print("  the same report with 1, 2 and 8 threads: "
          f"{'yes' if len(set(reports.values())) == 1 else 'NO'}")
    seconds, memory, _ = bench.diff(folder, 1)
    line("  as `diff` does it by itself", seconds, memory,
         f"{gigabytes / seconds:.2f} GB/s a side (target 1.5 on two cores, 256 MiB)")
    h5diff(folder, seconds)
    shutil.rmtree(folder)


def stored_bytes(folder: Path) -> int:
    return json.loads((folder / "A" / "manifest.json").read_text())["trace"]["stored_bytes"]


def without_times(report: bytes) -> str:
    document = json.loads(report)
    document.pop("timing")
    return json.dumps(document)


def h5diff(folder: Path, ours: float) -> None:
    if not shutil.which("h5diff"):
        print("  h5diff is not installed")
        return
    seconds, memory, code, _ = measured(
        ["h5diff", "-q", str(folder / "A" / "trace.h5"), str(folder / "B" / "trace.h5"), "/ops", "/ops"])
    if code != 1:
        sys.exit(f"h5diff: exit {code}, expected 1")
    line("  h5diff over the same tensors", seconds, memory, f"{seconds / ours:.1f} times ours (target 3)")


def streams(bench: Bench) -> None:
    for kind, count, what, target in (
            ("inserted", STREAM, "1,000 insertions among 1,000,000 operators", "(target < 5 s)"),
            ("reversed", STREAM, "1,000,000 operators reversed", "(bounded)"),
            ("two-keys", STREAM, "1,000,000 operators of two keys, at random", "(bounded)"),
            ("ranks", STREAM, "1,000,000 operators of a rank each", "(target 256 MiB)"),
            ("step", STREAM // 10, "a step with 100,000 parameters that differ", "(bounded)"),
            ("reversed", 3 * STREAM, "3,000,000 operators reversed", "(target 256 MiB)")):
        folder = bench.pair(kind, count)
        seconds, memory, _ = bench.diff(folder, 1, "--verify", "differing")
        line(what, seconds, memory, target)
        if kind == "inserted":
            bench.gate(folder, 1, "  the same as `gate --against`")
            inspect(bench, folder / "A")
        shutil.rmtree(folder)


def inspect(bench: Bench, dump: Path) -> None:
    """One dump of as many operators, by what people ask of it first."""
    for what, flags in (("summary", []), ("list of all", ["--list"]),
                        ("list of a few", ["--list", "--range", f"{STREAM - 10}:{STREAM - 1}"]),
                        ("one operator", ["--op", str(STREAM // 2)])):
        seconds, memory, out = median_of([bench.tool, "inspect", str(dump), *flags], 0)
        line(f"  `inspect` of 1,000,000 operators, {what}", seconds, memory,
             f"{out.count(10):,} lines")


def main() -> None:
    tool, maker, scratch, mib = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    bench = Bench(tool, maker, scratch)
    equal(bench)
    different(bench, mib)
    streams(bench)


if __name__ == "__main__":
    main()
