# SPDX-License-Identifier: Apache-2.0
"""The programs come from the build: REPRO_CHECK, and REPRO_CHECK_MAKE_DUMP, which writes a fixture as
the recorder writes a run."""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURE = ROOT / "tests/dumpers/store/read_dump_fixture.json"

pytest_plugins = ["pytester"]


def program(variable):
    path = os.environ.get(variable, "")
    if not os.access(path, os.X_OK):
        pytest.fail(f"{variable} names no program: run these tests through ctest")
    return path


@pytest.fixture(scope="session")
def tool():
    """Runs repro-check; what it ended with, what it said."""
    path = program("REPRO_CHECK")
    return lambda *arguments: subprocess.run(
        [path, *map(str, arguments)], capture_output=True, text=True, timeout=60
    )


@pytest.fixture(scope="session")
def make_dump():
    path = program("REPRO_CHECK_MAKE_DUMP")

    def make(directory, *options, fixture=FIXTURE):
        subprocess.run([path, str(fixture), str(directory), *options], check=True)
        return directory

    return make


@pytest.fixture
def described():
    """What `recorded` is made of."""
    return json.loads(FIXTURE.read_text())


@pytest.fixture
def recorded(make_dump, tmp_path):
    return make_dump(tmp_path / "recorded")
