# SPDX-License-Identifier: Apache-2.0
"""The probe of `exec` where none was installed: built against the program's own PyTorch, once, and kept; where it
cannot be, a sentence says why, and nothing half-made is ever used."""
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

from harness import ToolTest, need

need("torch")

INSTALLED = Path(os.environ["REPRO_CHECK"]).resolve().parent.parent / "libexec" / "repro-check"
RECORDS = "import torch; torch.sin(torch.ones(2)); print(torch.__version__)"
PATIENCE = 900


def release_of(python):
    asked = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    return ".".join(asked.stdout.split(".")[:2])


class Probe(ToolTest):
    def setUp(self):
        super().setUp()
        if not (INSTALLED / "probe" / "id").is_file():
            self.skipTest("this build has nothing to build a probe of")
        libexec = self.folder / "libexec"
        libexec.mkdir()
        for part in ("python", "probe"):
            (libexec / part).symlink_to(INSTALLED / part)
        self.cache = self.folder / "cache" / "repro-check"
        self.env = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTHONPATH", "CXX")}
        self.env.update(REPRO_CHECK_LIBEXEC=str(libexec), XDG_CACHE_HOME=str(self.cache.parent))

    def compiler(self, what, macros="#define __GNUC__ 12"):
        """Answers what it is, and does what the test is about in place of compiling."""
        file = self.folder / "compiler"
        file.write_text(f"#!/bin/sh\ncase \"$*\" in *-dM*) echo '{macros}'; exit 0 ;; esac\n{what}\n")
        file.chmod(0o755)
        self.env["CXX"] = str(file)

    def exec(self, *command, code):
        result = self.tool("exec", "-o", "A", "--force", "--", *command, env=self.env, timeout=PATIENCE)
        self.assertEqual(result.code, code, result.stdout[-2000:] + result.stderr[-3000:])
        return result

    def refused(self, *said, command=(sys.executable, "-c", RECORDS)):
        """Before the program starts, with each of these words, and what to do."""
        result = self.exec(*command, code=2)
        self.assertEqual(result.stdout, "")
        for words in said:
            self.assertIn(words, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        self.assertFalse((self.folder / "A").exists())

    def kept(self, pattern):
        return sorted(file.name for file in self.cache.glob(pattern))


class Refused(Probe):
    def test_no_compiler(self):
        self.env["PATH"] = str(self.folder)
        self.refused("no C++ compiler", "g++", "CXX")
        script = self.folder / "script"
        script.write_text(f"#!{sys.executable}\nimport torch\n")
        script.chmod(0o755)
        self.refused("no C++ compiler", command=[script])
        self.refused("no C++ compiler", command=["script"])

    def test_a_program_without_torch_needs_no_compiler(self):
        self.env["PATH"] = str(self.folder)
        result = self.exec(sys.executable, "-S", "-c", "print(1)", code=2)
        self.assertIn("no C++ compiler", result.stderr)  # its interpreter has one
        bare = self.folder / "bare"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
        result = self.exec(bare / "bin" / "python", "-c", "print(1)", code=4)
        self.assertEqual(result.stdout, "1\n")
        self.assertIn("nothing was recorded", result.stderr)

    def test_where_the_interpreter_cannot_be_told_the_program_runs_unharmed(self):
        self.compiler("exit 1")
        result = self.exec("sh", "-c", f'"{sys.executable}" -c "{RECORDS}"', code=4)
        self.assertRegex(result.stdout, r"^\d+\.\d+")
        self.assertIn("could not be built", result.stderr)
        self.assertIn("nothing was recorded", result.stderr)

    def test_a_compiler_too_old(self):
        for macros, name in (("#define __GNUC__ 9", "GCC 9"), ("#define __clang_major__ 11", "Clang 11"),
                             ("", "no compiler of C++20")):
            with self.subTest(name):
                self.compiler("exit 1", macros)
                self.refused(name, "install GCC", "CXX")

    def test_a_torch_without_headers(self):
        import torch
        fake = self.folder / "fake" / "torch"
        (fake / "lib").mkdir(parents=True)
        real = Path(torch.__file__).parent / "lib" / "libc10.so"
        (fake / "lib" / "libc10.so").symlink_to(real.resolve())
        (fake / "__init__.py").write_text("__version__ = '9.9.1'\n")
        (fake / "version.py").write_text("__version__ = '9.9.1'\n")
        self.env["PYTHONPATH"] = str(fake.parent)
        self.refused("9.9.1", "no headers", "install them")

    def test_a_cache_that_cannot_be_written(self):
        self.compiler("exit 1")
        self.cache.parent.write_text("a file is in the way")
        self.refused("cannot be kept in", str(self.cache), "XDG_CACHE_HOME")
        self.cache.parent.unlink()
        if os.geteuid() != 0:
            self.cache.parent.mkdir(mode=0o500)
            self.refused("cannot be kept in", "XDG_CACHE_HOME")

    def test_a_compiler_that_fails_or_is_killed(self):
        for what, how in (("echo boom: no such type; exit 3", "ended with 3"), ("kill -9 $$", "signal 9")):
            with self.subTest(what):
                self.compiler(what)
                self.refused("could not be built", how, "what it said is in", "building the probe for PyTorch")
                self.assertEqual(self.kept("*.so"), [])
                self.assertEqual(self.kept("*.building-*"), [])
                log = (self.cache / self.kept("*.log")[0]).read_text()
                self.assertIn("boom" if "boom" in what else "-std=c++20", log)

    def test_a_build_that_is_killed_leaves_nothing_that_is_used(self):
        # Dies with the process that started it when half of the library is there.
        self.compiler('case "$*" in *-shared*) ;; *) exit 0 ;; esac\n'
                      'while [ "$1" != -o ]; do shift; done\necho half > "$2"\nkill -9 $PPID')
        self.exec(sys.executable, "-c", "raise SystemExit(0)", code=4)  # the asking died, not the program
        self.assertEqual(self.kept("*.so"), [])
        self.assertEqual(len(self.kept("*.building-*")), 1)
        self.compiler("exit 1")
        self.refused("could not be built")
        self.assertEqual(self.kept("*.building-*"), [])


class Asked(ToolTest):
    def test_an_interpreter_once_a_command(self):
        starts, python = self.folder / "starts", self.folder / "python3"
        python.write_text(f'#!/bin/sh\necho >> "{starts}"\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        self.run_config(0, program={"command": [str(python), "-c", RECORDS]})
        self.assertEqual(len(starts.read_text()), 1 + 2)


class Built(Probe):
    def test_once_by_two_at_once(self):
        command = [os.environ["REPRO_CHECK"], "exec", "-o"]
        both = [subprocess.Popen([*command, name, "--", sys.executable, "-c", RECORDS], env=self.env, text=True,
                                 cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for name in "AB"]
        said = [process.communicate(timeout=PATIENCE) for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], said)
        together = said[0][1] + said[1][1]
        self.assertEqual(together.count("building the probe for PyTorch"), 1)
        self.assertRegex(together, r"once: about \d+ s \.\.\. done after \d+ s\n")
        self.assertEqual(len(self.kept("*.so")), 1)
        self.assertEqual(self.kept("*.building-*"), [])
        # The second time without a compiler, and without a word.
        self.env["PATH"] = str(self.folder)
        again = self.exec(sys.executable, "-c", RECORDS, code=0)
        self.assertNotIn("building", again.stderr)
        self.assertEqual(self.tool("diff", "A", "B").code, 0)

    def test_for_another_release_with_its_modules_and_steps(self):
        ours = release_of(sys.executable)
        places = ["/usr/bin/python3", Path(__file__).resolve().parents[2] / ".venv" / "bin" / "python3"]
        other = next((p for p in places if os.path.exists(p) and release_of(p) not in ("", ours)), None)
        if other is None:
            self.skipTest("there is no second Python with another PyTorch")
        file = self.folder / "train.py"
        file.write_text(
            "import torch\n"
            "model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))\n"
            "optimizer = torch.optim.AdamW(model.parameters())\n"
            "for _ in range(3):\n"
            "    optimizer.zero_grad()\n"
            "    loss = model(torch.ones(3, 4)).sum()\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "print(torch.__version__, loss.item())\n")
        # With what this build has installed, which is of the other one alone.
        self.env["REPRO_CHECK_LIBEXEC"] = str(INSTALLED)
        result = self.exec(other, file, code=0)
        self.assertTrue(result.stdout.startswith(release_of(other)), result.stdout)
        self.assertNotIn("not all of it was seen", result.stderr)
        records = json.loads(self.tool("inspect", "A", "--list", "--format", "json").stdout)["ops"]
        self.assertEqual({r["phase"] for r in records}, {"setup", "forward", "loss", "backward", "optimizer"})
        self.assertLessEqual({"0", "2"}, {r["module"] for r in records if r["phase"] == "forward"})
        if tuple(map(int, release_of(other).split("."))) >= (2, 1):
            self.assertLessEqual({"0", "2"}, {r["module"] for r in records if r["phase"] == "backward"})
        steps = [r["step"] for r in records if r["operator"] == "repro_check::optimizer_step"]
        self.assertEqual(steps, [0, 1, 2])


if __name__ == "__main__":
    unittest.main(verbosity=2)
