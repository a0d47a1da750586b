#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Called by bench/audit: `audit.py REPRO_CHECK TRAINING_DUMP SCRATCH [OPERATORS ...]`."""
import json
import shutil
import subprocess
import sys
from pathlib import Path

from ranks import measure

MICROSECONDS = 20


def main() -> None:
    tool, make, scratch = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    print(f"{'operators':>9} {'seconds':>8} {'budget':>7} {'MiB':>6}  verdict")
    for operators in map(int, sys.argv[4:] or ("10000", "100000", "1000000")):
        dump = scratch / str(operators)
        subprocess.run([make, dump, str(operators)], check=True)
        output, seconds, memory = measure([tool, "audit", dump, "--format", "json"])
        report = json.loads(output)
        budget = 1 + operators * MICROSECONDS / 1e6
        words = f"{report['verdict']['status']}, {len(report['audited'])} rules"
        print(f"{operators:>9} {seconds:>8.2f} {budget:>7.1f} {memory:>6.0f}  {words}", flush=True)
        shutil.rmtree(dump)


if __name__ == "__main__":
    main()
