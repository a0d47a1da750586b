#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Baselines hold the names of variables and arguments alone; older ones, which hold values, are read and named:
`gate_values_test.py REPRO_CHECK MAKE_DUMP MAKE_UNFINISHED_DUMP`."""

import json
import unittest

from gate_harness import HERE, PLATFORM, RELU, GateCase

SECRET = "hunter2"


def configuration(secret=SECRET, seed=1, **more):
    return {"/manifest/configuration": json.dumps({
        "seed": seed,
        "env": {"MY_TOKEN": secret, "DATA": f"/srv/{secret}", "OMP_NUM_THREADS": "4", "PYTHONHASHSEED": None, **more},
        "program": {"command": ["/opt/bin/python3", f"{secret}.py", "--api-key", secret, f"--lr={secret}", secret],
                    "cwd": f"/srv/{secret}", "resume": ["python3", f"TOKEN={secret}"]},
        "calls": [[{"name": "prompt", "value": secret}, {"name": "n", "value": 3}]]})}


class GateValuesTest(GateCase):
    def lines(self):
        text = (self.tmp / "baselines" / self.baselines()[0]).read_text()
        return dict(line.split(" ", 2)[1:] for line in text.splitlines() if line.startswith("c "))

    def test_names_alone(self):
        self.gate(configuration(), code=4)
        for file in (self.tmp / "repro-check-out").glob("*.new"):
            self.assertNotIn(SECRET, file.read_text())
        self.accept()
        text = (self.tmp / "baselines" / self.baselines()[0]).read_text()
        self.assertNotIn(SECRET, text)
        lines = self.lines()
        self.assertEqual(lines["/env/MY_TOKEN"], '"<set>"')
        self.assertEqual(lines["/env/DATA"], '"<set>"')
        self.assertEqual(lines["/env/OMP_NUM_THREADS"], '"4"')
        self.assertEqual(lines["/env/PYTHONHASHSEED"], "null")
        self.assertEqual(lines["/seed"], "1")
        words = [lines[f"/program/command/{place}"] for place in range(6)]
        self.assertEqual(words, ['"python3"', '"<set>"', '"--api-key"', '"<set>"', '"--lr=<set>"', '"<set>"'])
        self.assertEqual(lines["/program/resume/1"], '"TOKEN=<set>"')
        self.assertEqual(lines["/calls/0/0/value"], '"<set>"')
        self.assertEqual(lines["/calls/0/1/value"], "3")

    def test_another_value_is_not_seen_and_another_name_is(self):
        self.accepted(configuration())
        report = self.gate(configuration("other"))
        self.assertEqual(report["verdict"]["reasons"], [])
        report = self.gate({**RELU, **configuration("other")}, code=1)
        self.assertIn("diverged", self.status(report))
        report = self.gate({**RELU, **configuration(MORE="1")}, code=4)
        self.assertEqual(self.status(report), "stale_baseline")
        self.assertIn("config /env/MORE", json.dumps(report))
        report = self.gate({**RELU, **configuration(OMP_NUM_THREADS="2")}, code=4)
        self.assertIn("config /env/OMP_NUM_THREADS", json.dumps(report))

    def test_a_baseline_from_before_is_read_and_named(self):
        self.gate(configuration(), code=4)
        pending = self.pending()[0]
        (self.tmp / "baselines").mkdir()
        old = self.tmp / "baselines" / pending.removesuffix(".new")
        old.write_text((HERE / "fixtures" / "gate_with_values.repro").read_text())
        self.assertIn(SECRET, old.read_text())
        self.assertEqual(self.gate(configuration())["verdict"]["reasons"], [])
        self.assertIn("holds values", self.tool("gate", "status", "-c", "gate.json").stdout)
        self.accept()
        self.assertNotIn("holds values", self.tool("gate", "status", "-c", "gate.json").stdout)

    def test_a_report_of_an_older_dump_hides_what_looks_like_a_secret(self):
        """The fixture's manifest has it in clear, as dumps had it before."""
        report = json.dumps(self.gate({"/manifest/method": "program", **configuration()},
                                      candidate=configuration(seed=2), code=4))
        self.assertNotIn(f"--api-key {SECRET}", report)


if __name__ == "__main__":
    unittest.main(verbosity=2)
