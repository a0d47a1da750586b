#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The installed tree works away from the build: `installed_tree.py CMAKE BUILD SOURCE WITH_TORCH`.
It is installed, moved, and then asked for its versions and, with a recorder, for the example."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FILES = ["bin/repro-check", "share/repro-check/repro-check-config.schema.json",
         "share/repro-check/presets/bitwise.json", "share/man/man1/repro-check.1",
         "share/man/man1/repro-check-diff.1", "share/bash-completion/completions/repro-check",
         "share/zsh/site-functions/_repro-check",
         "share/fish/vendor_completions.d/repro-check.fish",
         "libexec/repro-check/python/sitecustomize.py", "libexec/repro-check/frameworks/record_onnx.py",
         "libexec/repro-check/python/repro_check_hooks/calls.so", "libexec/repro-check/kit/id",
         "libexec/repro-check/kit/lib/librepro_check_core.a",
         "libexec/repro-check/kit/dumpers/probe/probe.cpp"]


def call(folder: Path, *arguments: str):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("REPRO_CHECK_")}
    return subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True)


def problems(folder: Path, cmake: str, build: str, source: Path, with_torch: bool):
    first, tree = folder / "first", folder / "moved"
    installed = call(folder, cmake, "--install", build, "--prefix", str(first))
    if installed.returncode != 0:
        yield f"cmake --install: {installed.stderr}"
        return
    shutil.move(first, tree)
    yield from (f"{name} is not installed" for name in FILES if not (tree / name).is_file())
    tool = str(tree / "bin" / "repro-check")
    version = call(folder, tool, "--version")
    if version.returncode != 0 or not version.stdout.startswith("repro-check "):
        yield f"--version: {version}"
    documentation = call(folder, tool, "--help").stdout.splitlines()[-1].removeprefix("Documentation: ")
    if documentation != str(tree / "share/doc/repro-check/docs") or not Path(documentation, "CLI.md").is_file():
        yield f"--help names {documentation} for the documentation"
    if not with_torch:
        return
    if "libexec" not in version.stdout or "unknown" in version.stdout:
        yield f"the recorder of the tree does not answer: {version.stdout}"
    run = call(folder, tool, "run", "-c", str(source / "config.example.json"), "--out",
               str(folder / "out"), "--set", "/determinism=error", "-q")
    if run.returncode != 0 or not run.stdout.startswith("REPRODUCIBLE"):
        yield f"run: {run}"


def main() -> int:
    cmake, build, source, with_torch = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        found = list(problems(Path(folder), cmake, build, Path(source), with_torch == "1"))
    print("\n".join(found) or "the installed tree works")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
