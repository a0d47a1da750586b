#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Baselines of recordings of blocks: `gate_blocks_test.py REPRO_CHECK MAKE_DUMP MAKE_UNFINISHED_DUMP`."""

import json
import unittest

from gate_harness import HERE, PLATFORM, GateCase, expected

RECORDED = {**PLATFORM, "/manifest/model": "a small model"}
BLOCK = {"/blocks/7/out": "other", "/blocks/8/in": "other", "/blocks/8/out": "other", "/tensors/loss2/values/0": 9}
PARAMETER = {"/parameters/3/value": "other"}
THREADS = {"/blocks/2/path": "head@1"}


class BlocksTest(GateCase):
    def run_gate(self, code, change=None, candidate=None, words=()):
        both = {**RECORDED, **(change or {})}
        runs = {"*": {"fixture": "blocks.json", "change": both},
                "candidate": {"fixture": "blocks.json", "change": {**both, **(candidate or {})}}}
        done = self.tool("gate", "-c", "gate.json", *words, runs=runs)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def report(self, *args, **keys):
        return json.loads(self.run_gate(*args, words=("--format", "json", *keys.pop("words", ())), **keys))

    def accept_blocks(self, change=None, **keys):
        self.configure(**keys)
        self.report(4, change)
        said = self.accept()
        self.commit("accept")
        return said

    def test_a_pass_speaks_of_borders(self):
        self.assertIn("new, 12 calls of 3 blocks and 4 parameters on x86_64", self.accept_blocks())
        text = (self.tmp / "baselines" / self.baselines()[0]).read_text()
        self.assertTrue(text.startswith("repro-baseline 2\n"))
        self.assertIn("\nk f encoder.layers.2-3 2 0 ", text)
        self.assertIn("\nu head.weight 2 ", text)
        lines = self.run_gate(0).splitlines()
        self.assertEqual(lines[0], "REPRODUCIBLE at the borders of 3 blocks, 4 steps: outputs, losses, parameters "
                                   "(baseline, baseline)")
        self.assertEqual(self.report(0)["gate"]["baseline"]["state"], "same")
        status = self.tool("gate", "status", "-c", "gate.json").stdout
        self.assertIn("12 calls of 3 blocks and 4 parameters on x86_64", status)

    def test_the_first_block_that_is_not_what_was_accepted(self):
        self.accept_blocks()
        text = self.run_gate(1, BLOCK)
        lines = text.splitlines()
        self.assertEqual(lines[0], "DIVERGED from the baseline at step 2, forward, block encoder.layers.2-3: its "
                                   "output differs, origin")
        self.assertIn("the difference begins inside this block", text)
        commands = [line.removeprefix("next: ") for line in lines if line.startswith("next: ")]
        out = "repro-check-out/{}-step-2"
        self.assertEqual(commands[:3], [
            f"repro-check exec --depth top --steps 1:3 -o {out.format('accepted')} -- python train.py",
            f"repro-check exec --depth top --steps 1:3 -o {out.format('baseline')} -- python train.py",
            f"repro-check diff {out.format('accepted')} {out.format('baseline')}"])
        self.assertTrue(commands[3].startswith("repro-check gate accept -c gate.json "), commands)
        self.assertIn("the first command in the accepted revision", text)
        gate = self.report(1, BLOCK)["gate"]
        self.assertEqual(gate["baseline"]["state"], "differs")
        self.assertEqual(gate["baseline"]["summary"],
                         "2 of 12 calls of blocks change, first encoder.layers.2-3 (step 2, forward)")
        self.assertIn("2 of 12 calls of blocks change", self.accept())
        self.assertEqual(self.report(0, BLOCK)["gate"]["baseline"]["state"], "same")

    def test_a_parameter_that_is_not_what_was_accepted(self):
        self.accept_blocks()
        report = self.report(1, PARAMETER)
        self.assertEqual(report["verdict"]["headline"],
                         "DIVERGED from the baseline at step 3, optimizer, parameter encoder.layers.0.weight: it "
                         "differs behind the optimizer's step")
        self.assertEqual(report["gate"]["baseline"]["summary"],
                         "1 of 4 parameters behind steps change, first encoder.layers.0.weight (step 3, optimizer)")

    def test_a_loss_that_is_not_what_was_accepted(self):
        self.accept_blocks()
        report = self.report(1, {"/tensors/loss2/values/0": 9})
        self.assertIn("repro_check::loss", report["first_divergence"]["key"]["operator"])
        self.assertEqual(report["gate"]["baseline"]["summary"], "no border changes, but batches, losses or steps do")

    def test_another_depth_than_the_accepted_one_is_no_pass(self):
        self.accept_blocks()
        operators = {"/manifest/depth": "top"}
        report = self.report(4, operators)
        self.assertEqual(report["verdict"]["status"], "not_comparable")
        self.assertIn('was accepted at depth "blocks", and the runs were recorded at depth "top"',
                      " ".join(report["verdict"]["reasons"]))
        self.assertIn('set "depth": "blocks" in "dump"', json.dumps(report, ensure_ascii=False).replace('\\"', '"'))
        for file in (self.tmp / "baselines").iterdir():
            file.unlink()
        self.accept_blocks(operators)
        report = self.report(4)
        self.assertIn('was accepted at depth "top", and the runs were recorded at depth "blocks"',
                      " ".join(report["verdict"]["reasons"]))
        self.accept()
        self.assertEqual(self.report(0)["gate"]["baseline"]["state"], "same")

    def test_runs_that_disagree(self):
        report = self.report(1, None, BLOCK)
        self.assertTrue(report["verdict"]["headline"].startswith(
            "DIVERGED at step 2, forward, block encoder.layers.2-3"))
        self.assertIn("do not agree", self.accept(code=2))

    def test_calls_of_threads_may_not_pass(self):
        self.accept_blocks(THREADS)
        self.assertEqual(self.report(0, THREADS)["gate"]["baseline"]["state"], "same")
        report = self.report(4, {**THREADS, "/blocks/2/out": "other"})
        self.assertIn("on threads beside the main one", " ".join(report["verdict"]["reasons"]))

    def test_what_names_operators_has_none(self):
        self.configure(expected=[expected(operator=".*")], min_judged=1)
        done = self.tool("gate", "-c", "gate.json", runs={"*": {"fixture": "blocks.json", "change": RECORDED}})
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("names operators, and the runs recorded blocks", done.stderr)
        self.configure(min_judged=100)
        self.assertEqual(self.report(4)["verdict"]["status"], "no_baseline")
        self.accept()
        self.assertEqual(self.report(4)["verdict"]["status"], "not_comparable")

    def many(self, code, **others):
        """The gate on more calls than a baseline lists, three a step; some give something else."""
        text = json.loads((HERE / "fixtures" / "blocks.json").read_text())
        text["blocks"] = [{"step": number // 3, "path": f"b{number % 3}", "in": "x",
                           "out": others.get(f"b{number}", "y")} for number in range(5001)]
        (self.tmp / "many.json").write_text(json.dumps(text))
        done = self.tool("gate", "-c", "gate.json", "--format", "json", env={"FIXTURES": str(self.tmp)},
                         runs={"*": {"fixture": "many.json", "change": RECORDED}})
        self.assertEqual(done.returncode, code, done.stdout[:3000] + done.stderr)
        return json.loads(done.stdout)

    def test_many_calls_are_a_line_a_step(self):
        self.many(4)
        self.accept()
        text = (self.tmp / "baselines" / self.baselines()[0]).read_text()
        self.assertIn(" ops 4 blocks 3 calls 5001 parameters 4\n", text)
        self.assertIn("\nt 0 1 5 xxh3:", text)
        self.assertNotIn("\nk ", text)
        self.assertEqual(self.many(0)["gate"]["baseline"]["state"], "same")
        report = self.many(1, b3000="other")
        self.assertTrue(report["verdict"]["headline"].startswith(
            "DIVERGED from the baseline: 1 of 1667 steps change, first step 1000"), report["verdict"])
        self.assertIn("/baselines/store", " ".join(report["verdict"]["reasons"]))
        self.assertEqual(report["blocks"]["compared"], 4998)


if __name__ == "__main__":
    unittest.main()
