#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `gate accept` takes, and what a history tells a gate:
`gate_accept_test.py REPRO_CHECK MAKE_DUMP MAKE_UNFINISHED_DUMP`."""

import json
import shlex
import shutil
import unittest

from gate_harness import PLATFORM, RELU, GateCase, expected

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


class RecallTest(GateCase):
    def lines(self):
        return [json.loads(line) for line in (self.tmp / "h.jsonl").read_text().splitlines()]

    def judge(self, *words, env=None, **more):
        return self.gate(words=("--history", "h.jsonl", *words), env=env, **more)

    def sometimes(self):
        self.configure(expected=[expected(happens="sometimes")], min_judged=1)
        self.gate(code=4)
        self.accept()

    def detail(self, report):
        return report["expected"][0]["detail"]

    def test_what_agreed_twenty_times_in_a_row_may_go(self):
        self.sometimes()
        self.assertIsNone(self.detail(self.judge()))
        line = (self.tmp / "h.jsonl").read_text()
        (self.tmp / "h.jsonl").write_text(line * 18)
        self.assertEqual(self.detail(self.judge()), "19 gates in a row")
        self.assertEqual(self.detail(self.judge()),
                         "20 gates in a row: take the entry out of /expected")
        done = self.tool("gate", "-c", "gate.json", "--against", "repro-check-out",
                         "--history", "h.jsonl", env={"COLUMNS": "80"})
        self.assertEqual(done.returncode, 0)
        self.assertIn("21 gates in a row: take the", done.stdout)
        done = self.tool("gate", "-c", "gate.json", "--against", "repro-check-out")
        self.assertNotIn("in a row", done.stdout)

    def test_one_that_happened_begins_anew(self):
        self.sometimes()
        self.judge()
        (self.tmp / "h.jsonl").write_text((self.tmp / "h.jsonl").read_text() * 30)
        happened = self.judge(candidate=RELU)
        self.assertEqual(happened["expected"][0]["outcome"], "excused")
        self.assertIsNone(self.detail(self.judge()))
        self.assertEqual(self.detail(self.judge()), "2 gates in a row")

    def test_a_gate_that_could_not_judge_does_not_end_the_row(self):
        self.sometimes()
        self.judge()
        (self.tmp / "h.jsonl").write_text((self.tmp / "h.jsonl").read_text() * 3)
        self.judge(code=5, signal="SIGSEGV")
        self.assertEqual(self.detail(self.judge()), "4 gates in a row")
        self.judge("--name", "another", code=4)
        self.assertEqual(self.detail(self.judge()), "5 gates in a row")

    def test_the_line_says_what_every_expected_divergence_did(self):
        self.sometimes()
        self.judge(env={"GITHUB_RUN_ID": "77", "GITHUB_JOB": "gate"})
        (line,) = self.lines()
        self.assertEqual(line["expected"],
                         [{"match": "operator aten::relu", "outcome": "agreed"}])
        self.assertIn("77 gate", line["job"])

    def test_a_later_attempt_names_what_the_earlier_one_saw(self):
        self.accepted()
        job = {"GITHUB_SHA": "f" * 40, "GITHUB_RUN_ID": "7"}
        first = self.judge(change=RELU, code=1, env={**job, "GITHUB_RUN_ATTEMPT": "1"})
        self.assertEqual(first["gate"]["notes"], [])
        second = self.judge(env={**job, "GITHUB_RUN_ATTEMPT": "2"})
        self.assertEqual(second["gate"]["notes"], ["attempt 2; attempt 1 diverged at aten::relu"])
        third = self.judge(env={**job, "GITHUB_RUN_ATTEMPT": "3"})
        self.assertEqual(third["gate"]["notes"],
                         ["attempt 3; attempt 1 diverged at aten::relu; attempt 2 passed"])
        other = self.judge(env={**job, "GITHUB_RUN_ID": "8", "GITHUB_RUN_ATTEMPT": "2"})
        self.assertEqual(other["gate"]["notes"], [])
        self.assertEqual([line["attempt"][-1] for line in self.lines()], ["1", "2", "3", "2"])


if __name__ == "__main__":
    unittest.main()
