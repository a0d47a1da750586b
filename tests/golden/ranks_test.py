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
  fix        look for parameters that the reduction leaves out: replaced after wrapping, unused in some passes (find_unused_parameters), or skipped by a condition; and for code that changes gradients after it on one rank alone
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

    def make(self, *fault, ranks=RANKS, name="run"):
        subprocess.run([RANK_DUMPS, name, *map(str, (ranks, STEPS, TENSORS, *fault))], cwd=self.tmp, check=True)

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
        for text in ("{}", '{"ranks": 4000000000}'):
            (self.tmp / "run" / "ranks.json").write_text(text)
            for words in (("ranks", "run"), ("diff", "run", "run")):
                self.assertEqual(self.tool(*words).returncode, 3, words)

    def test_what_is_said_where_one_cannot_be_read(self):
        self.make()
        trace = self.tmp / "run" / "rank-7" / "trace.h5"
        trace.write_bytes(trace.read_bytes()[:-2000])
        said = self.tool("ranks", "run", "-q").stdout
        self.assertEqual(said, "INCOMPLETE: rank 7 cannot be read; nothing parts in the 6 steps that the ranks have in common\n")

    def test_one_rank_alone(self):
        self.make(ranks=1)
        self.assertEqual(self.ranks(4)["first"], None)

    def slice(self, first, end):
        """What `ranks` says of some of them, in a file."""
        file = self.tmp / f"{first}.jsonl"
        done = self.tool("ranks", "run", "--ranks", f"{first}:{end}", "--format", "jsonl")
        file.write_text(done.stdout)
        return file

    def slices(self, width):
        return [self.slice(first, first + width) for first in range(0, RANKS, width)]

    def merge(self, files, *words):
        return self.tool("report", "--merge", *files, *words)

    def expect_the_same(self, width):
        """Slices that are put together say what the undivided command says."""
        files = self.slices(width)
        for words in ((), ("-q",), ("--format", "json")):
            whole, merged = self.tool("ranks", "run", *words), self.merge(files, *words)
            self.assertEqual((whole.returncode, whole.stdout), (merged.returncode, merged.stdout), merged.stderr)
        return files, whole.returncode

    def test_slices_say_what_the_whole_says(self):
        self.make()
        for width in (1, 7, RANKS):
            self.assertEqual(self.expect_the_same(width)[1], 0)
        self.make_again(5, 2, "grad")
        for width in (4, 5, RANKS):
            self.assertEqual(self.expect_the_same(width)[1], 1)
        shutil.rmtree(self.tmp / "run" / "rank-9")
        self.assertEqual(self.expect_the_same(6)[1], 1)
        trace = self.tmp / "run" / "rank-7" / "trace.h5"
        trace.write_bytes(trace.read_bytes()[:-2000])
        self.assertEqual(self.expect_the_same(6)[1], 3)

    def test_slices_of_parameters_that_no_wrapper_has(self):
        self.make(0, 0, "own")
        self.expect_the_same(5)

    def test_a_missing_rank(self):
        self.make()
        self.make(name="again")
        self.assertEqual(self.tool("verify", "run").returncode, 0)
        for count in (True, False):  # without its count of ranks each dump says it
            for run in ("run", "again"):
                shutil.rmtree(self.tmp / run / "rank-23", ignore_errors=True)
                if not count:
                    (self.tmp / run / "ranks.json").unlink()
            done = self.tool("verify", "run", "--format", "json")
            self.assertEqual(done.returncode, 3, done.stdout)
            self.assertEqual([each["status"] for each in json.loads(done.stdout)["dumps"]],
                             ["verified"] * 23 + ["incomplete"])
            self.assertEqual(self.ranks(4)["absent"], [23])
            done = self.tool("diff", "run", "again")
            self.assertEqual(done.returncode, 4, done.stdout)
            self.assertIn("rank-23", done.stdout)

    def test_ranks_of_two_runs(self):
        self.make(5, 2, "grad")
        self.make(name="again")
        shutil.rmtree(self.tmp / "run" / "rank-5")
        shutil.move(self.tmp / "again" / "rank-5", self.tmp / "run" / "rank-5")
        report = self.ranks(4)
        self.assertIsNone(report["first"])
        self.assertIn("several runs", report["why_not"]["text"])
        self.make(name="third")
        self.assertEqual(self.tool("diff", "third", "run").returncode, 4)
        self.assertEqual(self.tool("ranks", *(f"third/rank-{rank}" for rank in range(23)), "run/rank-4").returncode, 2)
        self.expect_the_same(8)

    def test_lists_of_many_ranks(self):
        self.make(ranks=256)
        for rank in range(100, 200):
            shutil.rmtree(self.tmp / "run" / f"rank-{rank}")
        shown = self.tool("ranks", "run").stdout
        self.assertRegex(shown, r"(?m)^  absent +ranks 100-199$")
        self.assertLess(len(shown.splitlines()), 6)

    def make_again(self, *fault):
        shutil.rmtree(self.tmp / "run")
        self.make(*fault)

    def test_slices_that_are_equal_each(self):
        # Names were not looked up where no slice had reason to.
        self.make(0, 2, "grad", ranks=2)
        files = [self.slice(rank, rank + 1) for rank in range(2)]
        report = json.loads(self.merge(files, "--format", "json").stdout)
        whole = self.ranks(1)
        self.assertEqual(report["verdict"], whole["verdict"])
        for member in ("step", "kind", "of", "odd_ranks", "rank", "op"):
            self.assertEqual(report["first"][member], whole["first"][member])
        self.assertEqual((report["first"]["names"], report["first"]["differing"]), ([], None))
        self.assertIn("step 2, gradients: some of 10", self.merge(files).stdout)

    def test_slices_that_cannot_be_put_together(self):
        self.make()
        files = self.slices(8)
        self.assertEqual(self.merge(reversed(files)).returncode, 0)
        joined = self.tmp / "joined.jsonl"
        joined.write_text("".join(file.read_text() for file in files))
        self.assertEqual(self.merge([joined]).returncode, 0)

        def refused(code, files, said):
            done = self.merge(files)
            self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
            self.assertIn(said, done.stderr)

        refused(4, files[:2], "no file holds the ranks 16:24 of run")
        refused(4, files[::2], "no file holds the ranks 8:16 of run")
        refused(2, [*files, files[1]], "rank 8 is in ")
        refused(2, ["missing.jsonl"], "missing.jsonl")
        refused(2, ["/dev/zero"], "/dev/zero: is larger than")
        text = files[1].read_text()
        for damage, said in (
            (text[:-3], "it is cut short"),
            (text[: text.rindex("\n", 0, -1) + 1], "it is cut short"),
            (text.replace('"rank":9', '"rank":10', 1), "its lines were changed"),
            ("", "it is empty"),
            ("{}\n", "it is not a slice of ranks"),
        ):
            files[1].write_text(damage)
            refused(3, files, said)
            refused(3, files, "8.jsonl, line ")
        files[1].write_text(text)
        shutil.move(self.tmp / "run", self.tmp / "other")
        done = self.tool("ranks", "other", "--ranks", "8:16", "--format", "jsonl")
        files[1].write_text(done.stdout)
        refused(2, files, "8.jsonl is of other, and")

    def diffs(self, *words):
        files = []
        for first in range(0, RANKS, 8):
            files.append(self.tmp / f"{first}.jsonl")
            done = self.tool("diff", "run", "again", "--ranks", f"{first}:{first + 8}", "--format", "jsonl", *words)
            files[-1].write_text(done.stdout)
        return files

    def expect_the_same_of_two(self):
        files = self.diffs()
        for words in ((), ("-q",)):
            whole, merged = self.tool("diff", "run", "again", *words), self.merge(files, *words)
            self.assertEqual((whole.returncode, whole.stdout), (merged.returncode, merged.stdout), merged.stderr)
        reports = [json.loads(self.tool("diff", "run", "again", "--format", "json").stdout),
                   json.loads(self.merge(files, "--format", "json").stdout)]
        for report in (each for list in reports for each in list):
            report["timing"] = None
        self.assertEqual(*reports)
        return whole

    def test_slices_of_two_runs_say_what_the_whole_says(self):
        self.make()
        self.make(name="again")
        self.assertEqual(self.expect_the_same_of_two().returncode, 0)
        shutil.rmtree(self.tmp / "again")
        self.make(11, 2, "grad", name="again")
        done = self.expect_the_same_of_two()
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stdout.startswith("DIVERGED at step 2, "), done.stdout)
        trace = self.tmp / "again" / "rank-7" / "trace.h5"
        trace.write_bytes(trace.read_bytes()[:-2000])
        self.assertEqual(self.expect_the_same_of_two().returncode, 3)
        # One rank is in neither of them.
        self.make_again()
        shutil.rmtree(self.tmp / "again")
        self.make(name="again")
        for run in ("run", "again"):
            shutil.rmtree(self.tmp / run / "rank-3")
        self.assertEqual(self.expect_the_same_of_two().returncode, 4)

    def test_slices_of_two_runs_are_of_one_comparison(self):
        self.make()
        self.make(name="again")
        files = self.diffs()
        self.tool("diff", "run", "again", "--ranks", "8:16", "--policy", "ulp", "--ulp", "4",
                  "--report", f"jsonl={files[1]}")
        done = self.merge(files)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("policy", done.stderr)
        done = self.merge([files[0], self.slice(8, 24)])
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("is of `ranks`, and", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
