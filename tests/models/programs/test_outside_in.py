# SPDX-License-Identifier: Apache-2.0
"""`run` of a program: its blocks first, then the operators of the steps in which they parted."""
import json
import sys
import textwrap
import unittest
from pathlib import Path

from harness import ToolTest, need

need("torch", "h5py", "xxhash")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))

import repro_check  # noqa: E402

# A weight moves by one ULP at the marked line, where it is asked for: a difference that the next steps may swallow.
TRAIN = """
    import os
    import torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range({steps}):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == {moved}:
            weight = model[0].weight.detach().view(-1)[3:4]
            moves = torch.tensor(bool(os.environ.get("MOVE")))  # MOVED
            weight.copy_(torch.where(moves, torch.nextafter(weight, torch.tensor(9.0)), weight))
"""


class OutsideIn(ToolTest):
    def write(self, text):
        self.program = self.folder / "train.py"
        self.program.write_text(textwrap.dedent(text))
        return [sys.executable, "-W", "ignore", str(self.program)]

    def config(self, text, other=None, **fields):
        """One program twice, or beside itself with another environment."""
        document = {"program": {"command": self.write(text)}, **fields}
        if other is not None:
            document["runs"] = [{"name": "baseline"}, {"name": "candidate", "env": other}]
        (self.folder / "config.json").write_text(json.dumps(document))
        return "-c", "config.json"

    def report(self, code, *words):
        done = self.tool("run", "--format", "json", *words)
        self.assertEqual(done.code, code, done.stdout[:1500] + done.stderr)
        self.said = done.stderr
        return json.loads(done.stdout)

    def line_of(self, mark):
        return next(number for number, line in enumerate(self.program.read_text().splitlines(), 1) if mark in line)

    def test_a_pass_speaks_of_blocks(self):
        shown = self.tool("run", "--", *self.write(TRAIN.format(steps=5, moved=9)))
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)
        self.assertTrue(shown.stdout.startswith(
            "REPRODUCIBLE at the borders of 3 blocks, 5 steps: outputs, losses, parameters (baseline, candidate)\n"),
            shown.stdout)
        self.assertIn("no operator was compared", shown.stdout)

    def test_one_ulp_in_one_weight_is_found_in_two_pairs(self):
        report = self.report(1, *self.config(TRAIN.format(steps=60, moved=37), {"MOVE": "1"}))
        first = report["first_divergence"]
        self.assertEqual((first["relation"], first["source"]["line"]), ("origin", self.line_of("MOVED")),
                         report["verdict"]["headline"])
        blocks, operators = report["passes"]
        self.assertEqual(blocks["coverage"]["compared"], 120)  # losses and steps
        self.assertGreater(blocks["blocks"]["compared"], 170)
        self.assertEqual([run["level"] for run in operators["runs"]], ["tensor", "tensor"])
        recorded = operators["coverage"]["baseline_ops"]
        self.assertLess(recorded, 60 * 30 / 2)  # not all steps
        self.assertTrue((self.folder / "repro-check-out" / "baseline.digest").is_dir())
        with repro_check.open(self.folder / "repro-check-out" / "baseline") as dump:
            steps = [op for op in dump if op.name == "repro_check::optimizer_step"]
            kept = [op.step for op in steps if any(tensor.stored for tensor in op.tensors)]
        self.assertEqual(len(steps), 60)
        self.assertEqual(kept, list(range(kept[0], kept[-1] + 1)))  # those of which operators are recorded
        self.assertLess(len(kept), 20)

    def test_memory_that_a_draw_fills_is_found_at_the_start(self):
        text = TRAIN.format(steps=6, moved=9).replace("torch.manual_seed(0)", "pass")
        report = self.report(1, "--", *self.write(text))
        first = report["first_divergence"]
        self.assertEqual(first["source"]["line"], self.line_of("Sequential"), report["verdict"]["headline"])
        self.assertIn("not seeded", report["verdict"]["headline"])

    def test_a_gate_records_at_the_depth_of_its_baseline(self):
        text = TRAIN.format(steps=4, moved=9)
        self.config(text, dump={"depth": "blocks"})
        self.assertEqual(self.tool("gate", "-c", "config.json").code, 4)  # no baseline yet
        accepted = self.tool("gate", "accept", "-c", "config.json")
        self.assertIn("12 calls of 3 blocks", accepted.stdout, accepted.stderr)
        self.config(text)
        shown = self.tool("gate", "-c", "config.json")
        self.assertEqual(shown.code, 0, shown.stdout + shown.stderr)
        self.assertTrue(shown.stdout.startswith("REPRODUCIBLE at the borders of 3 blocks, 4 steps: "), shown.stdout)
        self.config(text.replace("torch.randn(4, 8)", "torch.randn(4, 8) * 2"))
        shown = self.tool("gate", "-c", "config.json")
        self.assertEqual(shown.code, 1, shown.stdout + shown.stderr)
        self.assertTrue(shown.stdout.startswith("DIVERGED from the baseline at step 0, forward, block 0: "),
                        shown.stdout)
        self.assertIn("next: repro-check exec --depth top --steps 0:1 -o repro-check-out/accepted-step-0 -- ",
                      shown.stdout)
        self.config(text, dump={"depth": "top"})
        shown = self.tool("gate", "-c", "config.json")
        self.assertEqual(shown.code, 4, shown.stdout + shown.stderr)
        self.assertIn('was accepted at depth "blocks", and the runs were recorded at depth "top"', shown.stdout)

    def test_what_no_module_computes_is_recorded_by_operators(self):
        report = self.report(0, "--", *self.write("import torch\nprint((torch.ones(4, 4) @ torch.ones(4, 4)).sum())"))
        self.assertGreater(report["coverage"]["compared"], 2)
        self.assertNotIn("blocks", report)
        self.assertIn("blocks do not tell", self.said)

    def test_a_child_without_modules_is_recorded_by_operators(self):
        report = self.report(1, "--", *self.write("""
            import os, subprocess, sys, torch
            torch.manual_seed(0)
            if len(sys.argv) == 1:
                torch.nn.Linear(2, 2)(torch.ones(1, 2))
                subprocess.run([sys.executable, __file__, "child"], check=True)
            else:
                torch.full((3,), float(os.getpid()))  # PID
        """))
        self.assertEqual(report["first_divergence"]["source"]["line"], self.line_of("PID"))

    def test_many_runs_are_many_runs_of_blocks(self):
        report = self.report(0, "-n", "3", "--", *self.write(TRAIN.format(steps=3, moved=9)))
        self.assertEqual(report["repeat"]["judged"], 2)
        self.assertEqual(report["blocks"]["compared"], 9)

    def test_what_asks_for_operators_has_them(self):
        command = self.write(TRAIN.format(steps=2, moved=9))
        for words in (("--set", "/dump/depth=top"), ("--set", "/disable_dropout=true"),
                      ("--set", "/compare/policy=tolerance"), ("--set", '/dump/include=["*"]')):
            report = self.report(0, *words, "--", *command)
            self.assertGreater(report["coverage"]["compared"], 10, words)
            self.assertNotIn("blocks", report, words)
        self.assertEqual(self.report(0, "--numbers", "--", *command)["numbers"]["steps"], 2)
        report = self.report(0, "--set", "/dump/depth=blocks", "--set", "/dump/level=digest", "--", *command)
        self.assertEqual(report["blocks"]["compared"], 6)

    def test_a_divergence_that_does_not_repeat_is_said(self):
        shown = self.tool("run", *self.config("""
            import os, torch
            torch.manual_seed(0)
            model = torch.nn.Linear(4, 4)
            first = not os.path.exists("second")
            if os.environ.get("SIDE"):
                open("second", "w").close()
            x = torch.full((1, 4), 2.0 if first and os.environ.get("SIDE") else 1.0)
            model(x)
        """, {"SIDE": "1"}))
        self.assertEqual(shown.code, 1, shown.stdout + shown.stderr)
        self.assertIn("the divergence does not repeat: first pair at step 0", shown.stdout.splitlines()[0])


if __name__ == "__main__":
    unittest.main()
