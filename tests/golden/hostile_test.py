#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Row 43 of the fault corpus: operators in the worst order, in bounded memory; ctest's timeout ends what hangs.
bench/compare has a million of them.

`hostile_test.py TOOL MAKE_STREAMS`, the second being repro-check-compare-dumps of bench/.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL, MAKE_STREAMS = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
SANITIZED = any(name in pathlib.Path(TOOL).read_bytes() for name in (b"__asan_init", b"__tsan_init"))
OPERATORS = 50_000 if SANITIZED else 200_000


class HostileTest(unittest.TestCase):
    def diff(self, kind, most_mib, *options, code=1, count=OPERATORS):
        """The first line of a report on a pair that diverges.

        @param most_mib  peak resident memory; sanitizers have their own, so there it is not asked
        """
        with tempfile.TemporaryDirectory(prefix="repro-check-") as folder:
            subprocess.run([MAKE_STREAMS, kind, folder, str(count)], check=True)
            out = pathlib.Path(folder) / "report.txt"
            with out.open("wb") as stream:
                child = subprocess.Popen([TOOL, "diff", "A", "B", *options], cwd=folder,
                                         stdout=stream)
                _, status, usage = os.wait4(child.pid, 0)
                child.returncode = os.waitstatus_to_exitcode(status)
            mib = usage.ru_maxrss / 1024
            print(f"{kind} {' '.join(options)}: {mib:.0f} MiB", flush=True)
            self.assertEqual(child.returncode, code)
            if not SANITIZED:
                self.assertLess(mib, most_mib)
            return out.read_text().split("\n")[0]

    def test_two_keys_in_random_order(self):
        self.assertTrue(self.diff("two-keys", 128).startswith("DIVERGED"))

    def test_step_of_many_parameters(self):
        self.assertTrue(self.diff("step", 1280, count=OPERATORS // 2).startswith("DIVERGED"))

    def test_distinct_keys_reversed(self):
        # Module paths that no operator shares are most of this.
        line = self.diff("reversed", 256)
        self.assertIn(f"{OPERATORS - 1:,} operators only in baseline", line)
        self.assertIn("called in another order", line)

    def test_distinct_keys_reversed_by_place(self):
        line = self.diff("reversed", 256, "--align", "strict", code=4)
        self.assertTrue(line.startswith("NOTHING COMPARED"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
