# SPDX-License-Identifier: Apache-2.0
"""What bench/kill.py prints of three kills, and that it ends well: test_kill.py BENCH TOOL RECORDER MODEL."""
import re
import subprocess
import sys
import tempfile

BENCH, TOOL, RECORDER, MODEL = sys.argv[1:]
SEED = 7


def main():
    with tempfile.TemporaryDirectory(prefix="repro-check-kill-") as scratch:
        done = subprocess.run(
            [sys.executable, "-B", BENCH, TOOL, RECORDER, MODEL, scratch, "3", "40", str(SEED)],
            capture_output=True, text=True, timeout=580)
    print(done.stdout, done.stderr, sep="\n")
    wrong = []
    if done.returncode != 0:
        wrong.append(f"it ended with {done.returncode}")
    for pattern in (rf"seed {SEED}$", r"^3 kills, [1-3] cut the recording; [1-9]\d* operators",
                    r"^0 readers crashed; 0 passed a cut recording$"):
        if not re.search(pattern, done.stdout, re.MULTILINE):
            wrong.append(f"it does not say {pattern}")
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
