#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What only shows between processes: interruption, a reader that leaves, a full disk, start-up."""

import fcntl
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TOOL, MAKE_DUMP, MAKE_UNFINISHED_DUMP = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
SANITIZED = any(name in pathlib.Path(TOOL).read_bytes() for name in (b"__asan_init", b"__tsan_init"))


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


class ProcessTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="repro-check-")
        self.addCleanup(folder.cleanup)
        self.tmp = pathlib.Path(folder.name)
        (self.tmp / "m.pt").write_bytes(b"model")
        (self.tmp / "config.json").write_text(
            json.dumps({"model": {"path": "m.pt"}, "inputs": []}))
        self.pid_file = self.tmp / "pid"

    def environment(self, plan):
        recorder = self.tmp / "recorder"
        recorder.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{HERE}/fake_recorder.py" "$@"\n')
        recorder.chmod(0o755)
        return dict(os.environ, REPRO_CHECK_RECORDER=str(recorder), FAKE_RECORDER=json.dumps(plan),
                    MAKE_DUMP=MAKE_DUMP, MAKE_UNFINISHED_DUMP=MAKE_UNFINISHED_DUMP,
                    FIXTURES=str(HERE / "fixtures"), TMPDIR=str(self.tmp))

    def make_dump(self, fixture, name):
        subprocess.run([MAKE_DUMP, str(HERE / "fixtures" / fixture), str(self.tmp / name)],
                       check=True)
        return str(self.tmp / name)

    def start_hanging_run(self):
        plan = {"*": {"hang": 600, "pid_file": str(self.pid_file)}}
        process = subprocess.Popen([TOOL, "run", "-c", "config.json"], cwd=self.tmp,
                                   env=self.environment(plan), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.assertTrue(wait_until(lambda: self.pid_file.exists() and self.pid_file.read_text()))
        return process, int(self.pid_file.read_text())

    def test_interrupt_kills_the_recorder_and_leaves_stdout_empty(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                self.pid_file.unlink(missing_ok=True)
                process, recorder = self.start_hanging_run()
                process.send_signal(number)
                out, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 130)
                self.assertEqual(out, b"")
                self.assertIn(b"interrupted", err)
                self.assertTrue(wait_until(lambda: not is_alive(recorder)))
                self.assertEqual(list(self.tmp.glob("repro-check-request-*")), [])

    def test_a_run_that_hangs_ends_at_its_timeout_and_can_be_recovered(self):
        plan = {"baseline": {"fixture": "three_ops.json"},
                "candidate": {"unfinished": "three_ops.json", "signal": "SIGSTOP"}}
        run = subprocess.run([TOOL, "run", "-c", "config.json", "--timeout", "20"], cwd=self.tmp,
                             env=self.environment(plan), capture_output=True, text=True)
        self.assertEqual(run.returncode, 5, run.stderr)
        self.assertIn("candidate was killed after 20 s, its timeout, in op 2 aten::_log_softmax",
                      run.stdout)
        self.assertIn("--timeout", run.stdout)
        dump = str(self.tmp / "repro-check-out/candidate")
        recovered = subprocess.run([TOOL, "recover", dump], capture_output=True, text=True)
        self.assertEqual(recovered.returncode, 0, recovered.stderr)
        self.assertIn("RECOVERED 2 operators", recovered.stdout)

    def test_a_replay_that_hangs_ends_at_its_timeout_and_names_the_operator(self):
        dump = self.make_dump("three_ops.json", "A")
        replay = subprocess.run([TOOL, "replay", dump, "--op", "1", "--timeout", "2"],
                                env=self.environment({"replay": {"hang": 600}}),
                                capture_output=True, text=True)
        self.assertEqual((replay.returncode, replay.stdout), (5, ""), replay.stderr)
        self.assertIn("op 1 aten::relu was killed after 2 s, its timeout", replay.stderr)

    def test_an_interrupt_as_the_recorder_starts_leaves_nothing(self):
        # The request is written a moment before the recorder starts: which came first says the text.
        process = subprocess.Popen([TOOL, "run", "-c", "config.json"], cwd=self.tmp,
                                   env=self.environment({"*": {"hang": 600}}),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        requests = lambda: list(self.tmp.glob("repro-check-request-*"))
        self.assertTrue(wait_until(lambda: requests() and requests()[0].stat().st_size))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (130, b""))
        self.assertRegex(err, rb"repro-check: error: interrupted(; the recorder was stopped)?\n\Z")
        self.assertEqual(requests(), [])

    def test_interrupted_in_the_second_round_it_says_what_the_first_found(self):
        plan = {"baseline": {"fixture": "three_ops.json"}, "candidate": {"fixture": "diverged.json"},
                "*#values": {"hang": 600, "pid_file": str(self.pid_file)}}
        process = subprocess.Popen([TOOL, "run", "-c", "config.json"], cwd=self.tmp,
                                   env=self.environment(plan), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.assertTrue(wait_until(lambda: self.pid_file.exists() and self.pid_file.read_text()))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(out, b"")
        self.assertIn(b"DIVERGED at op 0", err)
        for name in ("baseline", "candidate"):
            self.assertTrue((self.tmp / f"repro-check-out/{name}.digest/manifest.json").exists())
            self.assertFalse((self.tmp / f"repro-check-out/{name}/manifest.json").exists())

    def test_the_recorder_dies_with_a_tool_that_is_killed(self):
        process, recorder = self.start_hanging_run()
        process.kill()
        process.wait()
        self.assertTrue(wait_until(lambda: not is_alive(recorder)))

    def test_a_reader_that_leaves_is_no_error(self):
        dump = self.make_dump("three_ops.json", "A")
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([TOOL, "diff", dump, dump], stdout=write, stderr=subprocess.PIPE,
                              check=False)
        os.close(write)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, b"")

    def test_recordings_are_whole_although_the_reader_of_the_report_left(self):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([TOOL, "run", "-c", "config.json"], cwd=self.tmp, stdout=write,
                              env=self.environment({"*": {"fixture": "three_ops.json"}}),
                              stderr=subprocess.PIPE, check=False)
        os.close(write)
        self.assertEqual(done.returncode, 0, done)
        for name in ("baseline", "candidate"):
            subprocess.run([TOOL, "verify", str(self.tmp / "repro-check-out" / name)], check=True,
                           stdout=subprocess.DEVNULL)

    @unittest.skipIf(os.geteuid() != 0, "who may not write is told apart as root alone")
    def test_a_directory_that_cannot_be_written_is_named_before_anything_starts(self):
        self.tmp.chmod(0o755)
        (self.tmp / "closed").mkdir(mode=0o755)
        nobody = 65534
        plan = self.environment({"*": {"pid_file": str(self.pid_file), "fixture": "three_ops.json"}})
        plan["TMPDIR"] = "/tmp"
        done = subprocess.run([TOOL, "record", "-c", "config.json", "-o", "closed/x"], cwd=self.tmp,
                              env=plan, capture_output=True, check=False, user=nobody, group=nobody)
        self.assertEqual((done.returncode, done.stdout), (2, b""), done)
        self.assertRegex(done.stderr, rb"cannot create directory \S*/closed/x: Permission denied")
        self.assertIn(b"--out", done.stderr)
        self.assertFalse(self.pid_file.exists())

    def test_a_stream_that_does_not_block_loses_nothing(self):
        dump = self.make_dump("three_ops.json", "A")
        words = [TOOL, "diff", dump, dump, "--format", "json"]
        whole = subprocess.run(words, capture_output=True, check=True).stdout
        read, write = os.pipe()
        os.set_blocking(write, False)
        room = fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        os.write(write, b"x" * (room - 1))  # no room for the document
        process = subprocess.Popen(words, stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        time.sleep(0.3)
        with os.fdopen(read, "rb") as pipe:
            said = pipe.read()[room - 1:]
        _, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (0, b""))
        untimed = lambda text: re.sub(rb'seconds":[0-9.e-]+', b"", text)
        self.assertEqual(untimed(said), untimed(whole))

    def test_a_full_disk_is_an_error(self):
        dump = self.make_dump("three_ops.json", "A")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([TOOL, "diff", dump, dump], stdout=full, stderr=subprocess.PIPE,
                                  check=False)
        self.assertEqual(done.returncode, 5)
        self.assertIn(b"No space left", done.stderr)

    def test_closed_streams_do_no_harm(self):
        dump = self.make_dump("three_ops.json", "A")
        done = subprocess.run(["/bin/sh", "-c", f'"{TOOL}" diff "{dump}" "{dump}" 2>&-'],
                              stdout=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.startswith(b"REPRODUCIBLE"))

    def make_killed(self, name):
        subprocess.run([MAKE_UNFINISHED_DUMP, str(HERE / "fixtures" / "three_ops.json"),
                        str(self.tmp / name)], check=True)
        return self.tmp / name

    def test_a_recovery_that_is_killed_can_be_done_again(self):
        whole = self.make_dump("three_ops.json", "A")
        chance = random.Random(1)
        for trial in range(20):
            with self.subTest(trial=trial):
                killed = self.make_killed(f"K{trial}")
                process = subprocess.Popen([TOOL, "recover", str(killed)],
                                           stdout=subprocess.DEVNULL)
                time.sleep(chance.uniform(0, 0.04))
                process.kill()
                process.wait()
                # Either the recording is as it was, or the dump is there, whole.
                if not (killed / "manifest.json").exists():
                    again = subprocess.run([TOOL, "recover", str(killed)], check=False,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                    self.assertEqual(again.returncode, 0, again.stderr)
                self.assertEqual(subprocess.run([TOOL, "verify", str(killed)], check=False,
                                                stdout=subprocess.DEVNULL).returncode, 0)
                diff = subprocess.run([TOOL, "diff", whole, str(killed)], check=False,
                                      stdout=subprocess.PIPE)
                self.assertEqual(diff.returncode, 3)
                self.assertIn(b"partial recording", diff.stdout)

    def test_a_recovery_beyond_the_file_size_limit_leaves_the_recording(self):
        killed = self.make_killed("K")
        before = (killed / "journal.bin").read_bytes()
        for place in ([], ["-o", str(self.tmp / "R")]):
            done = subprocess.run(
                [TOOL, "recover", str(killed), *place], check=False, capture_output=True,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
            self.assertEqual(done.returncode, 5)
            self.assertIn(b"ulimit -f", done.stderr)
            self.assertEqual((killed / "journal.bin").read_bytes(), before)
            self.assertFalse((killed / "manifest.json").exists())

    def names(self):
        return sorted(path.name for path in self.tmp.iterdir())

    def make_large_dump(self):
        """A dump, and a pack of it, that take long enough for something to happen meanwhile."""
        description = json.loads((HERE / "fixtures" / "three_ops.json").read_text())
        chance = random.Random(3)
        description["tensors"]["w"]["shape"] = [2, 50_000]
        description["tensors"]["w"]["values"] = [chance.random() for _ in range(100_000)]
        (self.tmp / "fixture.json").write_text(json.dumps(description))
        subprocess.run([MAKE_DUMP, str(self.tmp / "fixture.json"), str(self.tmp / "A")], check=True)
        (self.tmp / "fixture.json").unlink()
        return str(self.tmp / "A")

    def test_packing_that_is_interrupted_leaves_nothing(self):
        dump = self.make_large_dump()
        subprocess.run([TOOL, "pack", dump, "-o", str(self.tmp / "P.tar.zst")], check=True,
                       stdout=subprocess.DEVNULL)
        before = self.names()
        chance = random.Random(2)
        stopped = 0
        for trial in range(30):
            with self.subTest(trial=trial):
                argv = ["pack", dump, "-o", str(self.tmp / "new.tar.zst"), "--level", "19"]
                if trial % 2:
                    argv = ["unpack", str(self.tmp / "P.tar.zst"), "-o", str(self.tmp / "new")]
                process = subprocess.Popen([TOOL, *argv], stdout=subprocess.PIPE,
                                           stderr=subprocess.DEVNULL)
                self.addCleanup(process.stdout.close)
                time.sleep(chance.uniform(0, 0.1))
                process.send_signal(signal.SIGTERM if trial % 3 else signal.SIGINT)
                out, _ = process.communicate(timeout=60)
                if process.returncode != 0:
                    stopped += 1
                    # A signal before the handlers are there ends it as any other program.
                    self.assertIn(process.returncode, (130, -signal.SIGTERM, -signal.SIGINT))
                    # It says what it did only when that is done.
                    self.assertTrue(not out or set(self.names()) - set(before), out)
                # All of it may be in its place by then, or nothing.
                for name in set(self.names()) - set(before):
                    self.assertIn(name, ("new", "new.tar.zst"))
                    path = self.tmp / name
                    subprocess.run([TOOL, "verify", str(path)], check=True,
                                   stdout=subprocess.DEVNULL)
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                self.assertEqual(self.names(), before)
        self.assertGreater(stopped, 0)

    def test_packs_beyond_the_file_size_limit_leave_nothing(self):
        dump = self.make_large_dump()
        pack = str(self.tmp / "P.tar.zst")
        subprocess.run([TOOL, "pack", dump, "-o", pack], check=True, stdout=subprocess.DEVNULL)
        before = self.names()
        for argv in (["pack", dump, "-o", str(self.tmp / "new.tar.zst")],
                     ["unpack", pack, "-o", str(self.tmp / "new")], ["diff", pack, dump]):
            with self.subTest(argv=argv):
                done = subprocess.run(
                    [TOOL, *argv], check=False, capture_output=True,
                    env=dict(os.environ, TMPDIR=str(self.tmp)),
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertIn(b"ulimit -f", done.stderr)
                self.assertEqual(done.stdout, b"")
                self.assertEqual(self.names(), before)

    def test_a_small_bomb_fills_neither_memory_nor_disk(self):
        # 16 GiB of zeros in 512 KiB, behind the end of the archive.
        piece = self.tmp / "zeros.tar.zst"
        subprocess.run([TOOL, "pack", self.make_dump("three_ops.json", "A"), "-o", str(piece)],
                       check=True, stdout=subprocess.DEVNULL)
        frame = bytes.fromhex("28b52ffd") + bytes([0x00, 0x58])
        blocks = b"\x02\x00\x10\x00" * 131072
        piece.write_bytes(piece.read_bytes() + frame + blocks + b"\x03\x00\x10\x00")
        done = subprocess.run(
            [TOOL, "verify", str(piece)], check=False, capture_output=True, timeout=60,
            env=dict(os.environ, TMPDIR=str(self.tmp)),
            preexec_fn=None if SANITIZED else
            lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(b"has data after the end", done.stdout)
        self.assertEqual(self.names(), sorted(["A", "zeros.tar.zst", "m.pt", "config.json"]))

    def test_what_was_built_is_listed_and_removed_but_for_what_is_being_built(self):
        cache = self.tmp / "cache" / "repro-check"
        cache.mkdir(parents=True)
        env = dict(os.environ, XDG_CACHE_HOME=str(cache.parent), REPRO_CHECK_RECORDER="/nowhere")

        def said(*flags):
            return subprocess.run([TOOL, "env", *flags], env=env, capture_output=True, text=True,
                                  check=True)

        old, new, killed = (cache / f"{torch}-cxx11-0.1.0-0123" for torch in ("2.9.1", "2.13.0+cpu", "2.8.0"))
        for folder, products in ((old, ["probe.so"]), (killed, []),
                                 (new, ["probe.so", "repro-check-recorder-ab", "repro-check-recorder-cd"])):
            (folder / "building-abc").mkdir(parents=True)
            (folder / "building-abc" / "engine.o").write_bytes(b"half")
            (folder / "lock").touch()
            for product in products:
                (folder / product).write_bytes(b"x" * 2048)
        (cache / "probe-of-somebody").write_text("not ours")
        listed = said().stdout.splitlines()
        self.assertEqual([line.split(maxsplit=1) for line in listed if line.startswith("built.")], [
            ["built.2.13.0+cpu", f"probe and recorder, 6.1 kB: {new}"],
            ["built.2.9.1", f"probe, 2.1 kB: {old}"]])

        with open(new / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            removed = said("--clean")
        self.assertEqual(removed.stdout, f"removed for PyTorch 2.9.1: probe, 2.1 kB: {old}\n")
        self.assertIn("the current build for PyTorch 2.13.0+cpu stays", removed.stderr)
        self.assertEqual(sorted(path.name for path in cache.iterdir()), [new.name, "probe-of-somebody"])
        (cache / "probe-of-somebody").unlink()
        self.assertIn("PyTorch 2.13.0+cpu", said("--clean").stdout)
        self.assertFalse(cache.exists())
        self.assertEqual(said("--clean").stdout, f"nothing is built in {cache}\n")
        self.assertFalse([line for line in said().stdout.splitlines() if line.startswith("built.")])

    def test_it_links_no_libtorch(self):
        linked = subprocess.run(["ldd", TOOL], capture_output=True, check=True).stdout
        self.assertNotIn(b"torch", linked)
        self.assertNotIn(b"libc10", linked)

    @unittest.skipIf(SANITIZED, "sanitizers reserve more addresses than any limit leaves")
    def test_an_internal_error_ends_with_70_and_says_what_to_report(self):
        # Memory that runs out is the one exception from outside that no file of ours translates.
        large = self.tmp / "large.json"
        large.touch()
        os.truncate(large, 1 << 30)
        most = 256 << 20
        for words in (["report", "large.json"], ["report", "large.json", "--format", "json"]):
            done = subprocess.run(
                [TOOL, *words], cwd=self.tmp, capture_output=True, text=True, timeout=120, check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))
            self.assertEqual((done.returncode, done.stdout), (70, ""), done.stderr)
            self.assertRegex(done.stderr, r"\Arepro-check: error: internal error: \S")
            self.assertIn("report this line with the command line", done.stderr)
            self.assertIn("repro-check --version", done.stderr)

    @unittest.skipIf(SANITIZED, "sanitizers touch more memory")
    def test_it_starts_with_little_memory(self):
        """What makes it start at once: a time would be the machine's."""
        dump = self.make_dump("three_ops.json", "A")
        for command in ([TOOL, "--help"], [TOOL, "diff", dump, dump]):
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            pages = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before
            self.assertLess(pages, 5000, command)  # 1,000 and 1,700 were seen


if __name__ == "__main__":
    unittest.main()
