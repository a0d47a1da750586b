# SPDX-License-Identifier: Apache-2.0
"""Faults planted in a training program: each is named at its step, phase and line, as the origin."""
import json
import sys
import unittest
from pathlib import Path

from harness import ToolTest, need

need("torch", "numpy")

PROGRAM = Path(__file__).resolve().parent / "faulty_training.py"


def line_of(mark):
    return next(number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
                if line.endswith(f"# {mark}"))


class Faults(ToolTest):
    def compare(self, fault, expected, *more, **fields):
        command = [sys.executable, str(PROGRAM), fault]
        config = {"program": {"command": [*command, "0", *more]},
                  "runs": [{"name": "right"},
                           {"name": "wrong", "program": {"command": [*command, "1", *more]}}], **fields}
        (self.folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        done = self.tool("run", "-c", "config.json", "--format", "json", "--report", "text=report.txt")
        self.assertEqual(done.code, expected, done.stdout[:2000] + done.stderr)
        self.text = (self.folder / "report.txt").read_text(encoding="utf-8")
        return json.loads(done.stdout)

    def assert_origin(self, report, step, phase, mark, operator=None):
        first = report["first_divergence"]
        shown = self.text.splitlines()[0]
        self.assertEqual(first["relation"], "origin", shown)
        self.assertEqual((first["key"].get("step", 0), first["key"]["phase"]), (step, phase), shown)
        self.assertEqual(first["source"]["line"], line_of(mark), shown)
        self.assertIn(f"at step {step}, {phase}, ", self.text)
        if operator:
            self.assertEqual(first["key"]["operator"].partition(".")[0], operator, shown)

    def test_the_program_repeats(self):
        report = self.compare("none", 0)
        self.assertEqual(report["verdict"]["status"], "reproducible", self.text)
        self.assertGreater(report["blocks"]["compared"], 30)
        self.assert_reproducible(self.compare("none", 0, dump={"depth": "top"}), 500)

    def test_epsilon_of_adamw(self):
        report = self.compare("epsilon", 1)
        self.assert_origin(report, 3, "optimizer", "STEP", "aten::add_")
        # What a loss kept for its backward pass is no origin, even where the loss itself is equal.
        origins = [op for op in report["divergences"]["items"] if op["relation"] == "origin"]
        self.assertNotIn("backward", json.dumps([op["key"]["operator"] for op in origins]))

    def assert_step(self, report, step, *said):
        """What reads a parameter afterwards has it from there."""
        first = report["first_divergence"]
        self.assertEqual((first["key"]["step"], first["key"]["operator"]),
                         (step, "repro_check::optimizer_step"), self.text)
        for text in said:
            self.assertIn(text, self.text)
        origins = [op["op_index"] for op in report["divergences"]["items"] if op["relation"] == "origin"]
        self.assertEqual(origins, [first["op_index"]], self.text)

    def test_a_step_whose_operators_were_not_read(self):
        report = self.compare("epsilon", 1, dump={"level": "digest"})
        self.assert_step(report, 3, "the optimizer was given different numbers: option.eps[0]: 1e-08 against 1e-06")
        report = self.compare("state", 1, dump={"level": "digest"})
        self.assert_step(report, 3, "gradients were equal, and what the optimizer keeps parts first",
                         "--optimizer operators")
        report = self.compare("epsilon", 1, dump={"level": "digest", "optimizer": "operators"})
        self.assert_origin(report, 3, "optimizer", "STEP", "aten::add_")

    def test_inside_of_a_step(self):
        """The first pair has only what the step left, the second one its operators."""
        report = self.compare("inside_step", 1)
        self.assert_origin(report, 4, "optimizer", "INSIDE", "aten::add_")
        digests, values = report["passes"]
        self.assertEqual(digests["first_divergence"]["key"]["operator"], "repro_check::block")
        self.assertGreater(values["coverage"]["baseline_ops"], digests["coverage"]["baseline_ops"])
        report = self.compare("inside_step", 1, dump={"depth": "top"})
        self.assert_origin(report, 4, "optimizer", "INSIDE", "aten::add_")
        digests, values = report["passes"]
        self.assertEqual(digests["first_divergence"]["key"]["operator"], "repro_check::optimizer_step")
        self.assertGreater(values["coverage"]["baseline_ops"], digests["coverage"]["baseline_ops"])
        report = self.compare("inside_step", 1, dump={"level": "digest"})
        self.assert_step(report, 4, "gradients and what the optimizer keeps were equal", "--optimizer operators")
        report = self.compare("inside_step", 1, dump={"level": "digest", "optimizer": "operators"})
        self.assert_origin(report, 4, "optimizer", "INSIDE", "aten::add_")

    def test_a_step_that_was_not_recorded(self):
        report = self.compare("epsilon", 1, dump={"steps": "0:2"})
        self.assert_step(report, 3, "the optimizer was given different numbers: option.eps[0]: 1e-08 against 1e-06")
        report = self.compare("nudge", 1, dump={"steps": "0:2"})
        self.assert_step(report, 5, "gradients and what the optimizer keeps were equal", "--steps 5", "steps 0:2")

    def test_a_step_more(self):
        report = self.compare("twice", 1, dump={"level": "digest"})
        first = report["first_divergence"]
        self.assertEqual((first["relation"], first["cause"]["name"], first["key"]["operator"]),
                         ("missing", "extra", "repro_check::optimizer_step"), self.text)
        self.assertEqual(first["source"]["line"], line_of("TWICE"), self.text)
        # All that comes after it has a counterpart.
        self.assertEqual(report["coverage"]["missing_in_candidate"], 0, self.text)
        self.assertEqual(report["coverage"]["missing_in_baseline"], 1, self.text)

    def test_a_gradient_that_was_not_cleared(self):
        report = self.compare("stale", 1, dump={"level": "digest"})
        first = report["first_divergence"]
        self.assertEqual((first["key"]["step"], first["key"]["phase"]), (3, "backward"), self.text)
        evidence = first["cause"]["evidence"]
        self.assertIn("was not cleared in the candidate", evidence)
        for mark in "BACKWARD", "STEP":
            self.assertIn(f"{PROGRAM.name}:{line_of(mark)}", evidence)

    def test_one_gradient_scaled(self):
        report = self.compare("gradient", 1)
        self.assert_origin(report, 2, "optimizer", "SCALED", "aten::mul_")

    def test_weight_nudged_by_one_ulp(self):
        report = self.compare("nudge", 1)
        self.assert_origin(report, 5, "optimizer", "NUDGED", "aten::lift_fresh")
        self.assertIn("1 of 512 elements, max 1 ULP", self.text)

    def test_batch_norm_in_the_wrong_mode(self):
        report = self.compare("train_mode", 1)
        first = report["first_divergence"]
        # What it counts of its batches in training comes first, and is there alone.
        self.assertEqual(first["key"], {"phase": "forward", "operator": "aten::add_.Tensor", "module": "norm",
                                        "occurrence": 0, "step": 4}, self.text)
        self.assertEqual(first["source"]["line"], line_of("NORM"), self.text)
        self.assertIn(f"at step 4, forward, candidate op {first['op_index']['candidate']} aten::add_", self.text)
        told = "module `norm` ran in another mode: aten::batch_norm was called with training: False against True"
        self.assertEqual((first["cause"]["name"], first["cause"]["evidence"]), ("eval against train", told))
        called = next(op for op in report["divergences"]["items"] if op["key"]["operator"] == "aten::batch_norm")
        self.assertEqual(called["cause"]["evidence"], told)

    def test_order_of_a_set(self):
        report = self.compare("set_order", 1)
        self.assert_origin(report, 0, "data", "ORDER", "repro_check::order")
        cause = report["first_divergence"]["cause"]["evidence"]
        self.assertIn('its sampler (list)', cause)
        self.assertIn("samples: [0, 1, 2, ", self.text)
        # Nothing that reads those samples is to blame, in no batch.
        origins = [op["op_index"] for op in report["divergences"]["items"] if op["relation"] == "origin"]
        self.assertEqual(origins, [report["first_divergence"]["op_index"]], self.text)

    def test_order_of_a_set_whose_samples_are_read_by_workers(self):
        report = self.compare("set_order_workers", 1)
        self.assert_origin(report, 0, "data", "ORDER", "repro_check::order")

    def test_order_that_is_drawn(self):
        report = self.compare("shuffled", 1, "unseeded", seed=None)
        self.assert_origin(report, 0, "data", "BATCH", "aten::random_")
        orders = [op for op in report["divergences"]["items"] if op["key"]["operator"] == "repro_check::order"]
        self.assertEqual({op["relation"] for op in orders}, {"propagated"}, self.text)

    def test_writes_that_race(self):
        report = self.compare("index_put", 1)
        self.assert_origin(report, 0, "forward", "RACE")

    def test_dropout(self):
        report = self.compare("dropout", 1, "unseeded", seed=None)
        self.assertEqual(report["first_divergence"]["source"]["line"], line_of("DROPOUT"), self.text)
        self.assertIn("generator", self.text)

    def test_dropout_under_the_seed(self):
        report = self.compare("dropout", 0, dump={"depth": "top"})
        self.assertEqual(report["verdict"]["status"], "reproducible")
        self.assertIn("because both runs had the same seed", self.text)

    def test_default_rng(self):
        report = self.compare("default_rng", 1, seed=None)
        first = report["first_divergence"]
        self.assertEqual((first["key"].get("step", 0), first["key"]["phase"]), (0, "data"), self.text)
        self.assertEqual(first["source"]["line"], line_of("DRAW"), self.text)
        self.assertIn("numpy.random.default_rng", self.text)
        self.assertIn(f"faulty_training.py:{line_of('DRAW')}", self.text)

    def test_default_rng_under_the_seed(self):
        self.compare("default_rng", 0)
        draws = f"faulty_training.py:{line_of('DRAW')}"
        self.assertIn(f"numpy.random.default_rng was given the seed of the run (128 calls, first at {draws})",
                      self.text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
