# SPDX-License-Identifier: Apache-2.0
"""Probe and recorder where none was installed: built against the PyTorch that is there, once, and kept; where they
cannot be, a sentence says why, and nothing half-made is ever used."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from harness import ToolTest, need

need("torch")

ROOT = Path(__file__).resolve().parents[3]
INSTALLED = Path(os.environ["REPRO_CHECK"]).resolve().parent.parent / "libexec" / "repro-check"
MODEL = ROOT / "examples" / "transformer.json"
RECORDS = "import torch; torch.sin(torch.ones(2)); print(torch.__version__)"
PATIENCE = 900


def release_of(python):
    asked = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    return ".".join(asked.stdout.split(".")[:2])


class FirstUse(ToolTest):
    def setUp(self):
        super().setUp()
        libexec = self.folder / "libexec"
        libexec.mkdir()
        for part in ("python", "kit"):
            (libexec / part).symlink_to(INSTALLED / part)
        (self.folder / "bin").mkdir()  # without a recorder beside it
        self.binary = shutil.copy(self.binary, self.folder / "bin")
        self.cache = self.folder / "cache" / "repro-check"
        self.env = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTHONPATH", "CXX")}
        # The interpreter of this test, wherever it is, and no other with a PyTorch of its own.
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        self.env.update(REPRO_CHECK_LIBEXEC=str(libexec), XDG_CACHE_HOME=str(self.cache.parent),
                        VIRTUAL_ENV=sys.prefix, PATH=path)

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

    def run_model(self, *flags, code, config=MODEL):
        result = self.tool("run", "-c", config, "--out", "out", "--force", *flags, env=self.env, timeout=PATIENCE)
        self.assertEqual(result.code, code, result.stdout[-2000:] + result.stderr[-3000:])
        return result

    def refused(self, *said, command=(sys.executable, "-c", RECORDS), program_alone=False):
        """Before the program starts, and before a model is loaded, with each of these words, and what to do."""
        results = [("probe", self.exec(*command, code=2))]
        if not program_alone:
            results.append(("recorder", self.run_model(code=2)))
        for product, result in results:
            self.assertEqual(result.stdout, "")
            for words in (product, *said):
                self.assertIn(words, result.stderr)
            self.assertNotIn("Traceback", result.stderr)
        self.assertFalse((self.folder / "A").exists() or (self.folder / "out").exists())

    def lay_out(self, name, version, headers, libraries):
        """A PyTorch that Python finds, of parts that are elsewhere."""
        torch = self.folder / name / "torch"
        for part in ("lib", "include"):
            (torch / part).mkdir(parents=True)
        for library in ("libc10.so", "libtorch.so", "libtorch_cpu.so", "libgomp.so.1"):
            if (libraries / library).exists():
                (torch / "lib" / library).symlink_to(libraries / library)
        for folder in headers.iterdir():
            if folder.name in ("ATen", "c10", "caffe2", "torch", "fmt"):
                (torch / "include" / folder.name).symlink_to(folder)
        (torch / "__init__.py").touch()
        (torch / "version.py").write_text(f"__version__ = '{version}'\n")
        self.env["PYTHONPATH"] = str(torch.parent)

    def kept(self, pattern):
        return sorted(file.name for file in self.cache.glob("*/" + pattern))

    def products(self):
        return self.kept("probe.so") + self.kept("repro-check-recorder-*")


class Refused(FirstUse):
    def test_no_compiler(self):
        self.env["PATH"] = str(self.folder)
        self.refused("no C++ compiler", "g++", "CXX")
        script = self.folder / "script"
        script.write_text(f"#!{sys.executable}\nimport torch\n")
        script.chmod(0o755)
        self.refused("no C++ compiler", command=[script], program_alone=True)
        self.refused("no C++ compiler", command=["script"], program_alone=True)

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

    def test_a_torch_of_the_old_abi(self):
        fake = self.folder / "fake" / "torch"
        (fake / "lib").mkdir(parents=True)
        (fake / "lib" / "libc10.so").write_bytes(b"\0_ZN3c1010ThrowErrorERKSs\0")
        (fake / "__init__.py").write_text("__version__ = '2.4.1'\n")
        (fake / "version.py").write_text("__version__ = '2.4.1'\n")
        self.env["PYTHONPATH"] = str(fake.parent)
        self.refused("2.4.1", "old C++ ABI", "2.7")

    def test_no_torch_at_all(self):
        bare = self.folder / "bare"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
        self.env.update(VIRTUAL_ENV=str(bare), PATH=str(bare / "bin"))
        result = self.run_model(code=2)
        self.assertIn(f"no PyTorch to build one for: tried {bare}/bin/python3, python3\n", result.stderr)
        self.assertIn("install PyTorch", result.stderr)
        self.assertFalse(self.cache.exists())

    def test_whose_torch(self):
        """That of the environment that the program is in, of the active one, of PATH; the first that has one."""
        def environment(name, version):
            place = self.folder / name
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
            if version:
                fake = next(place.glob("lib/python*/site-packages")) / "torch"
                (fake / "lib").mkdir(parents=True)
                (fake / "lib" / "libc10.so").write_bytes(b"\0_ZN3c103StrENSt7__cxx11E\0")
                (fake / "__init__.py").touch()
                (fake / "version.py").write_text(f"__version__ = '{version}'\n")
            return place

        own, active, path = environment("own", "9.1.0"), environment("active", "9.2.0"), environment("path", "9.3.0")
        self.env.update(VIRTUAL_ENV=str(active), PATH=str(path / "bin"))
        self.assertIn("PyTorch 9.2.0", self.run_model(code=2).stderr)
        self.binary = shutil.copy(self.binary, own / "bin")
        self.assertIn("PyTorch 9.1.0", self.run_model(code=2).stderr)
        self.binary = shutil.copy(self.binary, environment("without", None) / "bin")
        self.assertIn("PyTorch 9.2.0", self.run_model(code=2).stderr)
        del self.env["VIRTUAL_ENV"]
        self.assertIn("PyTorch 9.3.0", self.run_model(code=2).stderr)

    def test_a_cache_that_cannot_be_written(self):
        self.compiler("exit 1")
        self.cache.parent.write_text("a file is in the way")
        self.refused("cannot be kept in", str(self.cache), "XDG_CACHE_HOME")
        self.cache.parent.unlink()

    def test_a_home_that_can_only_be_read(self):
        home = self.folder / "home"
        home.mkdir()
        del self.env["XDG_CACHE_HOME"]
        self.env["HOME"] = str(home)
        self.compiler("exit 1")
        words = "cannot be kept in", str(home / ".cache"), "XDG_CACHE_HOME"
        if os.geteuid() != 0:
            home.chmod(0o500)
            self.addCleanup(home.chmod, 0o700)
            self.refused(*words)
            return
        # Root may write anywhere but where nothing can be.
        mount = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro none "$0" && exec "$@"', str(home)]
        tried = subprocess.run([*mount, "true"], capture_output=True, text=True) if shutil.which("unshare") else None
        if tried is None or tried.returncode != 0:
            self.skipTest("root may not mount here, and nothing else keeps it from writing")
        script = self.folder / "bin" / "inside"
        script.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in [*mount, self.binary]) + ' "$@"\n')
        script.chmod(0o755)
        self.binary = script
        self.refused(*words)

    def test_a_compiler_that_fails_or_is_killed(self):
        for what, how in (("echo boom: no such type; exit 3", "ended with 3"), ("kill -9 $$", "signal 9")):
            with self.subTest(what):
                self.compiler(what)
                self.refused("could not be built", how, "its output is in", "for PyTorch")
                self.assertEqual(self.products() + self.kept("*.o") + self.kept("building-*"), [])
                for log in self.cache.glob("*/*.log"):
                    self.assertIn("boom" if "boom" in what else "-std=c++20", log.read_text())

    def test_a_build_that_is_killed_leaves_nothing_that_is_used(self):
        # Dies with the process that started it when half of the library is there.
        self.compiler('case "$*" in *" -c "*) ;; *) half=1 ;; esac\n'
                      'while [ "$1" != -o ]; do shift; done\necho half > "$2"\n[ -z "$half" ] || kill -9 $PPID')
        self.exec(sys.executable, "-c", "raise SystemExit(0)", code=4)  # the asking died, not the program
        self.assertIn("there is no recorder", self.run_model(code=2).stderr)
        self.assertEqual(self.products(), [])
        self.assertTrue(self.kept("building-*"))
        self.compiler("exit 1")
        self.refused("could not be built")
        self.assertEqual(self.kept("building-*"), [])

    def test_an_interrupted_build_ends_with_its_compilers(self):
        started = self.folder / "started"
        self.compiler(f'echo $$ >> "{started}"; exec sleep 600')
        running = subprocess.Popen([self.binary, "run", "-c", MODEL, "--out", "out"], env=self.env, text=True,
                                   cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        until = time.monotonic() + 60
        while not started.exists() and time.monotonic() < until:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[1]
        self.assertEqual(running.returncode, 130, said)
        for process in started.read_text().split():
            self.assertFalse(Path("/proc", process, "cmdline").exists()
                             and b"sleep" in Path("/proc", process, "cmdline").read_bytes())
        self.assertEqual(self.products(), [])
        self.compiler("exit 1")
        self.refused("could not be built")
        self.assertEqual(self.kept("building-*"), [])


class Asked(ToolTest):
    def test_an_interpreter_once_a_command(self):
        starts, python = self.folder / "starts", self.folder / "python3"
        python.write_text(f'#!/bin/sh\necho >> "{starts}"\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        self.run_config(0, program={"command": [str(python), "-c", RECORDS]}, dump={"depth": "top"})
        self.assertEqual(len(starts.read_text()), 1 + 2)


class Built(FirstUse):
    def test_once_by_two_at_once(self):
        program = ["exec", "-o"], ["--", sys.executable, "-c", RECORDS]
        model = ["run", "-c", MODEL, "--out"], []
        words = [[*begin, name, *end] for name, (begin, end) in zip("ABCD", (program, program, model, model))]
        all_of_them = [subprocess.Popen([self.binary, *command], env=self.env, text=True, cwd=self.folder,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE) for command in words]
        said = [process.communicate(timeout=PATIENCE) for process in all_of_them]
        self.assertEqual([process.returncode for process in all_of_them], [0, 0, 0, 0], said)
        together = "".join(errors for _, errors in said)
        for product in ("probe", "recorder"):
            self.assertEqual(together.count(f"building the {product} for PyTorch"), 1)
        self.assertRegex(together, r"once: 0 of (\d) units, 0 s \.\.\.( \d of \1 units, \d+ s \.\.\.)* \1 of \1 units, \d+ s \.\.\. "
                                   r"done after \d+ s\n")
        self.assertIn("waiting for another process that builds for PyTorch", together)
        self.assertEqual(len(self.products()), 2)
        self.assertEqual(self.kept("building-*"), [])
        self.assertEqual([name.split("-")[0] for name in self.kept("*.o")], ["engine", "probe", "recorder"])
        # Libraries of others are not made for a shared one: a newer linker refuses them there, used or not.
        linked = re.findall(r"/kit/lib/(\w+)\.a", next(self.cache.glob("*/probe.log")).read_text())
        self.assertEqual(sorted(linked), [f"librepro_check_{name}" for name in ("core", "journal")])
        # The second time without a compiler, and without a word; by what was built with the tree, the same.
        self.env["PATH"] = str(self.folder)
        again = self.exec(sys.executable, "-c", RECORDS, code=0)
        self.assertNotIn("building", again.stderr)
        self.assertEqual(self.tool("diff", "A", "B").code, 0)
        said = self.run_model(code=0)
        self.assertNotIn("building", said.stderr)
        self.binary = os.environ["REPRO_CHECK"]
        built = self.run_model(code=0)
        self.assertEqual(said.stdout, built.stdout)
        self.binary = self.folder / "bin" / "repro-check"
        self.assertIn(self.kept("repro-check-recorder-*")[0], self.tool("--version", env=self.env).stdout)
        self.assertRegex(self.tool("env", env=self.env).stdout, r"\nbuilt\.\S+ +probe and recorder, \S+ MB: ")
        for folder in ("C", "D"):
            self.assertEqual(self.tool("diff", f"{folder}/baseline", "out/baseline").code, 0)

    def test_another_environment_with_the_same_torch(self):
        """Compiles nothing again, and the first environment may go."""
        self.compiler('echo "$@" >> "$0.said"; exec c++ "$@"')
        import torch
        real, version = Path(torch.__file__).parent, torch.__version__
        for name in ("first", "second"):
            self.lay_out(name, version, real / "include", real / "lib")
            # It lies where its libc10 does.
            place = self.folder / name / "torch" / "lib" / "libc10.so"
            place.unlink()
            shutil.copy(real / "lib" / "libc10.so", place)
            self.run_model(code=0)
            shutil.rmtree(self.folder / name)
        compiled = [line for line in (self.folder / "compiler.said").read_text().splitlines() if " -c " in line]
        self.assertEqual(len(compiled), 2)
        self.assertEqual(len(self.kept("repro-check-recorder-*")), 2)

    def test_the_libtorch_of_the_distribution(self):
        places = list(Path("/usr/lib").glob("*/libtorch_cpu.so"))
        header = Path("/usr/include/torch/csrc/api/include/torch/version.h")
        if not places or not header.exists():
            self.skipTest("the distribution's LibTorch is not installed")
        version = ".".join(re.search(rf"TORCH_VERSION_{part} (\d+)", header.read_text())[1]
                           for part in ("MAJOR", "MINOR", "PATCH"))
        self.lay_out("debian", version, Path("/usr/include"), places[0].parent)
        said = self.run_model("--set", "/dump/level=tensor", code=0)
        self.assertIn(f"building the recorder for PyTorch {version}, once", said.stderr)
        self.assertTrue(said.stdout.startswith("REPRODUCIBLE"), said.stdout)
        self.assertIn(f"LibTorch {version} (", self.tool("--version", env=self.env).stdout)
        replayed = self.tool("replay", "out/baseline", "--op", "3", env=self.env)
        self.assertEqual(replayed.code, 0, replayed.stdout + replayed.stderr)

    def test_for_another_release_with_its_modules_and_steps(self):
        ours = release_of(sys.executable)
        places = ["/usr/bin/python3", Path(__file__).resolve().parents[3] / ".venv" / "bin" / "python3"]
        other = next((p for p in places if os.path.exists(p) and release_of(p) not in ("", ours)), None)
        if other is None:
            self.skipTest("there is no second Python with another PyTorch")
        file = self.folder / "train.py"
        file.write_text(
            "import torch\n"
            "model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))\n"
            "optimizer = torch.optim.AdamW(model.parameters())\n"
            "for batch in torch.utils.data.DataLoader(torch.ones(9, 4), batch_size=3, num_workers=1):\n"
            "    optimizer.zero_grad()\n"
            "    loss = model(batch).sum()\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "print(torch.__version__, loss.item())\n")
        # With what this build has installed, which is of the other one alone.
        self.env["REPRO_CHECK_LIBEXEC"] = str(INSTALLED)
        result = self.exec(other, file, code=0)
        self.assertTrue(result.stdout.startswith(release_of(other)), result.stdout)
        self.assertNotIn("not everything was recorded", result.stderr)
        records = json.loads(self.tool("inspect", "A", "--list", "--format", "json").stdout)["ops"]
        self.assertEqual({r["phase"] for r in records}, {"setup", "data", "forward", "loss", "backward", "optimizer"})
        # How often a batch was waited for, which is received by this, makes no difference.
        received = [r for r in records if r["phase"] == "data" and r["operator"].startswith("aten::set_")]
        self.assertEqual(received, [])
        self.assertLessEqual({"0", "2"}, {r["module"] for r in records if r["phase"] == "forward"})
        if tuple(map(int, release_of(other).split("."))) >= (2, 1):
            self.assertLessEqual({"0", "2"}, {r["module"] for r in records if r["phase"] == "backward"})
        steps = [r["step"] for r in records if r["operator"] == "repro_check::optimizer_step"]
        self.assertEqual(steps, [0, 1, 2])


if __name__ == "__main__":
    unittest.main(verbosity=2)
