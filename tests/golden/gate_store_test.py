#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Baselines of large models, which have a line a module, and dumps of what was accepted:
`gate_store_test.py REPRO_CHECK MAKE_DUMP MAKE_UNFINISHED_DUMP`."""

import json
import shutil
import unittest

from gate_harness import HERE, PLATFORM, RELU, WEIGHT, GateCase, expected

OPERATORS = 5001  # one more than a baseline lists
ENVIRONMENT = PLATFORM["/manifest/environment"]


def chain(operators=OPERATORS, changed=(), weights=0, moved=None):
    """A fixture of additions in two modules; what `changed` names gives another value, as does all
    that follows in it."""
    tensors = {"x": {"dtype": "float32", "shape": [1], "values": [1]},
               "same": {"dtype": "float32", "shape": [1], "values": [2]},
               "other": {"dtype": "float32", "shape": [1], "values": [2.5]}}
    named = [{"kind": "input", "name": "x", "tensor": "x"}]
    for number in range(weights):
        name = f"w{number}"
        tensors[name] = {"dtype": "float32", "shape": [1],
                         "values": [number + (0.5 if number == moved else 0)]}
        named.append({"kind": "parameter", "name": f"p.{name}", "tensor": name})
    ops = [{"operator": "aten::add", "module": "late" if number >= operators // 2 else "early",
            "source": f"model.py:{number + 1}", "inputs": {"self": "x"},
            "outputs": ["other" if number in changed else "same"]}
           for number in range(operators)]
    return {"run": "baseline", "manifest": {"model": "a small model", "environment": ENVIRONMENT},
            "tensors": tensors, "named": named, "ops": ops}


class StoreTest(GateCase):
    def setUp(self):
        super().setUp()
        self.fixtures = self.tmp / "fixtures"
        self.fixtures.mkdir()
        shutil.copy(HERE / "fixtures" / "three_ops.json", self.fixtures)
        with open(self.tmp / ".gitignore", "a", encoding="utf-8") as file:
            file.write("fixtures/\nstore/\n")

    def gate_of(self, description, code, candidate=None, words=()):
        """The gate on a fixture that is made here."""
        runs = {"*": {"fixture": "made.json"}}
        (self.fixtures / "made.json").write_text(json.dumps(description))
        if candidate is not None:
            (self.fixtures / "other.json").write_text(json.dumps(candidate))
            runs["candidate"] = {"fixture": "other.json"}
        done = self.tool("gate", "-c", "gate.json", "--format", "json", *words, runs=runs,
                         env={"FIXTURES": str(self.fixtures)})
        self.assertEqual(done.returncode, code, done.stdout[:3000] + done.stderr)
        return json.loads(done.stdout)

    def accept_large(self, description, **keys):
        self.configure(**keys)
        self.gate_of(description, 4)
        self.accept()

    def keep(self, name="{root}"):
        """Puts the accepted dump where the configuration says."""
        root = next(line.split()[1] for line in self.baseline_text().splitlines()
                    if line.startswith("root ")).removeprefix("xxh3:")
        target = self.tmp / "store" / name.format(root=root)
        target.parent.mkdir(exist_ok=True)
        shutil.copytree(self.tmp / "repro-check-out" / "baseline", target)
        return target

    def baseline_text(self):
        return (self.tmp / "baselines" / self.baselines()[0]).read_text()

    def coverage_closes(self, report):
        c = report["coverage"]
        self.assertEqual(c["compared"] + c["skipped"] + c["not_judged"] + c["missing_in_candidate"],
                         c["baseline_ops"])
        self.assertEqual(c["equal"] + c["within_policy"] + c["diverged"] + c["mismatched"],
                         c["compared"])

    def test_many_operators_are_a_line_a_module(self):
        self.accept_large(chain())
        lines = self.baseline_text().splitlines()
        self.assertEqual([line.split()[1:3] for line in lines if line.startswith("m ")],
                         [["early", "2500"], ["late", "2501"]])
        self.assertFalse([line for line in lines if line.startswith("f ")])
        self.assertEqual(self.gate_of(chain(), 0)["gate"]["baseline"]["state"], "same")

        report = self.gate_of(chain(changed=[3000]), 1)
        self.assertEqual(self.status(report), "diverged")
        self.assertTrue(report["verdict"]["headline"].startswith("DIVERGED from the baseline"))
        self.assertIn("1 of 2 modules change, first late", " ".join(report["verdict"]["reasons"]))
        self.assertIn("/baselines/store", " ".join(report["verdict"]["reasons"]))
        self.assertIsNone(report["first_divergence"])
        self.assertEqual(report["coverage"]["compared"], 2500)
        self.assertEqual(report["coverage"]["not_judged"], 2501)
        self.coverage_closes(report)

    def test_formats_of_a_divergence_without_an_operator(self):
        self.accept_large(chain())
        words = [word for name in ("text", "markdown", "junit", "sarif", "github", "codequality")
                 for word in ("--report", f"{name}=out.{name}")]
        self.gate_of(chain(changed=[3000]), 1, words=words)
        self.assertIn("<failure", (self.tmp / "out.junit").read_text())
        self.assertTrue(json.loads((self.tmp / "out.sarif").read_text())["runs"][0]["results"])
        self.assertTrue(json.loads((self.tmp / "out.codequality").read_text()))
        self.assertIn("::error", (self.tmp / "out.github").read_text())

    def test_a_model_that_shrank_below_the_fold(self):
        self.accept_large(chain())
        report = self.gate_of(chain(operators=5000), 1)
        self.assertIn("1 of 2 modules change, first late", report["gate"]["baseline"]["summary"])
        self.assertEqual(report["coverage"]["compared"], 2500)
        self.assertEqual(report["coverage"]["not_judged"], 2500)
        self.coverage_closes(report)
        self.accept()
        self.assertIn("f aten::add", self.baseline_text())
        self.assertEqual(self.gate_of(chain(operators=5000), 0)["gate"]["baseline"]["state"], "same")
        grown = self.gate_of(chain(), 1)
        self.assertIn("5000 -> 5001 operators", grown["gate"]["baseline"]["summary"])

    def test_a_policy_that_needs_values_is_not_judged_by_digests_of_modules(self):
        for compare in ({"policy": "tolerance"},
                        {"rules": [{"match": {"module": "late"}, "policy": "ignore"}],
                         "unmatched": "policy"}):
            shutil.rmtree(self.tmp / "baselines", ignore_errors=True)
            self.accept_large(chain(), compare=compare)
            self.assertEqual(self.gate_of(chain(), 0)["gate"]["baseline"]["state"], "same")
            report = self.gate_of(chain(changed=[3000]), 4)
            self.assertEqual(self.status(report), "not_comparable")
            self.assertIn("one digest per module", report["verdict"]["headline"] + " ".join(
                report["verdict"]["reasons"]))
            self.assertIn("/baselines/store", report["verdict"]["mend"])

    def test_the_stored_dump_names_the_operator(self):
        self.accept_large(chain())
        target = self.keep()
        self.configure(baselines={"store": str(self.tmp / "store" / "{root}")})
        report = self.gate_of(chain(changed=[3000]), 1)
        self.assertEqual(report["first_divergence"]["op_index"]["baseline"], 3000)
        self.assertEqual(report["first_divergence"]["key"]["module"], "late")
        self.assertTrue(report["first_divergence"]["outputs"][0]["metrics"])
        self.assertEqual(report["coverage"]["not_judged"], 0)
        self.assertIn("DIVERGED from the baseline at op 3000", report["verdict"]["headline"])

        self.configure(baselines={"store": str(self.tmp / "store" / "{root}")},
                       compare={"policy": "tolerance", "rtol": 1, "atol": 1})
        self.assertEqual(self.status(self.gate_of(chain(changed=[3000]), 0)), "reproducible")
        shutil.rmtree(target)
        report = self.gate_of(chain(changed=[3000]), 4)
        self.assertIn("the accepted dump was not read", " ".join(report["gate"]["notes"]))

    def test_a_stored_dump_that_is_another_one_counts_for_nothing(self):
        self.accepted()
        self.gate(RELU, code=1)
        self.keep()  # what was recorded last, under the name of what was accepted
        self.configure(baselines={"store": str(self.tmp / "store" / "{root}")})
        report = self.gate(WEIGHT, code=1)
        self.assertIn("is another dump than the one that was accepted", " ".join(report["gate"]["notes"]))
        self.assertEqual(report["verdict"]["kind"], "weights")

    def test_the_store_has_the_values_that_a_baseline_has_not(self):
        self.accepted()
        self.keep("{root}")
        near = {"/tensors/p/values": [0.1, 0.2, 0.3, 0.40000001]}
        tolerance = {"policy": "tolerance", "rtol": 1e-3, "atol": 1e-3}
        self.configure(compare=tolerance)
        self.assertEqual(self.status(self.gate({"/tensors/p/values": [0.1, 0.2, 0.3, 0.4001]}, code=4)),
                         "not_comparable")
        self.configure(compare=tolerance, baselines={"store": str(self.tmp / "store" / "{root}")})
        report = self.gate({"/tensors/p/values": [0.1, 0.2, 0.3, 0.4001]})
        self.assertEqual(report["coverage"]["within_policy"], 1)
        self.assertEqual(self.status(self.gate(near)), "reproducible")
        self.assertEqual(self.status(self.gate(RELU, code=1)), "diverged")

    def test_expected_divergences_of_a_folded_baseline(self):
        entry = expected(operator="aten::add", module="late", happens="always")
        self.accept_large(chain())
        self.keep()
        keys = {"expected": [entry], "min_judged": 1000}
        self.configure(**keys)
        report = self.gate_of(chain(changed=[3000]), 1)
        self.assertEqual(report["expected"][0]["outcome"], "not_judged")
        self.assertNotIn("take the entry out", " ".join(report["verdict"]["reasons"]))

        self.configure(baselines={"store": str(self.tmp / "store" / "{root}")}, **keys)
        report = self.gate_of(chain(changed=[3000]), 0)
        self.assertEqual(report["expected"][0]["outcome"], "excused")
        self.assertEqual(report["expected"][0]["operators"], 1)
        self.assertEqual(report["coverage"]["not_judged"], 1)
        self.coverage_closes(report)
        report = self.gate_of(chain(changed=[10, 3000]), 1)
        self.assertEqual(report["first_divergence"]["key"]["module"], "early")
        self.assertEqual(self.gate_of(chain(), 1)["expected"][0]["outcome"], "unexpected_pass")

    def test_between_the_runs_an_expected_divergence_is_excused_whatever_is_folded(self):
        self.accept_large(chain())
        self.configure(expected=[expected(operator="aten::add", module="late")], min_judged=1000)
        report = self.gate_of(chain(), 0, candidate=chain(changed=[3000]))
        self.assertEqual(report["expected"][0]["outcome"], "excused")
        self.coverage_closes(report)

    def test_many_weights_are_one_line(self):
        many = {"operators": 3, "weights": 5001}
        self.accept_large(chain(**many))
        self.assertIn("w * 5001 ", self.baseline_text())
        self.assertEqual(self.gate_of(chain(**many), 0)["gate"]["baseline"]["state"], "same")
        refreshed = self.gate_of(chain(**many, moved=7), 0)
        self.assertEqual(refreshed["gate"]["baseline"]["state"], "refresh")
        report = self.gate_of(chain(**many, moved=7, changed=[1]), 1)
        self.assertEqual(self.status(report), "diverged")
        self.assertIn("parameters or buffers differ", " ".join(report["gate"]["notes"]))


if __name__ == "__main__":
    unittest.main()
