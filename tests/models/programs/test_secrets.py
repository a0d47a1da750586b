# SPDX-License-Identifier: Apache-2.0
"""Recordings of a program hold no values of arguments and variables whose names look like secrets."""
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

from harness import ToolTest, need

need("torch")

SECRET = "hunter2"
PROGRAM = """import os, shutil, sys, torch
shutil.copy(os.environ["REPRO_CHECK_EXEC"], sys.argv[1])
torch.ones(2) * len(sys.argv)
"""


class Secrets(ToolTest):
    def setUp(self):
        super().setUp()
        (self.folder / "train.py").write_text(PROGRAM)

    def command(self, *more):
        return [sys.executable, "train.py", str(self.folder / "plan.json"), "--api-key", SECRET + " 2",
                f"--password={SECRET}", f"TOKEN={SECRET}", "--lr", "0.125", *more]

    def holding(self, text):
        """The files below the scratch folder that hold a text, but for the configuration."""
        return sorted(str(file.relative_to(self.folder)) for file in self.folder.rglob("*")
                      if file.is_file() and file.name != "config.json" and text.encode() in file.read_bytes())

    def test_a_dump_and_a_report(self):
        config = self.write_config({
            "env": {"MY_TOKEN": SECRET, "PLAIN": "visible"}, "threads": 1,
            "runs": [{"name": name, "program": {"command": self.command(*more)}}
                     for name, more in (("baseline", []), ("candidate", ["more"]))]})
        result = self.tool("run", "-c", config, "--format", "json", "--report", "html=report.html",
                           "--set", f"/env/SECOND_TOKEN={SECRET}")
        self.assertEqual(result.code, 1, result.stdout + result.stderr)
        self.assertNotIn(SECRET, result.stdout + result.stderr)
        self.assertEqual(self.holding(SECRET), [])
        self.assertIn("--api-key <set> --password=<set> TOKEN=<set> --lr 0.125", json.dumps(json.loads(result.stdout)))
        for run in ("baseline", "candidate"):
            self.assertIn(f"repro-check-out/{run}/manifest.json", self.holding("visible"))
        self.assertNotIn(SECRET, self.tool("inspect", "repro-check-out/baseline").stdout)
        self.assertNotIn(SECRET, self.tool("validate", "-c", config).stdout)

    def test_the_plan(self):
        self.assertEqual(self.tool("exec", "-o", "A", "--", *self.command()).code, 0)
        plan = json.loads((self.folder / "plan.json").read_text())
        self.assertNotIn(SECRET, json.dumps(plan))
        config = self.write_config({"program": {"command": self.command()}, "env": {"MY_TOKEN": "other"}})
        self.assertEqual(self.tool("record", "-c", config, "--out", "B", "--set", "/dump/level=digest",
                                   env={**os.environ, "MY_TOKEN": SECRET}).code, 0)
        self.assertNotIn(SECRET, (self.folder / "plan.json").read_text())
        self.assertFalse(os.path.exists(plan["directory"]))

    def test_keep_values(self):
        self.assertEqual(self.tool("exec", "-o", "A", "--keep-values", "--", *self.command()).code, 0)
        self.assertIn("A/manifest.json", self.holding(SECRET))
        config = self.write_config({"program": {"command": self.command()}})
        self.assertEqual(self.tool("record", "-c", config, "--out", "B", "--keep-values",
                                   "--set", "/dump/level=digest").code, 0)
        self.assertIn("B/manifest.json", self.holding(SECRET))

    def test_what_is_recorded_in_process(self):
        script = "import repro_check, torch\nwith repro_check.record('A', tool=%r): torch.ones(2) * 2\n" % self.binary
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3] / "python")}
        subprocess.run([sys.executable, "-c", script, "--api-key", SECRET], check=True, cwd=self.folder, env=env)
        self.assertEqual(self.holding(SECRET), [])
        self.assertIn("A/manifest.json", self.holding("--api-key"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
