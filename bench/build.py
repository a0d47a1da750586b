#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the time of a build went, what a probe takes that is built at first use, and how large and how quick the
program of a wheel is beside the bare one: `build.py BUILD PYTHON WHEEL`, of which PYTHON has torch, or is empty. Seconds are those of the jobs, each by the clock, so that they are a
processor's where no more jobs run than there are processors."""
import collections
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

LONGEST = 15
STARTS = 40
OBJECTS = "CMakeFiles/"


def last_of_each(log: Path) -> dict:
    """Output -> seconds; its last run counts. A job of several outputs counts once."""
    lines = log.read_text(encoding="utf-8").splitlines()
    if not lines or not lines[0].startswith("# ninja log"):
        sys.exit(f"{log}: not a log of ninja")
    jobs = {}
    for line in lines[1:]:
        start, end, written, output, command = line.split("\t")
        jobs[output] = (int(start), int(end), written, command)
    return {jobs[output]: output for output in reversed(jobs)}


def target_of(output: str) -> str:
    if OBJECTS not in output or ".dir/" not in output:
        return "linked, archived and generated"
    return output.split(OBJECTS, 1)[1].split(".dir/", 1)[0]


def short(output: str) -> str:
    return output.replace(OBJECTS, "").replace(".dir/", ": ").removesuffix(".o")


def build_probe(python: str, libexec: Path) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "probe").symlink_to(libexec / "probe")  # and no probe beside it
        begun = time.perf_counter()
        answer = subprocess.run([python, "-B", libexec / "python" / "repro_check_probe.py", scratch],
                                env={**os.environ, "XDG_CACHE_HOME": scratch, "CCACHE_DISABLE": "1"},
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
        seconds = time.perf_counter() - begun
    what, _, told = answer.partition("\0")
    if what != "probe":
        sys.exit(f"the probe was not built: {told}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (f"{seconds:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of processors, "
            f"{used.ru_maxrss / 2**20:.1f} GiB for each")


def start_ups(programs: dict) -> dict:
    """Milliseconds that --help takes, in turn, so that what else goes on meets them alike: the median."""
    taken = {name: [] for name in programs}
    for _ in range(STARTS):
        for name, program in programs.items():
            begun = time.perf_counter()
            subprocess.run([program, "--help"], stdout=subprocess.DEVNULL, check=True)
            taken[name].append((time.perf_counter() - begun) * 1000)
    return {name: statistics.median(times) for name, times in taken.items()}


def wheel_told(wheel: Path, bare: Path) -> str:
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(wheel) as archive:
        inside = next(name for name in archive.namelist() if name.endswith(".data/scripts/repro-check"))
        program = Path(archive.extract(inside, scratch))
        program.chmod(0o755)
        installed = sum(entry.file_size for entry in archive.infolist())
        times = start_ups({"wheel": program, "bare": bare})
        size = program.stat().st_size
    return (f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, installed {installed / 1e6:.1f} MB, its program "
            f"{size / 1e6:.1f} MB\n--help: {times['wheel']:.1f} ms, that of {bare}: {times['bare']:.1f} ms")


def main() -> int:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    build = Path(sys.argv[1])
    jobs = [
        ((end - start) / 1000, output)
        for (start, end, _, _), output in last_of_each(build / ".ninja_log").items()
    ]
    total, count = collections.Counter(), collections.Counter()
    for seconds, output in jobs:
        total[target_of(output)] += seconds
        count[target_of(output)] += 1
    print(f"{'seconds':>9} {'jobs':>5}  target")
    for target, seconds in total.most_common():
        print(f"{seconds:9.1f} {count[target]:5}  {target}")
    print(f"{sum(total.values()):9.1f} {len(jobs):5}  in all\n\n{'seconds':>9}  longest jobs")
    for seconds, output in sorted(jobs, reverse=True)[:LONGEST]:
        print(f"{seconds:9.1f}  {short(output)}")
    if sys.argv[2]:
        print(f"\nthe probe, at first use: {build_probe(sys.argv[2], build / 'libexec' / 'repro-check')}")
    print(f"\n{wheel_told(Path(sys.argv[3]), build / 'bin' / 'repro-check')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
