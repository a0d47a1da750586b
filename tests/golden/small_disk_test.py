#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tool on a file system of a few hundred kilobytes. Where none can be mounted it ends with the code
that ctest counts as skipped."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
INSIDE = "--inside"


def enter_namespace():
    """Runs this file once more where it may mount."""
    for flags in (["-rm"], ["-m"]):
        words = ["unshare", *flags]
        try:
            allowed = subprocess.run([*words, "mount", "-t", "tmpfs", "none", "/mnt"], check=False,
                                     capture_output=True).returncode == 0
        except OSError:
            break
        if allowed:
            argv = [*words, sys.executable, "-B", str(HERE / "small_disk_test.py"), INSIDE]
            return subprocess.run([*argv, *sys.argv[1:]], check=False).returncode
    print("skipped: no file system can be mounted here")
    return SKIPPED


class SmallDiskTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="repro-check-")
        self.addCleanup(folder.cleanup)
        self.tmp = pathlib.Path(folder.name)
        self.small = self.tmp / "small"
        self.small.mkdir()
        (self.tmp / "m.pt").write_bytes(b"model")
        recorder = self.tmp / "recorder"
        recorder.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE}/fake_recorder.py" "$@"\n')
        recorder.chmod(0o755)
        fixture = json.loads((HERE / "fixtures" / "three_ops.json").read_text())
        chance = random.Random(3)
        fixture["tensors"]["w"]["shape"] = [2, 50_000]
        fixture["tensors"]["w"]["values"] = [chance.random() for _ in range(100_000)]
        (self.tmp / "large.json").write_text(json.dumps(fixture))
        fixture["tensors"]["h"]["values"][0] = 1.5
        (self.tmp / "other.json").write_text(json.dumps(fixture))

    def mount(self, kilobytes):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", self.small],
                       check=True)
        self.addCleanup(subprocess.run, ["umount", self.small], check=False)

    def run_tool(self, plan, *words):
        (self.tmp / "config.json").write_text(json.dumps(
            {"model": {"path": "m.pt"}, "inputs": [], "dump": {"directory": "small/out"}}))
        environment = dict(os.environ, REPRO_CHECK_RECORDER=str(self.tmp / "recorder"),
                           FAKE_RECORDER=json.dumps(plan), MAKE_DUMP=MAKE_DUMP,
                           FIXTURES=str(self.tmp), TMPDIR=str(self.tmp))
        return subprocess.run([TOOL, "run", "-c", "config.json", *words], cwd=self.tmp,
                              env=environment, check=False, capture_output=True, text=True)

    def make_dump(self, where):
        subprocess.run([MAKE_DUMP, self.tmp / "large.json", where], check=True)

    def fill(self, left):
        space = os.statvfs(self.small)
        with open(self.small / "filler", "wb") as filler:
            filler.write(b"x" * (space.f_bavail * space.f_frsize - left))

    def test_the_second_run_is_refused_where_the_first_says_that_it_cannot_end(self):
        self.mount(700)
        done = self.run_tool({"*": {"fixture": "large.json"}}, "--set", "/dump/level=tensor")
        self.assertEqual(done.returncode, 5, done)
        self.assertRegex(" ".join(done.stdout.split()),
                         r"candidate: .*needs about 4\d\d kB \(as baseline took\), 2\d\d kB are free")
        self.assertIn("dump.directory", done.stdout)
        self.assertFalse((self.small / "out/candidate").exists())

    def test_the_same_runs_pass_where_there_is_room(self):
        self.mount(2000)
        done = self.run_tool({"*": {"fixture": "large.json"}}, "--set", "/dump/level=tensor")
        self.assertEqual(done.returncode, 0, done)

    def test_the_second_pair_is_refused_where_the_window_does_not_fit(self):
        self.mount(800)
        done = self.run_tool({"baseline": {"fixture": "large.json"},
                              "candidate": {"fixture": "other.json"}})
        self.assertEqual(done.returncode, 5, done)
        said = " ".join(done.stdout.split())
        self.assertRegex(said, r"needs about \d+ kB \(the values of op 0 to 2\), \d+ kB are free")
        # What the first pair found is not lost with it.
        self.assertIn("op 0", done.stdout)
        for name in ("baseline", "candidate"):
            self.assertTrue((self.small / f"out/{name}.digest/manifest.json").exists())

    def test_commands_that_write_to_a_full_disk_say_so_and_leave_nothing(self):
        self.mount(1500)
        self.make_dump(self.small / "A")
        self.fill(left=8192)
        before = sorted(path.name for path in self.small.iterdir())
        for words in (["pack", "small/A", "-o", "small/A.tar.zst"],
                      ["diff", "small/A", "small/A", "--report", "html=small/report.html"]):
            with self.subTest(words=words):
                done = subprocess.run([TOOL, *words], cwd=self.tmp, check=False,
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 5, done)
                self.assertIn("No space left", done.stderr)
                self.assertEqual(sorted(path.name for path in self.small.iterdir()), before)


if __name__ == "__main__":
    if INSIDE not in sys.argv:
        sys.exit(enter_namespace())
    sys.argv.remove(INSIDE)
    TOOL, MAKE_DUMP = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main()
