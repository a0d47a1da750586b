#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `gate accept` takes:
`gate_accept_test.py REPRO_CHECK MAKE_DUMP MAKE_UNFINISHED_DUMP`."""

import json
import shlex
import shutil
import unittest

from gate_harness import PLATFORM, GateCase

OTHER = {"/manifest/environment": {**PLATFORM["/manifest/environment"], "probe.matmul": "ff"}}


class AcceptTest(GateCase):
    def test_only_what_the_last_gate_left_is_accepted(self):
        self.gate(code=4)
        first = self.pending()
        self.gate(OTHER, code=4)
        second = self.pending()
        self.assertEqual((len(first), len(second)), (1, 1))
        self.assertNotEqual(first, second)
        self.accept()
        self.assertEqual(self.baselines(), [second[0].removesuffix(".new")])

    def test_the_command_that_is_printed_accepts(self):
        runs = {"*": {"fixture": "three_ops.json", "change": PLATFORM}}
        flags = ["--set", "/env/A=b c", "--name", "foo", "--baselines", "bl 2", "--out", "o 2"]
        for shown in ("next: ", "if this is right, `"):
            with self.subTest(shown=shown):
                done = self.tool("gate", "-c", "gate.json", *flags, runs=runs, env={"COLUMNS": "400"})
                self.assertEqual(done.returncode, 4, done.stderr)
                line = next(line for line in done.stdout.splitlines() if shown in line)
                program, *words = shlex.split(line.split(shown)[1].split("`")[0])
                self.assertEqual(program, "repro-check")
                done = self.tool(*words)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual([path.name.split("-")[0] for path in (self.tmp / "bl 2").iterdir()], ["foo"])
                shutil.rmtree(self.tmp / "bl 2")

    def test_a_gate_that_leaves_nothing_leaves_nothing_of_an_earlier_one(self):
        self.gate(code=4)
        self.gate(code=5, signal="SIGSEGV")
        self.assertEqual(self.pending(), [])
        self.assertIn("no pending baseline", self.accept(code=2))

    def test_dumps_that_are_judged_again(self):
        self.gate(code=4)
        left = self.pending()
        stale = self.tmp / "repro-check-out/gate-0123456789abcdef.repro.new"
        stale.write_text("of an earlier gate")
        done = self.tool("gate", "-c", "gate.json", "--against", "repro-check-out")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(self.pending(), left)

    def test_another_gate_keeps_its_own(self):
        kept = self.tmp / "repro-check-out/gate-large-0123456789abcdef.repro.new"
        kept.parent.mkdir()
        kept.write_text("of gate-large")
        self.gate(code=4)
        self.assertEqual(len(self.pending()), 2)
        self.accept()
        self.assertEqual(self.pending(), [kept.name])
        self.assertEqual(len(self.baselines()), 1)

    def test_files_of_several_jobs_are_accepted_together(self):
        jobs = self.tmp / "artifacts"
        jobs.mkdir()
        for change in (None, OTHER):
            self.gate(change, code=4)
            for name in self.pending():
                shutil.copy(self.tmp / "repro-check-out" / name, jobs)
        self.accept("--from-dir", "artifacts")
        self.assertEqual(len(self.baselines()), 2)
        self.assertEqual(list(jobs.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
