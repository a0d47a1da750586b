# SPDX-License-Identifier: Apache-2.0
"""Other users cannot make the tool load, run or overwrite something. The rule of ownership is tried in both of its
forms, that of the program and that of its Python side.

usage: security_test.py REPRO_CHECK"""
import importlib.util
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(sys.argv.pop(1)).resolve()
LIBEXEC = TOOL.parent.parent / "libexec" / "repro-check"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "repro_check"))

import ownership  # noqa: E402

needs_probe = unittest.skipIf(os.environ.get("REPRO_CHECK_TEST_SANITIZED") and importlib.util.find_spec("torch"),
                              "no sanitizer's probe can be loaded into a Python that has none")

NOBODY = 65534
SHOWS_PLAN = ("import json, os; path = os.environ['REPRO_CHECK_EXEC']; folder = os.path.dirname(path); "
              "plan = json.load(open(path)); "
              "print(json.dumps([path, os.stat(folder).st_mode & 0o777, plan['directory'], plan['build_folder'], "
              "sorted(name for _, _, names in os.walk(plan['build_folder']) for name in names)]))")


class Security(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="repro-check-security-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.env = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTHONPATH", "CXX", "REPRO_CHECK_EXEC")}

    def tool(self, *words, code, **options):
        done = subprocess.run([TOOL, *map(str, words)], capture_output=True, text=True, cwd=self.folder,
                              **{"env": self.env, **options})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def pretend_torch(self):
        """A PyTorch that only seems to be there, and a compiler that makes an empty file of everything."""
        torch = self.folder / "packages" / "torch"
        (torch / "lib").mkdir(parents=True)
        (torch / "include" / "ATen").mkdir(parents=True)
        (torch / "include" / "ATen" / "ATen.h").touch()
        (torch / "version.py").write_text("__version__ = '9.9.1'\n")
        (torch / "__init__.py").touch()
        (torch / "lib" / "libc10.so").write_bytes(b"\0_ZN3c103StrENSt7__cxx11E\0")
        for library in ("libtorch.so", "libtorch_cpu.so"):
            (torch / "lib" / library).touch()
        compiler = self.folder / "compiler"
        compiler.write_text("#!/bin/sh\ncase \"$*\" in *-dM*) echo '#define __GNUC__ 12'; exit ;; esac\n"
                            'while [ "$1" != -o ]; do shift; done\n: > "$2"\n')
        compiler.chmod(0o755)
        self.cache = self.folder / "cache"
        self.env.update(PYTHONPATH=str(torch.parent), CXX=str(compiler), XDG_CACHE_HOME=str(self.cache))

    def shown_plan(self, out="A", code=4):
        done = self.tool("exec", "-o", out, "--", sys.executable, "-c", SHOWS_PLAN, code=code)
        return json.loads(done.stdout), done.stderr


class Plan(Security):
    @needs_probe
    def test_the_folder_is_made_anew_and_is_private(self):
        shown = [self.shown_plan()[0] for _ in range(2)]
        self.assertNotEqual(shown[0][0], shown[1][0])
        for path, mode, journals, _, _ in shown:
            self.assertEqual(mode, 0o700)
            self.assertEqual(os.path.dirname(path), journals)
            self.assertEqual(os.path.dirname(journals), str(self.folder))
        self.assertEqual(list(self.folder.iterdir()), [])

    @needs_probe
    def test_a_folder_that_others_can_move_holds_no_plan(self):
        shared = self.folder / "shared"
        shared.mkdir()
        shared.chmod(0o777)
        (path, mode, journals, _, _), _ = self.shown_plan("shared/A")
        self.assertNotEqual(os.path.dirname(path), journals)
        self.assertEqual((mode, ownership.refusal(path)), (0o700, ""))
        self.env["TMPDIR"] = str(shared)
        done = self.tool("exec", "-o", "shared/A", "--", sys.executable, "-c", "print(1)", code=2)
        self.assertEqual(done.stdout, "")

    def python(self, plan):
        """The plan as a Python below `exec` has it."""
        env = {**self.env, "PYTHONPATH": str(LIBEXEC / "python"), "REPRO_CHECK_EXEC": str(plan)}
        return subprocess.run([sys.executable, "-c", "from repro_check_hooks import hooks; print(hooks.plan)"],
                              capture_output=True, text=True, check=True, env=env).stdout.strip()

    def test_it_is_read_and_never_evaluated(self):
        plan, trace = self.folder / "plan.json", self.folder / "was-here"
        plan.write_text(f'open({str(trace)!r}, "w")')
        self.assertEqual(self.python(plan), "None")
        self.assertFalse(trace.exists())
        values = {"a": [1, 2.5, None, True, False, 2 ** 64 - 1, "\u00e9\n\"\\"], "b": {}}
        plan.write_text(json.dumps(values))
        self.assertEqual(self.python(plan), str(values))

    def test_one_that_others_can_write_is_not_read(self):
        plan = self.folder / "plan.json"
        plan.write_text("{}")
        plan.chmod(0o666)
        self.assertEqual(self.python(plan), "None")


def group_of_others():
    """A group that has another member than root and this user; None where this user may not give files to one."""
    import grp

    for group in grp.getgrall():
        if ownership._has_others(group.gr_gid, {0, os.geteuid()}) and (
                os.geteuid() == 0 or group.gr_gid in os.getgroups()):
            return group.gr_gid
    return None


class Ownership(Security):
    def spoilt(self, place, file):
        """Ways to let others put something in the place of `file`, which lies below `place`, by name."""
        ways = {
            "a file that all can write": lambda: file.chmod(0o666),
            "a folder that all can write": lambda: file.parent.chmod(0o777),
            "a folder above it that all can write": lambda: place.chmod(0o777),
        }
        group = group_of_others()
        if group is not None:
            ways["a file that a group can write"] = lambda: (os.chown(file, -1, group), file.chmod(0o664))
            ways["a folder that a group can write"] = lambda: (os.chown(place, -1, group), place.chmod(0o775))
        if os.geteuid() == 0:
            ways["a file of another user"] = lambda: os.chown(file, NOBODY, -1)
            ways["a folder of another user"] = lambda: os.chown(place, NOBODY, -1)
            ways["a link of another user"] = lambda: (
                shutil.move(file, self.folder / "elsewhere"), file.symlink_to(self.folder / "elsewhere"),
                os.chown(file, NOBODY, -1, follow_symlinks=False))
            ways["a link to a file of another user"] = lambda: (
                shutil.move(file, self.folder / "elsewhere"), file.symlink_to(self.folder / "elsewhere"),
                os.chown(self.folder / "elsewhere", NOBODY, -1))
        ways["a link to a file that all can write"] = lambda: (
            shutil.move(file, self.folder / "elsewhere"), file.symlink_to("../" * 9 + str(self.folder / "elsewhere")),
            (self.folder / "elsewhere").chmod(0o666))
        ways["a link in a folder that all can write"] = lambda: (
            shutil.move(file, self.folder / "elsewhere"), file.symlink_to(self.folder / "elsewhere"),
            file.parent.chmod(0o1777))
        return ways

    def test_what_is_loaded_into_programs(self):
        self.pretend_torch()
        for part in ("python", "stub", "kit"):
            place = self.folder / "libexec"
            names = {"python": "python/repro_check_hooks/seeds.py", "stub": "librepro_check_stub.so", "kit": "kit/id"}
            for name, spoil in self.spoilt(place, place / names[part]).items():
                with self.subTest(part=part, way=name):
                    place.mkdir()
                    for lent in ("python", "kit"):
                        shutil.copytree(LIBEXEC / lent, place / lent)
                    shutil.copy(LIBEXEC / "librepro_check_stub.so", place)
                    self.env["REPRO_CHECK_LIBEXEC"] = str(place)
                    self.assertEqual(ownership.refusal(place / names[part]), "")
                    if "all can write" in name and "file" in name:
                        self.shown_plan()
                    spoil()
                    self.assertNotEqual(ownership.refusal(place / names[part]), "")
                    done = self.tool("exec", "-o", "A", "--", sys.executable, "-c", "print(1)", code=2)
                    self.assertEqual(done.stdout, "")
                    self.assertIn("not loaded", done.stderr)
                    shutil.rmtree(place)

    def test_a_recorder(self):
        place = self.folder / "bin"
        recorder = place / "repro-check-recorder"
        (self.folder / "config.json").write_text(json.dumps({"model": "model.pt", "inputs": []}))
        (self.folder / "model.pt").touch()
        for name, spoil in self.spoilt(place, recorder).items():
            for named in ({"env": {**self.env, "REPRO_CHECK_RECORDER": str(recorder)}}, {}):
                with self.subTest(way=name, by="variable" if named else "configuration"):
                    place.mkdir()
                    recorder.write_text(f"#!/bin/sh\ntouch {self.folder}/was-run\n")
                    recorder.chmod(0o755)
                    spoil()
                    if not os.access(recorder, os.X_OK):
                        os.chmod(recorder, os.stat(recorder).st_mode | 0o111)
                    flags = [] if named else ["--set", f"/recorder={recorder}"]
                    done = self.tool("record", "-c", "config.json", "--out", "A", *flags, code=2, **named)
                    self.assertIn("not loaded", done.stderr)
                    self.assertFalse((self.folder / "was-run").exists())
                    shutil.rmtree(place)

    def test_an_installation_is_as_safe_as_its_program(self):
        prefix = self.folder / "prefix"
        for part in ("python", "kit"):
            shutil.copytree(LIBEXEC / part, prefix / "libexec" / "repro-check" / part)
        shutil.copy(LIBEXEC / "librepro_check_stub.so", prefix / "libexec" / "repro-check")
        (prefix / "bin").mkdir()
        tool = shutil.copy(TOOL, prefix / "bin")
        prefix.chmod(0o777)
        words = [tool, "exec", "-o", "A", "--", sys.executable, "-S", "-c", "print(1)"]
        self.env["PATH"] = str(self.folder)  # without a compiler
        done = subprocess.run(words, capture_output=True, text=True, cwd=self.folder, env=self.env)
        self.assertNotIn("not loaded", done.stderr)
        (prefix / "libexec").chmod(0o777)
        done = subprocess.run(words, capture_output=True, text=True, cwd=self.folder, env=self.env)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("not loaded", done.stderr)

    def test_folders_with_the_sticky_bit_pass(self):
        place = self.folder / "sticky"
        (place / "own").mkdir(parents=True)
        place.chmod(0o1777)
        (place / "own" / "file").touch()
        self.assertEqual(ownership.refusal(place / "own" / "file"), "")
        self.assertEqual(ownership.refusal(place / "not-there"), "")


class Cache(Security):
    def setUp(self):
        super().setUp()
        self.pretend_torch()
        temporary = self.folder / "temporary"
        temporary.mkdir()
        self.temporary = temporary
        self.env["TMPDIR"] = str(temporary)

    def place(self):
        kit = (LIBEXEC / "kit" / "id").read_text().strip()
        return self.cache / "repro-check" / f"9.9.1-cxx11-{kit}"

    def assert_built_privately(self, why):
        before = sorted(self.cache.rglob("*"))
        (_, _, _, private, names), said = self.shown_plan()
        self.assertIn(why, said)
        self.assertIn("for this run only", said)
        self.assertTrue(private.startswith(str(self.temporary)), private)
        self.assertIn("probe.so", names)
        self.assertEqual(sorted(self.cache.rglob("*")), before)
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_pytorch_is_not_checked(self):
        (self.folder / "packages" / "torch").chmod(0o777)
        self.shown_plan()
        self.assertTrue((self.place() / "probe.so").exists())

    def test_it_is_made_for_its_owner_whatever_the_umask(self):
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        self.shown_plan()
        os.umask(before)
        self.assertEqual(self.shown_plan()[1].count("building"), 0)
        for place in [self.cache, *self.cache.rglob("*")]:
            self.assertFalse(place.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH), place)

    def test_one_that_others_can_write_is_left(self):
        self.place().mkdir(parents=True)
        (self.place() / "probe.so").write_text("planted")
        self.place().chmod(0o777)
        self.assert_built_privately(f"{self.place()}: other users can write to it")

    def test_a_file_in_it_that_others_can_write(self):
        self.shown_plan()
        (self.place() / "probe.so").chmod(0o777)
        self.assert_built_privately(f"{self.place()}/probe.so: other users can write to it")

    def test_a_shared_one_in_which_another_user_was_first(self):
        if os.geteuid() != 0:
            self.skipTest("only root makes files of another user")
        self.cache.mkdir()
        self.cache.chmod(0o1777)
        self.place().mkdir(parents=True)
        (self.place() / "probe.so").write_text("planted")
        for place in (self.place().parent, self.place(), self.place() / "probe.so"):
            os.chown(place, NOBODY, -1)
        self.assert_built_privately(f"{self.place().parent}: belongs to user nobody")


class Links(Security):
    @needs_probe
    def test_the_log_of_a_program_overwrites_nothing(self):
        mine = self.folder / "mine"
        mine.write_text("mine")
        (self.folder / "A.log").symlink_to(mine)
        (self.folder / "config.json").write_text(json.dumps(
            {"program": {"command": [sys.executable, "-c", "print('said')"]}}))
        self.tool("record", "-c", "config.json", "--out", "A", code=4)
        self.assertEqual(mine.read_text(), "mine")
        self.assertEqual((self.folder / "A.log").read_text(), "said\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
