# SPDX-License-Identifier: Apache-2.0
"""`assert_reproducible`, for pytest and for anything else that knows an AssertionError."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
import typing

from .errors import ToolError
from .tool import Outcome, run

Config = typing.Union[str, "os.PathLike[str]", typing.Mapping[str, typing.Any]]


def assert_reproducible(
    config: Config,
    *,
    tool: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
    **overrides: typing.Any,
) -> Outcome:
    """Runs a configuration of repro-check (a file, or its content) and passes when the runs agree.

    overrides: values of the configuration: `threads=1`, `compare={"policy": "ulp", "ulp": 4}`.
    tool: the program; else $REPRO_CHECK, else the `repro-check` of PATH.
    directory: where dumps and report.json are kept; without it they are removed.
    @throws AssertionError with the report when the runs diverge, ToolError with what the tool said
        when it could not judge: nothing else is ever a pass
    """
    __tracebackhide__ = True
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="repro-check-"))
        where = pathlib.Path(directory)
        where.mkdir(parents=True, exist_ok=True)
        try:
            outcome = run(config, overrides=overrides, tool=tool, directory=where, timeout=timeout)
        except ToolError as error:
            # What was wrong is in the message; how we came to know it helps nobody.
            raise error.with_traceback(None) from None
    if not outcome.reproducible:
        raise AssertionError(outcome.text.rstrip() or "the runs diverged")
    return outcome
