#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A bisect that is killed goes on where it was: `bisect_test.py REPRO_CHECK MAKE_DUMP`."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

import made_dumps

HERE = pathlib.Path(__file__).resolve().parent
TOOL, MAKE_DUMP = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
NEEDED = {"/env/C": "1", "/env/F": "1"}


def setUpModule():
    made_dumps.share(unittest.enterModuleContext(tempfile.TemporaryDirectory(prefix="repro-check-")))


class BisectTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="repro-check-")
        self.addCleanup(folder.cleanup)
        self.tmp = pathlib.Path(folder.name)
        (self.tmp / "m.pt").write_bytes(b"model")
        self.configure({name: "1" for name in "ABCDEFGH"})

    def configure(self, variables):
        runs = [{"name": "a"}, {"name": "b", "env": variables}]
        (self.tmp / "config.json").write_text(
            json.dumps({"model": {"path": "m.pt"}, "inputs": [], "runs": runs}))

    def start(self, *words, hang=0.0):
        recorder = self.tmp / "recorder"
        recorder.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{HERE}/fake_recorder.py" "$@"\n')
        recorder.chmod(0o755)
        same = {"fixture": "three_ops.json", "hang": hang}
        other = {"if": NEEDED, "fixture": "diverged.json", "hang": hang}
        plan = {"*": {"when": [other, {"if": {}, **same}]}}
        environment = dict(os.environ, REPRO_CHECK_RECORDER=str(recorder), MAKE_DUMP=MAKE_DUMP,
                           FAKE_RECORDER=json.dumps(plan), FIXTURES=str(HERE / "fixtures"))
        return subprocess.Popen([TOOL, "bisect", "-c", "config.json", "--format", "json", *words],
                                cwd=self.tmp, env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def finish(self, process):
        out, err = process.communicate(timeout=120)
        return process.returncode, json.loads(out) if out else None, err.decode()

    def log(self):
        return self.tmp / "repro-check-out" / "bisect" / "bisect.jsonl"

    def test_killed_again_and_again_it_ends_as_if_it_never_was(self):
        code, whole, err = self.finish(self.start())
        self.assertEqual(code, 1, err)
        self.assertEqual(whole["reduced"], ["/env/C", "/env/F"])
        self.assertEqual(whole["known"], 0)
        again = self.finish(self.start())[1]
        self.assertEqual(again["recorded"], 0)
        self.assertEqual(again["known"], whole["recorded"] - 1)
        self.assertEqual(again["trials"], whole["trials"])

        self.finish(self.start("--force", "--out", "other"))
        dice = random.Random(5)
        log = self.tmp / "killed" / "bisect.jsonl"
        lines, kills = 0, 0
        for _ in range(12):
            process = self.start("--out", "killed", hang=0.05)
            time.sleep(dice.uniform(0.2, 1.2))
            process.kill()
            out = process.communicate()[0]
            kills += not out
            now = log.read_text().count("\n") if log.exists() else 0
            self.assertGreaterEqual(now, lines)
            lines = now
        self.assertGreater(kills, 0)
        code, result, err = self.finish(self.start("--out", "killed"))
        self.assertEqual(code, 1, err)
        for key in ("reduced", "trials", "rest", "certain"):
            self.assertEqual(result[key], whole[key])

    def test_a_changed_configuration_is_refused_until_forced(self):
        self.assertEqual(self.finish(self.start())[0], 1)
        before = self.log().read_bytes()
        self.configure({name: "1" for name in "ABCDEFGHI"})
        code, result, err = self.finish(self.start())
        self.assertEqual((code, result), (2, None))
        self.assertIn("belongs to another configuration", err)
        self.assertEqual(self.log().read_bytes(), before)
        self.assertEqual(self.finish(self.start("--force"))[0], 1)

    def test_a_changed_model_is_refused(self):
        self.assertEqual(self.finish(self.start())[0], 1)
        (self.tmp / "m.pt").write_bytes(b"modem")
        self.assertEqual(self.finish(self.start())[0], 2)

    def test_another_baseline_is_refused(self):
        self.assertEqual(self.finish(self.start())[0], 1)
        manifest = self.log().parent / "baseline" / "manifest.json"
        manifest.unlink()
        code, _, err = self.finish(self.start())
        self.assertEqual(code, 2)
        self.assertIn("start again with --force", err)

    def test_dumps_of_others_are_left_alone(self):
        dump = self.tmp / "mine" / "baseline"
        dump.mkdir(parents=True)
        (dump / "keep").write_text("this")
        code, _, err = self.finish(self.start("--out", "mine"))
        self.assertEqual(code, 2, err)
        self.assertEqual((dump / "keep").read_text(), "this")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
