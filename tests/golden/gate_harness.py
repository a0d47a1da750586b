# SPDX-License-Identifier: Apache-2.0
"""A gate in a git repository, for tests that are started with
`REPRO_CHECK MAKE_DUMP MAKE_UNFINISHED_DUMP`."""

import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import made_dumps

HERE = pathlib.Path(__file__).resolve().parent
TOOL, MAKE_DUMP, MAKE_UNFINISHED = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))

PLATFORM = {"/manifest/environment": {
    "os.machine": "x86_64", "cpu.capability": "avx2", "libtorch.version": "2.13.0",
    "probe.convolution": "aa", "probe.matmul": "bb", "probe.softmax": "cc", "probe.exp": "dd",
    "probe.sum": "ee"}}
WEIGHT = {"/tensors/w/values": [0.5, 0.25, 0.125, 3], "/tensors/h/values": [1.5, 3.5, 1, 1],
          "/tensors/r/values": [1.5, 3.5, 1, 1], "/tensors/p/values": [0.1, 0.2, 0.3, 0.5]}
INPUT = {"/tensors/x/values": [1, 2, 3, 5], "/tensors/h/values": [2.5, 3.5, 1, 1]}
RELU = {"/tensors/r/values": [1.5, 3.5, 1, 1], "/tensors/p/values": [0.1, 0.2, 0.3, 0.5]}


def day(ahead):
    return (datetime.datetime.now(datetime.timezone.utc).date()
            + datetime.timedelta(days=ahead)).isoformat()


def expected(**more):
    return {"operator": "aten::relu", "reason": "a race", "owner": "ann", "expires": day(30), **more}


class GateCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made_dumps.share(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="repro-check-")))

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="repro-check-")
        self.addCleanup(folder.cleanup)
        self.tmp = pathlib.Path(folder.name)
        (self.tmp / "m.pt").write_text("a small model")
        (self.tmp / ".gitattributes").write_text("*.repro text eol=lf -merge\n")
        (self.tmp / ".gitignore").write_text("repro-check-out/\nrecorder\n")
        recorder = self.tmp / "recorder"
        recorder.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{HERE}/fake_recorder.py" "$@"\n')
        recorder.chmod(0o755)
        self.configure()
        self.git("init", "-q")
        self.commit("a model and its gate")

    def git(self, *words):
        identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "core.autocrlf=false"]
        done = subprocess.run(["git", *identity, *words], cwd=self.tmp, capture_output=True,
                              text=True, check=True)
        return done.stdout

    def commit(self, message):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def configure(self, **more):
        dump = {"level": "tensor"}
        (self.tmp / "gate.json").write_text(json.dumps(
            {"model": {"path": "m.pt"}, "inputs": [], "dump": dump, **more}))

    def tool(self, *words, env=None, runs=None):
        plan = runs if runs is not None else {}
        environment = {k: v for k, v in os.environ.items() if k not in ("CI", "GITHUB_RUN_ATTEMPT")}
        environment.update(REPRO_CHECK_RECORDER=str(self.tmp / "recorder"), MAKE_DUMP=MAKE_DUMP,
                           MAKE_UNFINISHED_DUMP=MAKE_UNFINISHED, FIXTURES=str(HERE / "fixtures"),
                           FAKE_RECORDER=json.dumps(plan))
        environment.update(env or {})
        return subprocess.run([TOOL, *words], cwd=self.tmp, env=environment, capture_output=True,
                              text=True, timeout=120, check=False)

    def gate(self, change=None, candidate=None, code=0, words=(), env=None, **orders):
        """Runs the gate; both runs give what `change` makes of the fixture, or the second another."""
        both = {**PLATFORM, **(change or {})}
        runs = {"*": {"fixture": "three_ops.json", "change": both, **orders}}
        if candidate is not None:
            runs["candidate"] = {"fixture": "three_ops.json", "change": {**both, **candidate}}
        done = self.tool("gate", "-c", "gate.json", "--format", "json", *words, env=env, runs=runs)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout) if done.stdout else None

    def accept(self, *words, code=0, env=None):
        done = self.tool("gate", "accept", "-c", "gate.json", *words, env=env)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def accepted(self, change=None):
        self.gate(change, code=4)
        self.accept()
        self.commit("accept")

    def baselines(self):
        return sorted(path.name for path in (self.tmp / "baselines").glob("*"))

    def pending(self):
        return sorted(path.name for path in (self.tmp / "repro-check-out").glob("*.new"))

    def status(self, report):
        return report["verdict"]["status"]
