#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tool on a file system of a few hundred kilobytes. Where none can be mounted it ends with the code
that ctest counts as skipped."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

import small_disk


class SmallDiskTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="repro-check-")
        self.addCleanup(folder.cleanup)
        self.tmp = pathlib.Path(folder.name)
        self.small = self.tmp / "small"
        self.small.mkdir()
        (self.tmp / "m.pt").write_bytes(b"model")
        recorder = self.tmp / "recorder"
        recorder.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{HERE}/fake_recorder.py" "$@"\n')
        recorder.chmod(0o755)
        fixture = json.loads((HERE / "fixtures" / "three_ops.json").read_text())
        chance = random.Random(3)
        fixture["tensors"]["w"]["shape"] = [2, 50_000]
        fixture["tensors"]["w"]["values"] = [chance.random() for _ in range(100_000)]
        (self.tmp / "large.json").write_text(json.dumps(fixture))
        shutil.copy(HERE / "fixtures" / "three_ops.json", self.tmp)
        fixture["tensors"]["h"]["values"][0] = 1.5
        (self.tmp / "other.json").write_text(json.dumps(fixture))

    def mount(self, kilobytes):
        small_disk.mount(self, self.small, kilobytes)

    def run_tool(self, plan, *words, verb="run", interrupt_after=None):
        (self.tmp / "config.json").write_text(json.dumps(
            {"model": {"path": "m.pt"}, "inputs": [], "dump": {"directory": "small/out"}}))
        environment = dict(os.environ, REPRO_CHECK_RECORDER=str(self.tmp / "recorder"),
                           FAKE_RECORDER=json.dumps(plan), MAKE_DUMP=MAKE_DUMP,
                           MAKE_UNFINISHED_DUMP=MAKE_UNFINISHED_DUMP, FIXTURES=str(self.tmp),
                           TMPDIR=str(self.tmp))
        with subprocess.Popen([TOOL, verb, "-c", "config.json", *words], cwd=self.tmp, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tool:
            while interrupt_after and tool.poll() is None and not interrupt_after.exists():
                time.sleep(0.01)
            if interrupt_after:
                tool.send_signal(signal.SIGINT)
            stdout, stderr = tool.communicate()
        return subprocess.CompletedProcess(words, tool.returncode, stdout, stderr)

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

    def test_the_first_run_is_refused_where_its_digests_say_that_it_cannot_end(self):
        self.mount(300)
        for verb, name, words in (("record", "run", ["-o", "small/out/run"]),
                                  ("run", "baseline", ["--set", "/dump/level=tensor"])):
            with self.subTest(verb=verb):
                done = self.run_tool({"*": {"fixture": "large.json"}}, *words, verb=verb)
                self.assertEqual(done.returncode, 5, done)
                said = re.sub(r"4\d\d kB", "4xx kB", " ".join(done.stdout.split()))
                self.assertIn(f"small/out/{name}: needs about 4xx kB (measured by a recording of digests), "
                              "307 kB are free", said)
                self.assertIn("dump.directory", done.stdout)
                self.assertRegex(done.stderr, rf"small/out/{name}: 307 kB are free, which may be too "
                                 "little: recording digests first, to measure the space for tensors")
                self.assertFalse((self.small / "out").exists())

    def test_a_first_run_that_fits_where_there_is_little_room_is_recorded(self):
        self.mount(700)
        done = self.run_tool({"*": {"fixture": "large.json"}}, "-o", "small/out/run", verb="record")
        self.assertEqual(done.returncode, 0, done)
        self.assertTrue(done.stdout.startswith("RECORDED "), done)
        self.assertRegex(done.stderr, r"small/out/run: needs about 4\d\d kB\n")
        self.assertEqual([path.name for path in (self.small / "out").iterdir()], ["run"])
        again = self.run_tool({"*": {"fixture": "large.json"}}, "-o", "small/out/run", "--force",
                              verb="record")
        self.assertEqual(again.returncode, 5, again)
        self.assertIn("measured by a recording of digests", " ".join(again.stdout.split()))
        self.assertTrue((self.small / "out/run/manifest.json").exists())

    def test_nothing_is_measured_without_values_or_with_a_limit_or_a_slice(self):
        self.mount(2000)
        for number, setting in enumerate(("level=digest", "level=stats", "max_bytes=100",
                                          'slice={"elements":5}')):
            with self.subTest(setting=setting):
                done = self.run_tool({"*": {"fixture": "large.json"}}, "-o", f"small/{number}",
                                     "--set", f"/dump/{setting}", verb="record")
                self.assertEqual(done.returncode, 0, done)
                self.assertNotIn("digests first", done.stderr)

    def test_a_run_that_fails_while_it_is_measured_fails_as_ever(self):
        self.mount(300)
        done = self.run_tool({"*": {"unfinished": "three_ops.json", "signal": "SIGSEGV"}}, "-o",
                             "small/run", verb="record")
        self.assertEqual(done.returncode, 5, done)
        self.assertIn("killed by SIGSEGV in op", done.stdout)
        self.assertEqual({path.name for path in self.small.iterdir()} - {"run.log"}, {"run"})

    def test_calibrate_and_bisect_are_held_against_the_free_space_too(self):
        plan = {"*": {"fixture": "large.json"}}
        self.mount(1200)
        done = self.run_tool(plan, "--out", "small/out", "-n", "3", "--keep", verb="calibrate")
        self.assertEqual(done.returncode, 5, done)
        said = " ".join(done.stdout.split())
        self.assertRegex(said, r"run-3: .*needs about 4\d\d kB \(as run-1 took\), \d+ kB are free")
        shutil.rmtree(self.small / "out")
        self.fill(left=300_000)
        for words, verb in ((["--out", "small/out", "-n", "3"], "calibrate"),
                            (["--set", "/runs=" + json.dumps([{"name": "a"}, {"name": "b", "threads": 1}]),
                              "--set", "/dump/level=tensor"], "bisect")):
            with self.subTest(verb=verb):
                done = self.run_tool(plan, *words, verb=verb)
                self.assertEqual(done.returncode, 5, done)
                self.assertRegex(" ".join(done.stdout.split()), "needs about 4.. kB "
                                 r"\(measured by a recording of digests\), \d+ kB are free")

    def test_an_interrupted_measurement_leaves_nothing(self):
        self.mount(300)
        pid_file = self.tmp / "pid"
        plan = {"*": {"fixture": "large.json", "hang": 60, "pid_file": str(pid_file)}}
        done = self.run_tool(plan, "-o", "small/run", verb="record", interrupt_after=pid_file)
        self.assertEqual(done.returncode, 130, done)
        self.assertIn("recording digests first", done.stderr)
        self.assertEqual(list(self.small.iterdir()), [])

    def test_the_observer_check_is_refused_by_the_digests_that_it_records_itself(self):
        self.mount(300)
        done = self.run_tool(
            {"*": {"fixture": "large.json", "outputs": {"bare": [["0", "float32 [1]", "00"]]}}},
            "--check-observer")
        self.assertEqual(done.returncode, 5, done)
        self.assertRegex(" ".join(done.stdout.split()),
                         r"needs about 4\d\d kB \(the values of every op\), 30\d kB are free")
        self.assertNotIn("digests first", done.stderr)

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
    if not small_disk.is_inside():
        sys.exit(small_disk.enter())
    TOOL, MAKE_DUMP, MAKE_UNFINISHED_DUMP = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
    unittest.main()
