#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two commands that want one place, each stopped and started at the moment that matters:
`two_commands_test.py REPRO_CHECK MAKE_DUMP`."""

import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import made_dumps

HERE = pathlib.Path(__file__).resolve().parent
TOOL, MAKE_DUMP = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))

PLATFORM = {"/manifest/environment": {
    "os.machine": "x86_64", "cpu.capability": "avx2", "libtorch.version": "2.13.0",
    "probe.convolution": "aa", "probe.matmul": "bb", "probe.softmax": "cc", "probe.exp": "dd",
    "probe.sum": "ee"}}
SAME = {"*": {"fixture": "three_ops.json", "change": PLATFORM}}


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def setUpModule():
    made_dumps.share(unittest.enterModuleContext(tempfile.TemporaryDirectory(prefix="repro-check-")))


class TwoCommands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="repro-check-")
        self.addCleanup(folder.cleanup)
        self.tmp = pathlib.Path(folder.name)
        (self.tmp / "m.pt").write_bytes(b"a small model")
        self.configure("config.json")
        recorder = self.tmp / "recorder"
        recorder.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{HERE}/fake_recorder.py" "$@"\n')
        recorder.chmod(0o755)
        self.out = self.tmp / "repro-check-out"

    def configure(self, name, **more):
        (self.tmp / name).write_text(json.dumps(
            {"model": {"path": "m.pt"}, "inputs": [], "dump": {"level": "tensor"}, **more}))

    def start(self, *words, plan=None):
        environment = {k: v for k, v in os.environ.items() if k != "CI"}
        environment.update(REPRO_CHECK_RECORDER=str(self.tmp / "recorder"), MAKE_DUMP=MAKE_DUMP,
                           FIXTURES=str(HERE / "fixtures"), FAKE_RECORDER=json.dumps(plan or SAME))
        return subprocess.Popen([TOOL, *words], cwd=self.tmp, env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process):
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def run_tool(self, *words, plan=None):
        return self.finish(self.start(*words, plan=plan))

    def stopping(self, name="candidate", **orders):
        """A plan whose recorder of run `name` waits for proceed(); paused() tells that it does."""
        waits = {"until": str(self.tmp / "go"), "pid_file": str(self.tmp / "pid")}
        return {**SAME, name: {**SAME["*"], **orders, **waits}}

    def paused(self):
        return wait_until((self.tmp / "pid").exists)

    def proceed(self):
        (self.tmp / "go").touch()

    def make_dump(self, place, **change):
        description = json.loads((HERE / "fixtures" / "three_ops.json").read_text())
        description["manifest"]["environment"] = PLATFORM["/manifest/environment"]
        description.update(change)
        source = self.tmp / "other.json"
        source.write_text(json.dumps(description))
        subprocess.run([MAKE_DUMP, str(source), str(place)], check=True)

    def replace(self, place):
        """As another command does that no lock holds back: its dump is whole, and of another run."""
        shutil.rmtree(place)
        self.make_dump(place, run="somebody else's")

    def digest(self, place):
        return json.loads((place / "manifest.json").read_text())["manifest_digest"]


class TheOutputDirectoryIsHeld(TwoCommands):
    def test_the_second_one_ends_before_anything_is_touched(self):
        first = self.start("gate", "-c", "config.json", plan=self.stopping())
        self.assertTrue(self.paused())
        before = self.digest(self.out / "baseline")
        for words in (["gate", "-c", "config.json"], ["run", "-c", "config.json", "--force"],
                      ["gate", "-c", "config.json", "--against", "repro-check-out"],
                      ["record", "-c", "config.json", "-o", "repro-check-out/baseline", "--force"],
                      ["record", "-c", "config.json", "-o", "repro-check-out/another"]):
            with self.subTest(words=words):
                code, out, err = self.run_tool(*words)
                self.assertEqual((code, out), (2, ""), err)
                self.assertIn(f"process {first.pid} ({TOOL} gate -c config.json) is writing there",
                              err)
                self.assertIn("--out", err)
        self.assertEqual(before, self.digest(self.out / "baseline"))
        self.assertFalse((self.out / "another").exists())
        self.proceed()
        code, out, err = self.finish(first)
        self.assertEqual(code, 4, err)
        self.assertIn("NO BASELINE", out)
        self.assertEqual(self.run_tool("gate", "-c", "config.json")[0], 4)

    def test_bisect_and_calibrate_hold_theirs(self):
        runs = [{"name": "a"}, {"name": "b", "env": {"X": "1"}}]
        self.configure("two.json", runs=runs)
        for words, name in ((["bisect", "-c", "two.json", "--force"], "trial"),
                            (["calibrate", "-c", "config.json", "-n", "3", "--force"], "run-2")):
            with self.subTest(words=words):
                for file in ("go", "pid"):
                    (self.tmp / file).unlink(missing_ok=True)
                first = self.start(*words, plan=self.stopping(name))
                self.assertTrue(self.paused())
                code, _, err = self.run_tool(*words)
                self.assertEqual(code, 2, err)
                self.assertIn("is writing there", err)
                self.proceed()
                self.assertIn(self.finish(first)[0], (0, 1))

    def test_recordings_beside_each_other_do_not_mind(self):
        first = self.start("record", "-c", "config.json", "-o", "A", plan=self.stopping("run"))
        self.assertTrue(self.paused())
        code, _, err = self.run_tool("record", "-c", "config.json", "-o", "B")
        self.assertEqual(code, 0, err)
        self.proceed()
        self.assertEqual(self.finish(first)[0], 0)

    def check_that_the_second_recording_is_refused(self, first):
        code, _, err = self.run_tool("record", "-c", "config.json", "-o", "A/", "--force")
        self.assertEqual(code, 2, err)
        self.assertIn(f"process {first.pid} ", err)
        self.assertEqual(self.run_tool("verify", "A")[0], 0)

    def test_one_recording_of_several_in_one_place_wins(self):
        self.assertEqual(self.run_tool("record", "-c", "config.json", "-o", "A")[0], 0)
        old = self.digest(self.tmp / "A")
        plan = self.stopping("run", change={**PLATFORM, "/manifest/seed": 77})
        first = self.start("record", "-c", "config.json", "-o", "A", "--force", plan=plan)
        self.assertTrue(self.paused())
        self.check_that_the_second_recording_is_refused(first)
        self.assertEqual(self.digest(self.tmp / "A"), old)
        self.proceed()
        self.assertEqual(self.finish(first)[0], 0)
        self.assertEqual(self.run_tool("verify", "A")[0], 0)
        self.assertNotEqual(self.digest(self.tmp / "A"), old)

    def test_nor_while_the_dump_that_was_replaced_is_taken_away(self):
        self.assertEqual(self.run_tool("record", "-c", "config.json", "-o", "A")[0], 0)
        plan = {"run": {**SAME["*"], "emptied": str(self.tmp / "go")}}
        first = self.start("record", "-c", "config.json", "-o", "A", "--force", plan=plan)
        self.assertTrue(wait_until((self.tmp / "A.recording").exists))
        self.assertTrue(wait_until((self.tmp / "A" / "manifest.json").exists))
        self.check_that_the_second_recording_is_refused(first)
        self.proceed()
        self.assertEqual(self.finish(first)[0], 0)
        self.assertEqual(self.run_tool("record", "-c", "config.json", "-o", "A", "--force")[0], 0)

    def test_a_killed_command_holds_nothing(self):
        first = self.start("run", "-c", "config.json", plan=self.stopping())
        self.assertTrue(self.paused())
        first.kill()
        self.finish(first)
        code, _, err = self.run_tool("run", "-c", "config.json", "--force")
        self.assertEqual(code, 0, err)

    def test_a_mistake_leaves_no_directory(self):
        (self.tmp / "m.pt").unlink()
        for words in (["run", "-c", "config.json", "--out", "new/deep"],
                      ["record", "-c", "config.json", "-o", "new/deep"]):
            plan = {"*": {"error": {"kind": "usage", "message": "no model", "hint": ""}}}
            code, _, err = self.run_tool(*words, plan=plan)
            self.assertEqual(code, 2, err)
            self.assertFalse((self.tmp / "new").exists())


class WhatIsJudgedIsWhatWasRecorded(TwoCommands):
    """None of these is held back by a lock: they are what a file system without locks lets happen."""

    def expect_refused(self, process, place):
        code, out, err = self.finish(process)
        self.assertEqual(code, 5, out + err)
        self.assertIn(f"{place}: another command recorded there", out + err)

    def test_run_and_gate(self):
        for words in (["run", "-c", "config.json", "--force"], ["gate", "-c", "config.json"],
                      ["run", "-c", "config.json", "--force", "--set", "/dump/level=auto"],
                      ["run", "-c", "config.json", "--force", "-n", "3"]):
            with self.subTest(words=words):
                for file in ("go", "pid"):
                    (self.tmp / file).unlink(missing_ok=True)
                name = "run-2" if "-n" in words else "candidate"
                process = self.start(*words, plan=self.stopping(name))
                self.assertTrue(self.paused())
                first = self.out / ("run-1" if "-n" in words else "baseline")
                self.replace(first)
                self.proceed()
                self.expect_refused(process, first.relative_to(self.tmp))

    def test_values_recorded_in_a_second_round(self):
        plan = {"baseline": {"fixture": "three_ops.json"}, "candidate": {"fixture": "diverged.json"},
                "candidate#values": {**self.stopping()["candidate"], "fixture": "diverged.json"}}
        process = self.start("run", "-c", "config.json", "--set", "/dump/level=auto", plan=plan)
        self.assertTrue(self.paused())
        self.replace(self.out / "baseline")
        self.proceed()
        self.expect_refused(process, "repro-check-out/baseline")

    def test_bisect(self):
        self.configure("two.json", runs=[{"name": "a"}, {"name": "b", "env": {"X": "1"}}])
        process = self.start("bisect", "-c", "two.json", plan=self.stopping("trial"))
        self.assertTrue(self.paused())
        self.replace(self.out / "bisect" / "baseline")
        self.proceed()
        self.expect_refused(process, "repro-check-out/bisect/baseline")

    def test_calibrate(self):
        process = self.start("calibrate", "-c", "config.json", "-n", "3", "--keep",
                             plan=self.stopping("run-2"))
        self.assertTrue(self.paused())
        # The recorder of the second run says that it made one, and another one lies there.
        place = self.out / "calibration" / "run-2"
        process.send_signal(19)
        self.proceed()
        self.assertTrue(wait_until((place / "manifest.json").exists))
        # It has said so once it has ended.
        status = pathlib.Path("/proc", (self.tmp / "pid").read_text(), "stat")
        self.assertTrue(wait_until(lambda: status.read_text().rsplit(")", 1)[1].split()[0] == "Z"))
        self.replace(place)
        process.send_signal(18)
        self.expect_refused(process, "repro-check-out/calibration/run-2")

    def test_a_recorder_that_does_not_say_what_it_made(self):
        code, out, _ = self.run_tool("run", "-c", "config.json",
                                     plan={"*": {**SAME["*"], "silent": True}})
        self.assertEqual(code, 5, out)
        self.assertIn("did not name its dump", out)


class WhatIsReplaced(TwoCommands):
    def expect_run(self, expected, *words, plan=None, said=""):
        code, out, err = self.run_tool("run", "-c", "config.json", *words, plan=plan)
        self.assertEqual(code, expected, err)
        self.assertIn(said, out + err)

    def test_run_replaces_what_an_earlier_run_left_and_nothing_else(self):
        failing = {**SAME, "candidate": {"signal": "SIGSEGV", "unfinished": "three_ops.json"}}
        self.expect_run(5, plan=failing)
        self.assertFalse((self.out / "candidate/manifest.json").exists())
        self.expect_run(0)
        before = self.digest(self.out / "baseline")
        self.expect_run(0, "--set", "/dump/level=auto")
        self.assertNotEqual(before, self.digest(self.out / "baseline"))
        # What is left is exactly what was there before, but for the file that tells it apart.
        self.assertEqual(sorted(path.name for path in self.out.iterdir()),
                         [".repro-check-run", "baseline", "candidate"])
        for words in (["record", "-c", "config.json", "-o", "repro-check-out/candidate", "--force"],
                      ["record", "-c", "config.json", "-o", "repro-check-out/candidate.digest"]):
            with self.subTest(words=words):
                self.assertEqual(self.run_tool(*words)[0], 0)
                recorded = self.digest(self.tmp / words[4])
                self.expect_run(2, "--set", "/dump/level=auto", said="replace it with --force")
                self.assertEqual(recorded, self.digest(self.tmp / words[4]))
                self.expect_run(0, "--force", "--set", "/dump/level=auto")
        self.assertEqual(self.run_tool("gate", "-c", "config.json")[0], 4)
        self.expect_run(0)

    def test_run_goes_on_from_one_that_was_interrupted(self):
        first = self.start("run", "-c", "config.json",
                           plan=self.stopping(unfinished="three_ops.json"))
        self.assertTrue(self.paused())
        first.send_signal(2)
        self.assertEqual(self.finish(first)[0], 130)
        self.expect_run(0)

    def test_another_directory_is_none_of_its_own(self):
        self.make_dump(self.out / "baseline")
        self.expect_run(2, said="holds a dump already")
        self.expect_run(2, "--out", "new", "--set", "/model/path=gone.pt")
        self.assertFalse((self.tmp / "new").exists())
        (self.tmp / "used" / "candidate").mkdir(parents=True)
        (self.tmp / "used" / "candidate" / "notes").touch()
        (self.tmp / "used" / ".repro-check-run").touch()
        self.expect_run(2, "--out", "used", said="exists already")

    def test_no_older_candidate_stays_beside_a_new_baseline(self):
        self.assertEqual(self.run_tool("run", "-c", "config.json")[0], 0)
        failing = {**SAME, "candidate": {"error": {"kind": "io", "message": "No space left on device",
                                                   "hint": ""}}}
        code, out, _ = self.run_tool("run", "-c", "config.json", "--force", plan=failing)
        self.assertEqual(code, 5, out)
        self.assertTrue((self.out / "baseline" / "manifest.json").exists())
        self.assertFalse((self.out / "candidate").exists())
        # Where the first run fails, both of the older ones stay.
        self.assertEqual(self.run_tool("run", "-c", "config.json", "--force")[0], 0)
        failing = {"*": failing["candidate"]}
        self.assertEqual(self.run_tool("run", "-c", "config.json", "--force", plan=failing)[0], 5)
        self.assertTrue((self.out / "candidate" / "manifest.json").exists())


    def test_what_an_earlier_run_left_is_not_taken_for_this_one(self):
        self.configure("ab.json", runs=[{"name": "a"}, {"name": "b"}])
        differing = {**SAME, "b": {**SAME["*"], "fixture": "diverged.json"}}
        for again in (["run", "-c", "config.json"], ["gate", "-c", "config.json"]):
            with self.subTest(again=again):
                code, _, err = self.run_tool("run", "-c", "ab.json", "--set", '/report/format=["text", "json"]',
                                             "--report", "html=repro-check-out/report.html", plan=differing)
                self.assertEqual(code, 1, err)
                (self.out / "report.txt").write_text("notes of somebody")
                self.make_dump(self.out / "kept")
                code, out, err = self.run_tool(*again, "--format", "json")
                self.assertEqual(code, {"run": 0, "gate": 4}[again[0]], out + err)
                self.assertEqual(sorted(path.name for path in self.out.iterdir() if path.suffix != ".new"),
                                 [".repro-check-run", "baseline", "candidate", "kept", "report.txt"])
                names = [line.split()[1] for line in (self.out / ".repro-check-run").read_text().splitlines()]
                self.assertEqual(names, ["baseline", "candidate"])
                shutil.rmtree(self.out / "kept")


class Accepting(TwoCommands):
    def accept(self):
        return self.start("gate", "accept", "-c", "config.json")

    def test_the_second_one_waits_and_finds_that_it_is_done(self):
        self.assertEqual(self.run_tool("gate", "-c", "config.json")[0], 4)
        (self.tmp / "baselines").mkdir()
        held = os.open(self.tmp / "baselines", os.O_RDONLY)
        self.addCleanup(os.close, held)
        fcntl.flock(held, fcntl.LOCK_EX)
        both = [self.accept(), self.accept()]
        time.sleep(0.3)
        self.assertEqual([process.poll() for process in both], [None, None])
        fcntl.flock(held, fcntl.LOCK_UN)
        done = [self.finish(process) for process in both]
        self.assertEqual(sorted(code for code, _, _ in done), [0, 2], done)
        self.assertIn("no pending baseline", " ".join(err for _, _, err in done))
        self.assertEqual(self.run_tool("gate", "-c", "config.json")[0], 0)

    def test_readers_never_find_half_a_baseline(self):
        self.assertEqual(self.run_tool("gate", "-c", "config.json")[0], 4)
        pending = next(self.out.glob("*.new"))
        text = pending.read_bytes()
        torn = []
        stop = threading.Event()

        def read():
            while not stop.is_set():
                for file in (self.tmp / "baselines").glob("*.repro"):
                    if not file.read_bytes().endswith(b"\n"):
                        torn.append(file)

        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(10):
            pending.write_bytes(text)
            codes = [self.finish(each)[0] for each in [self.accept() for _ in range(3)]]
            self.assertTrue(set(codes) <= {0, 2}, codes)
            self.assertIn(0, codes)
        stop.set()
        reader.join()
        self.assertEqual(torn, [])
        self.assertEqual(len(list((self.tmp / "baselines").iterdir())), 1)


if __name__ == "__main__":
    unittest.main(verbosity=1)
