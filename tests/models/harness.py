# SPDX-License-Identifier: Apache-2.0
"""Runs the real tool on real models. A test file begins with `need(...)`: where a Python package is
missing it ends with the code that ctest counts as skipped."""
import importlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import NamedTuple

SKIPPED = 77
LAUNCHER = Path(__file__).with_name("launch.py")


def need(*packages: str):
    for package in packages:
        try:
            importlib.import_module(package)
        except Exception as error:  # a broken installation is as good as none
            print(f"skipped: {package} cannot be imported: {error}")
            sys.exit(SKIPPED)


def on_ranks(ranks: int, program, *arguments) -> list:
    """The command that starts a program on ranks of this machine."""
    return [sys.executable, str(LAUNCHER), str(ranks), str(program), *arguments]


def with_torchrun(ranks: int, program, *arguments) -> list:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
            str(program), *arguments]


class Result(NamedTuple):
    code: int
    stdout: str
    stderr: str


class ToolTest(unittest.TestCase):
    """One scratch folder a test, and the tool to run in it."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="repro-check-models-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.binary = os.environ["REPRO_CHECK"]

    def tool(self, *arguments, timeout: int = 280, **options) -> Result:
        """As outside of CI, where `gate` says and accepts other things, unless `env` says otherwise."""
        environment = {k: v for k, v in os.environ.items() if k not in ("CI", "GITHUB_RUN_ATTEMPT")}
        done = subprocess.run([self.binary, *map(str, arguments)],
                              capture_output=True, text=True, timeout=timeout, cwd=self.folder,
                              **{"env": environment, **options})
        return Result(done.returncode, done.stdout, done.stderr)

    def type_next(self, shown: str) -> list:
        """Every `next:` line of a text report, typed: (line, exit code)."""
        lines = [line.removeprefix("next: ") for line in shown.splitlines() if line.startswith("next: ")]
        typed = []
        for line in lines:
            program, *words = shlex.split(line)
            if program == "repro-check":
                typed.append((line, self.tool(*words).code))
            else:
                typed.append((line, subprocess.run([program, *words], cwd=self.folder).returncode))
        return typed

    def write_config(self, fields: dict) -> Path:
        fields = {"threads": 2, **fields}
        file = self.folder / "config.json"
        file.write_text(json.dumps(fields), encoding="utf-8")
        return file

    def run_config(self, expected: int, *flags, **fields) -> dict:
        """`repro-check run`: its JSON report, which must be all of stdout and agree with the exit."""
        config = self.write_config(fields)
        result = self.tool("run", "-c", config, "--format", "json", "--force", *flags)
        shown = f"\nstdout: {result.stdout[:3000]}\nstderr: {result.stderr[-3000:]}"
        self.assertEqual(result.code, expected, shown)
        report = json.loads(result.stdout)
        self.assertEqual(report["verdict"]["exit_code"], expected, shown)
        return report

    def operators(self, run: str) -> list:
        """Every record of one run, as `inspect` lists it."""
        dump = self.folder / "repro-check-out" / run
        result = self.tool("inspect", dump, "--list", "--format", "json")
        self.assertEqual(result.code, 0, result.stderr)
        return json.loads(result.stdout)["ops"]

    def assert_reproducible(self, report: dict, at_least: int):
        coverage = report["coverage"]
        self.assertEqual(report["verdict"]["status"], "reproducible")
        self.assertGreater(coverage["compared"], at_least)
        self.assertEqual(coverage["compared"], coverage["equal"])
        self.assertIsNone(report["first_divergence"])


def main():
    unittest.main(verbosity=2)
