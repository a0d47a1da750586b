#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the metrics of whole reports against numbers that another program computed exactly.

`metrics_test.py TOOL MAKE_DUMP TABLE...`: every case of a table that data/make_metrics_expected.py
or data/make_metrics_special.py of tests/comparators/measure wrote becomes two dumps, and the JSON report of
`diff` must hold its numbers: counts exactly, real ones within a few units in the last place of a
double, and what fails a policy where the case says so.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

REAL = ["max_abs", "mean_abs", "max_rel", "max_rel_finite", "mean_rel", "ulp_mean", "rmse", "nmse",
        "l2_rel", "cosine", "norm_ratio", "within_1e3", "within_5e3"]
COUNTS = ["n_diff", "n_finite", "nan_both_same", "nan_both_payload", "nan_baseline", "nan_candidate",
          "inf_sign", "inf_baseline", "inf_candidate", "zero_sign_only", "zero_baseline", "flips",
          "flushed", "saturated", "zeros_both", "false_to_true", "true_to_false"]
INDICES = ["max_abs_index", "ulp_max"]
REPORTED = {"within_1e3": "within_1e-3", "within_5e3": "within_5e-3"}
# A sum of some hundred terms in doubles is as near as this to the exact one, rounded.
NEAR = 4e-15


def near(actual, expected):
    if actual is None or expected is None:
        return actual is expected
    actual, expected = float(actual), float(expected)
    return actual == expected or abs(actual - expected) <= NEAR * abs(expected) < math.inf


class Checker:
    def __init__(self, tool, make_dump):
        self.tool, self.make_dump = tool, make_dump
        self.numbers, self.wrong = 0, []

    def metrics(self, tmp, options):
        done = subprocess.run([self.tool, "diff", "baseline", "candidate", "--format", "json", *options],
                              cwd=tmp, capture_output=True, text=True, timeout=100, check=False)
        first = json.loads(done.stdout)["first_divergence"]
        return first and first["outputs"][0]["metrics"]

    def expect(self, name, good, actual, expected):
        self.numbers += 1
        if not good:
            self.wrong.append(f"{name}: {actual}, expected {expected}")

    def check_numbers(self, name, metrics, expected):
        for key in REAL:
            if key in expected:
                actual = metrics[REPORTED.get(key, key)]
                self.expect(f"{name} {key}", near(actual, expected[key]), actual, expected[key])
        for key in COUNTS + INDICES:
            if key in expected:
                actual = metrics[key] if metrics[key] is None else int(metrics[key])
                self.expect(f"{name} {key}", actual == expected[key], actual, expected[key])
        if expected.get("max_abs_exact") is not None:
            actual = int(metrics["max_abs"])
            self.expect(f"{name} max_abs", actual == expected["max_abs_exact"], actual,
                        expected["max_abs_exact"])
        if "ulp_hist" in expected:
            actual = [int(count) for count in metrics["ulp_hist"].values()]
            self.expect(f"{name} ulp_hist", actual == expected["ulp_hist"], actual,
                        expected["ulp_hist"])

    def check_verdict(self, name, tmp, verdict):
        options = ["--equal-nan", verdict["equal_nan"], "--signed-zero",
                   "distinct" if verdict["signed_zero_distinct"] else "same"]
        options += ["--ulp", str(verdict["ulp"])] if "ulp" in verdict else [
            "--rtol", repr(verdict["rtol"]), "--atol", repr(verdict["atol"])]
        metrics = self.metrics(tmp, options)
        actual = (int(metrics["n_beyond"]), metrics["first_beyond"]) if metrics else (0, None)
        expected = (verdict["n_beyond"], verdict["first_beyond"])
        self.expect(f"{name} beyond {options}", actual == expected, actual, expected)

    def check(self, name, case):
        if case["baseline"] == case["candidate"]:
            return  # equal digests: nothing is measured
        with tempfile.TemporaryDirectory(prefix="repro-check-") as directory:
            tmp = pathlib.Path(directory)
            for side in ("baseline", "candidate"):
                fixture = {"run": side, "tensors": {
                    "y": {"dtype": case["dtype"], "shape": [len(case[side])], "bits": case[side]}},
                    "ops": [{"operator": "aten::linear", "module": "head", "outputs": ["y"]}]}
                (tmp / "fixture.json").write_text(json.dumps(fixture))
                subprocess.run([self.make_dump, tmp / "fixture.json", tmp / side], check=True)
            metrics = self.metrics(tmp, [])
            if metrics is None:
                self.wrong.append(f"{name}: no divergence")
                return
            self.check_numbers(name, metrics, case["expected"])
            for verdict in case.get("judged", []):
                self.check_verdict(name, tmp, verdict)


def main():
    tool, make_dump, *tables = sys.argv[1:]
    checker = Checker(tool, make_dump)
    for table in tables:
        for index, case in enumerate(json.loads(pathlib.Path(table).read_text())):
            checker.check(f"{pathlib.Path(table).stem} {index} {case['dtype']}", case)
    print("\n".join(checker.wrong))
    print(f"{checker.numbers} numbers, {len(checker.wrong)} wrong")
    return 1 if checker.wrong or checker.numbers == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
