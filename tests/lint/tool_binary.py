#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tool itself loads no LibTorch, so it starts at once: `tool_binary.py REPRO_CHECK`. The time is
printed and not judged: this machine may be busy."""
import statistics
import subprocess
import sys
import time


def main() -> int:
    tool = sys.argv[1]
    libraries = subprocess.run(["ldd", tool], capture_output=True, text=True, check=True).stdout
    loaded = [line.split()[0] for line in libraries.splitlines()
              if line.strip().startswith(("libtorch", "libc10", "libcaffe2"))]
    times = []
    for _ in range(11):
        start = time.perf_counter()
        result = subprocess.run([tool, "--help"], capture_output=True, text=True)
        times.append((time.perf_counter() - start) * 1000)
    print(f"--help: median {statistics.median(times):.1f} ms, exit {result.returncode}")
    print(f"LibTorch loaded: {loaded or 'none'}")
    return 1 if loaded or result.returncode != 0 or "run" not in result.stdout else 0


if __name__ == "__main__":
    sys.exit(main())
