# SPDX-License-Identifier: Apache-2.0
"""`pip install .` in a checkout, in a new virtual environment and offline: the Python side, and the command that finds
what is built there."""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORD = """
import torch, repro_check
with repro_check.record("A"):
    torch.sin(torch.ones(2))
assert "aten::sin" in {operator.full_name for operator in repro_check.open("A")}
assert repro_check.compare(lambda: torch.ones(3).sum()).reproducible
"""


@pytest.fixture
def environment(tmp_path):
    """A new virtual environment that borrows the packages of this Python, in place of an index."""
    for needed in ("pip", "ensurepip", "setuptools", "wheel"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"this Python lacks {needed}")
    place = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    own = next(place.glob("lib/python*/site-packages"))
    (own / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place


@pytest.fixture
def call(environment, tmp_path):
    clean = {k: v for k, v in os.environ.items() if k not in ("REPRO_CHECK", "PYTHONPATH")}

    def run(program, *arguments, path=f"{environment / 'bin'}:/usr/bin:/bin"):
        return subprocess.run([environment / "bin" / program, *arguments], cwd=tmp_path, capture_output=True, text=True,
                              env={**clean, "PATH": path})

    return run


def test_the_checkouts_tool_is_found(call, tmp_path):
    checkout = tmp_path / "a checkout"
    shutil.copytree(ROOT / "python", checkout / "python", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "cmake" / "package", checkout / "cmake" / "package")
    shutil.copy(ROOT / "pyproject.toml", checkout)
    installed = call("python", "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-index", "--no-deps",
                     "--no-build-isolation", str(checkout))
    assert installed.returncode == 0, installed.stderr

    early = call("repro-check", "--version")
    assert early.returncode == 2 and early.stdout == ""
    assert f"is not built in {checkout}" in early.stderr and "cmake --build" in early.stderr
    refused = call("python", "-c", "import repro_check.tool; repro_check.tool.find_tool()")
    assert "ToolError" in refused.stderr and "cmake --build" in refused.stderr

    # As a build leaves it.
    tool = pathlib.Path(os.environ["REPRO_CHECK"])
    (checkout / "build").mkdir(exist_ok=True)
    (checkout / "build" / "release").symlink_to(tool.parent.parent)
    version = call("repro-check", "--version")
    assert version.returncode == 0 and version.stdout.startswith("repro-check "), version.stderr
    assert call("repro-check", "diff", "gone", "gone").returncode == 2
    found = call("python", "-c", "import repro_check.tool; print(repro_check.tool.find_tool())")
    assert found.stdout.strip() == str(checkout / "build/release/bin/repro-check"), found.stderr

    if importlib.util.find_spec("torch") is None or not (tool.parent.parent / "libexec").is_dir():
        return
    recorded = call("python", "-c", RECORD)
    assert recorded.returncode == 0, recorded.stderr
    trained = call("repro-check", "exec", "-o", "T", "--", "python", str(ROOT / "examples" / "train.py"), "--epochs", "1")
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "T" / "manifest.json").is_file()
