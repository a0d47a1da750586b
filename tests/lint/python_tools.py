#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ruff and mypy have nothing to say of the Python that users get, by the rules of pyproject.toml, and each sees a
breach that is planted: `python_tools.py ROOT CACHE`. Without them it ends with the code that ctest counts as skipped."""
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
FOLDERS = ("dumpers/python", "python/repro_check")
# What the checked code takes types of.
NEEDED = ("ruff", "mypy", "numpy", "pytest")
# Name and text of a file, and what is said of it.
BREACHES = {
    "ruff": ("unused.py", "import os\n", "F401"),
    "mypy": ("untyped.py", "def add(one: int) -> str:\n    return one\n", "Incompatible return value"),
}


def commands(root: Path, cache: str, paths):
    """By tool: its command for these paths."""
    rules = root / "pyproject.toml"
    return {
        "ruff": [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", rules, "--output-format", "concise", *paths],
        "mypy": [sys.executable, "-m", "mypy", "--config-file", rules, "--cache-dir", cache, *paths],
    }


def run(command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


def main() -> int:
    root, cache = Path(sys.argv[1]), sys.argv[2]
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: no {', '.join(missing)}; scripts/setup --lint --tests installs them")
        return SKIPPED
    failed = 0
    for tool, command in commands(root, cache, [root / folder for folder in FOLDERS]).items():
        code, said = run(command)
        print(f"{tool}: {said}")
        failed += code != 0
    for tool, (name, text, expected) in BREACHES.items():
        with tempfile.TemporaryDirectory() as scratch:
            (Path(scratch) / name).write_text(text)
            code, said = run(commands(root, cache, [Path(scratch) / name])[tool])
        print(f"{'seen  ' if expected in said else 'UNSEEN'} {tool}: {expected}")
        failed += code == 0 or expected not in said
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
