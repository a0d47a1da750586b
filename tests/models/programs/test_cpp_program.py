# SPDX-License-Identifier: Apache-2.0
"""`exec` of a C++ program that links LibTorch, and what is preloaded for it: by the same engine as Python programs,
and harmless to whatever the program starts."""
import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from harness import ToolTest

PROGRAM = os.environ["LIBTORCH_PROGRAM"]
LIBEXEC = Path(os.environ["REPRO_CHECK"]).resolve().parent.parent / "libexec" / "repro-check"
STUB = LIBEXEC / "librepro_check_stub.so"
CLEAN = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTHONPATH", "CXX")}


class CppProgram(ToolTest):
    def exec(self, dump, *arguments, code=0, flags=(), program=(PROGRAM,), env=CLEAN):
        result = self.tool("exec", "-o", dump, *flags, "--", *program, *arguments, env=env)
        self.assertEqual(result.code, code, result.stdout[-2000:] + result.stderr[-3000:])
        return result

    def records(self, dump):
        listed = self.tool("inspect", dump, "--list", "--format", "json")
        self.assertEqual(listed.code, 0, listed.stderr)
        return json.loads(listed.stdout)["ops"]

    def test_operators_and_phases(self):
        bare = subprocess.run([PROGRAM, "1"], env=CLEAN, check=True, capture_output=True, text=True)
        result = self.exec("A", "1")
        self.assertEqual(result.stdout, bare.stdout)
        self.assertIn("modules, steps and names of parameters", result.stderr)
        records = self.records("A")
        manifest = json.loads((self.folder / "A" / "manifest.json").read_text(encoding="utf-8"))
        libtorch = next(fact["value"] for fact in manifest["environment"] if fact["name"] == "libtorch.version")
        phases = {r["phase"] for r in records}
        if tuple(map(int, libtorch.split(".")[:2])) < (2, 1):  # these do not say where a backward pass stands
            self.assertEqual(phases, {"forward"})
            return
        self.assertEqual(phases, {"forward", "backward"})
        forward = [r["operator"] for r in records if r["phase"] == "forward"]
        backward = [r["operator"] for r in records if r["phase"] == "backward"]
        self.assertEqual(forward.count("aten::mm"), 2 * 3)
        self.assertEqual(forward.count("aten::sub_.Tensor"), 2 * 3)
        # Of the first product only its weight has a gradient.
        self.assertEqual(backward.count("aten::mm"), 3 * 3)
        self.assertEqual(backward.count("aten::threshold_backward"), 3)
        self.assertEqual({r["module"] for r in records}, {""})
        self.assertEqual(self.tool("verify", "A").code, 0)

    def test_runs_agree_and_a_difference_is_named(self):
        for dump, scale in (("A", "1"), ("B", "1"), ("C", "1.5")):
            self.exec(dump, scale)
        same = self.tool("diff", "A", "B", "--format", "json")
        self.assertEqual(same.code, 0, same.stdout[:2000])
        self.assert_reproducible(json.loads(same.stdout), 50)
        other = self.tool("diff", "A", "C", "--format", "json")
        self.assertEqual(other.code, 1, other.stdout[:2000])
        report = json.loads(other.stdout)
        self.assertEqual(report["first_divergence"]["key"]["operator"], "aten::mul.Scalar")
        self.assertIn("modules, steps and names of parameters are not known", json.dumps(report["warnings"]))

    def test_settings_from_outside(self):
        show = self.exec("A", "1", flags=["--determinism", "error"])
        self.assertEqual(show.stdout, self.exec("B", "1").stdout)
        settings = {s["name"]: s["used"] for s in json.loads((self.folder / "A" / "manifest.json").read_text())["settings"]}
        self.assertEqual(settings["deterministic_algorithms"], "error")

    def test_how_it_ends(self):
        self.exec("A", "1", "fail", code=7)
        self.exec("B", "1", "leave", code=6)  # without exit handlers
        for dump in "AB":
            self.assertEqual(self.tool("verify", dump).code, 0)
        # In a handler nothing may be allocated: it is as if the program had been killed.
        killed = self.exec("C", "1", "handler", code=6)
        self.assertIn("did not end by itself", killed.stderr)
        self.assertEqual(len(self.records("C")), len(self.records("B")))
        again = self.exec("B", "1", code=2)
        self.assertIn("--force", again.stderr)

    def test_threads_and_children(self):
        for dump in "AB":
            result = self.exec(dump, "1", "fork", "thread", "child")
            self.assertEqual(result.stdout.splitlines()[1:], ["child"])
        self.assertEqual([r["operator"] for r in self.records("A")][-2:], ["aten::ones", "aten::cos"])
        # The child that C++ forked computed something, and no one saw what.
        compared = self.tool("diff", "A", "B")
        self.assertEqual(compared.code, 4, compared.stdout)
        self.assertIn("used PyTorch and was not recorded", compared.stdout)

    def test_behind_a_shell_it_runs_unrecorded(self):
        result = self.exec("A", "-c", f'"{PROGRAM}" 1', program=("sh",), code=4)
        self.assertIn("nothing was recorded", result.stderr)

    def test_without_a_probe_it_is_not_started(self):
        libexec = self.folder / "libexec"
        libexec.mkdir()
        for part in ("python", "kit", STUB.name):
            (libexec / part).symlink_to(LIBEXEC / part)
        place = self.folder / "bin"
        place.mkdir()
        (place / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (place / "python3").chmod(0o755)
        result = self.exec("A", "1", code=2, env={**CLEAN, "PATH": str(place), "REPRO_CHECK_LIBEXEC": str(libexec),
                                                  "XDG_CACHE_HOME": str(self.folder / "cache")})
        self.assertEqual(result.stdout, "")
        self.assertIn("no C++ compiler", result.stderr)

    def test_the_libtorch_of_a_distribution_in_a_linked_folder(self):
        places = self.folder / "usr" / "lib" / "x86_64-linux-gnu"
        header = self.folder / "usr" / "include" / "torch" / "csrc" / "api" / "include" / "torch" / "version.h"
        for folder in (places, header.parent):
            folder.mkdir(parents=True)
        for name in ("libtorch_cpu.so", "libc10.so"):
            (places / name).touch()
        header.write_text("".join(f"#define TORCH_VERSION_{part} {number}\n"
                                  for part, number in (("MAJOR", 1), ("MINOR", 13), ("PATCH", 1))))
        (self.folder / "lib").symlink_to("usr/lib")
        sys.path.insert(0, str(LIBEXEC / "python"))
        self.addCleanup(sys.path.remove, str(LIBEXEC / "python"))
        from repro_check_hooks.kit import torch_of

        torch = torch_of(str(self.folder / "lib" / places.name / "libtorch_cpu.so"))
        self.assertEqual((torch.version, torch.release), ("1.13.1", "1.13"))
        self.assertEqual(Path(torch.library).resolve(), (places / "libc10.so").resolve())


class Preloaded(unittest.TestCase):
    """Into everything that such a program starts."""

    def run_with(self, command, **more):
        env = {**CLEAN, **more}
        ended = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace")
        return ended.returncode, ended.stdout, ended.stderr

    def test_it_is_small_and_needs_libc_alone(self):
        self.assertLess(STUB.stat().st_size, 20_000)
        if shutil.which("readelf"):
            shown = subprocess.run(["readelf", "-d", STUB], capture_output=True, text=True, check=True).stdout
            needed = [line for line in shown.splitlines() if "(NEEDED)" in line]
            self.assertEqual(len(needed), 1, needed)
            self.assertIn("libc.so", needed[0])

    def test_it_changes_nothing(self):
        python = [sys.executable, "-c", "import os, threading; t = threading.Thread(target=print, args=('in',));"
                  "t.start(); t.join(); os._exit(5)"]
        for command in (["true"], ["bash", "-c", "echo $((6 * 7)); exit 3"], ["git", "--version"], python):
            with self.subTest(command[0]):
                self.assertEqual(self.run_with(command, LD_PRELOAD=str(STUB), REPRO_CHECK_EXEC="/nowhere/plan.json"),
                                 self.run_with(command))

    def test_it_loads_itself_alone(self):
        def mapped(**more):
            lines = self.run_with(["cat", "/proc/self/maps"], **more)[1].splitlines()
            return {line.split()[-1] for line in lines if ".so" in line}

        self.assertEqual(mapped(LD_PRELOAD=str(STUB)) - mapped(), {str(STUB)})


if __name__ == "__main__":
    unittest.main(verbosity=2)
