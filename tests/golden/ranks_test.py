#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`ranks` on dumps of many ranks that never ran: `ranks_test.py REPRO_CHECK RANK_DUMPS`."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL, RANK_DUMPS = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
RANKS, STEPS, TENSORS = 24, 6, 40
KINDS = {"grad": ("gradients", 10), "state": ("optimizer state", 20), "param": ("parameters", 10)}

HEALTHY = """\
IN SYNC: 24 ranks, 6 steps
  compared   24 ranks, 6 steps: parameters when the forward pass begins 60, gradients 60, optimizer state 120, parameters 60
"""
ODD = """\
DIVERGED: rank 5 parts at step 2, gradients: some gradients not reduced
  cause      some gradients not reduced: the others are the same on all ranks when the optimizer reads them
  mend       look for parameters that the reduction leaves out: replaced after wrapping, unused in some passes (find_unused_parameters), or skipped by a condition
  first      step 2, gradients: layers.5.weight, 1 of 10; odd rank 5
  compared   24 ranks, 6 steps: parameters when the forward pass begins 60, gradients 60, optimizer state 120, parameters 60
next: repro-check inspect run/rank-5 --op 5
next: repro-check diff run/rank-0 run/rank-5
"""


class ManyRanks(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="repro-check-")
        self.addCleanup(folder.cleanup)
        self.tmp = pathlib.Path(folder.name)

    def make(self, *fault, ranks=RANKS):
        subprocess.run([RANK_DUMPS, "run", *map(str, (ranks, STEPS, TENSORS, *fault))], cwd=self.tmp, check=True)

    def tool(self, *words):
        return subprocess.run([TOOL, *words], cwd=self.tmp, capture_output=True, text=True, timeout=120)

    def ranks(self, expected):
        done = self.tool("ranks", "run", "--format", "json")
        self.assertEqual(done.returncode, expected, done.stdout[:2000] + done.stderr)
        return json.loads(done.stdout)

    def test_healthy(self):
        self.make()
        done = self.tool("ranks", "run")
        self.assertEqual((done.stdout, done.returncode), (HEALTHY, 0))
        self.assertEqual(self.tool("ranks", "run", "-q").stdout, HEALTHY.splitlines()[0] + "\n")

    def test_a_digest_that_one_rank_has_alone(self):
        draw = random.Random(24)
        for kind, (name, of) in KINDS.items():
            rank, step = draw.randrange(RANKS), draw.randrange(STEPS)
            with self.subTest(kind=kind, rank=rank, step=step):
                self.make(rank, step, kind)
                report = self.ranks(1)
                first = report["first"]
                self.assertEqual((first["kind"], first["step"], first["of"], first["odd_ranks"]),
                                 (name, step, of, [rank]))
                self.assertEqual(report["inherited"], [])
                shutil.rmtree(self.tmp / "run")

    def test_its_text(self):
        self.make(5, 2, "grad")
        done = self.tool("ranks", "run")
        self.assertEqual((done.stdout, done.returncode), (ODD, 1))

    def test_of_two_ranks_none_is_odd(self):
        self.make(1, 3, "param", ranks=2)
        self.assertEqual(self.ranks(1)["first"]["odd_ranks"], [])

    def test_absent_and_truncated(self):
        self.make(5, 2, "grad")
        shutil.rmtree(self.tmp / "run" / "rank-9")
        report = self.ranks(1)
        self.assertEqual((report["absent"], report["expected_ranks"]), ([9], RANKS))
        trace = self.tmp / "run" / "rank-7" / "trace.h5"
        trace.write_bytes(trace.read_bytes()[:-2000])
        report = self.ranks(3)
        self.assertEqual(report["first"]["odd_ranks"], [5])
        self.assertEqual([each["rank"] for each in report["ranks"] if each["message"]], [7])
        # What could not be read says nothing of the others, nor they of it.
        (self.tmp / "run" / "ranks.json").write_text("{}")
        self.assertEqual(self.tool("ranks", "run").returncode, 3)

    def test_one_rank_alone(self):
        self.make(ranks=1)
        self.assertEqual(self.ranks(4)["first"], None)


if __name__ == "__main__":
    unittest.main(verbosity=2)
