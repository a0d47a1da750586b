#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the time of a build went, what probe and recorder take that are built at first use of a wheel, and how large
and how quick the program of a wheel is beside the bare one: `build.py BUILD PYTHON WHEEL`, of which PYTHON has torch, or
is empty. Seconds are those of the jobs, each by the clock, so that they are a processor's where no more jobs run than
there are processors."""
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


def first_use(python: str, libexec: Path, product: str, cache: str) -> str:
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = subprocess.run([python, "-B", libexec / "python" / "repro_check_hooks" / "kit.py", product, libexec],
                            env={**os.environ, "XDG_CACHE_HOME": cache, "CCACHE_DISABLE": "1"},
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    seconds, used = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    what, _, told = answer.partition("\0")
    if what != "file":
        sys.exit(f"the {product} was not built: {told}")
    processors = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return (f"{seconds:.1f} s, {processors:.1f} s of processors, at most {used.ru_maxrss / 2**20:.1f} GiB for each, "
            f"{Path(told).stat().st_size / 1e6:.1f} MB")


def first_uses(python: str, wheel: Path):
    """With what the wheel brings: each alone, and a recorder where the probe is there."""
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(wheel) as archive:
        archive.extractall(scratch)
        libexec = next(Path(scratch).glob("*.data/data/libexec/repro-check"))
        for cache, product, what in (("a", "recorder", "the recorder"), ("b", "probe", "the probe"),
                                     ("b", "recorder", "the recorder after it")):
            yield f"{what}, at first use: {first_use(python, libexec, product, os.path.join(scratch, cache))}"


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
        print("", *first_uses(sys.argv[2], Path(sys.argv[3])), sep="\n")
    print(f"\n{wheel_told(Path(sys.argv[3]), build / 'bin' / 'repro-check')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
