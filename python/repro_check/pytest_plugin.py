# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: one option and one fixture."""

from __future__ import annotations

import functools
import pathlib
import typing

import pytest

from . import testing


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("repro-check").addoption(
        "--repro-check",
        metavar="PATH",
        default=None,
        help="the program repro-check; else $REPRO_CHECK, else that of the checkout or the wheel, else the one in PATH",
    )


@pytest.fixture
def assert_reproducible(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path
) -> typing.Callable[..., testing.Outcome]:
    """`repro_check.testing.assert_reproducible` with the program of `--repro-check`; dumps and
    report.json stay in the test's `tmp_path`."""
    return functools.partial(
        testing.assert_reproducible,
        tool=request.config.getoption("--repro-check"),
        directory=tmp_path / "repro-check-out",
    )
