# SPDX-License-Identifier: Apache-2.0
"""Recording and comparing what runs in this process: for notebooks and tests. What `repro-check exec` loads into a
program is loaded into this one."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import pathlib
import random
import shutil
import sys
import tempfile
import types
import typing

from .errors import ToolError
from .testing import Outcome, judge, lasting
from .tool import call, find_tool

_Path = typing.Union[str, "os.PathLike[str]"]


def _libexec(tool: str) -> pathlib.Path:
    """Where the probes are that belong to the tool, with their Python side."""
    given = os.environ.get("REPRO_CHECK_LIBEXEC")
    if given:
        return pathlib.Path(given)
    return pathlib.Path(tool).resolve().parent.parent / "libexec" / "repro-check"


def _attach(libexec: pathlib.Path) -> types.ModuleType:
    place = str(libexec / "python")
    if not os.path.isdir(place):
        raise ToolError(f"{place}: is not there, so nothing can be recorded", "install the recorder too")
    if place not in sys.path:
        sys.path.append(place)
    return importlib.import_module("repro_check_attach")


def _seed(seed: int | None) -> None:
    if seed is None:
        return
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


# Of a program, for the recorder: all of it, as it is.
_WHOLE = {
    "verify_inputs": False,
    "no_sync": False,
    "workers": False,
    "keep_ops": [],
    "open_steps": [],
    "steps": [],
    "phases": [],
    "first_ops": 0,
    "only": "",
    "optimizer": "auto",
    "determinism": "off",
    "disable_dropout": False,
    "rng": "device",
    "bare": False,
    "found": {},
}


@contextlib.contextmanager
def record(
    directory: _Path,
    *,
    level: str = "digest",
    depth: str = "top",
    seed: int | None = None,
    include: typing.Sequence[str] = (),
    exclude: typing.Sequence[str] = (),
    force: bool = False,
    tool: _Path | None = None,
) -> typing.Iterator[pathlib.Path]:
    """Records every operator that PyTorch calls in this process into a dump, which is there when the block is left.

    seed: seeds `random`, NumPy and PyTorch first; without it generators are left alone.
    force: replace a dump that is there.
    tool: the program repro-check; else as find_tool() has it.
    @throws ToolError where nothing can be recorded, or a dump is there already
    """
    program = find_tool(tool)
    dump = pathlib.Path(directory)
    if dump.exists() and not force:
        raise ToolError(f"{dump}: is there already", "record to another directory, or replace it with force=True")
    libexec = _libexec(program)
    attach = _attach(libexec)
    dump.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{dump.name}.processes-", dir=dump.parent) as folder:
        plan = {
            **_WHOLE,
            "level": level,
            "depth": depth,
            "include": list(include),
            "exclude": list(exclude),
            "seed": seed,
            "run": dump.name,
            "program": " ".join(sys.argv),
            "configuration": {"program": {"command": sys.argv}},
            "directory": folder,
            "probes": str(libexec),
        }
        _seed(seed)
        recording = attach.begin_here(plan)
        if recording.failure:
            raise ToolError(f"nothing can be recorded: {recording.failure}")
        try:
            yield dump
        finally:
            recording.end()
            _make_dump(program, pathlib.Path(recording.directory), dump, force)


def _make_dump(program: str, journal: pathlib.Path, dump: pathlib.Path, force: bool) -> None:
    command = [program, "import", os.fspath(journal), "-o", os.fspath(dump), *(["--force"] if force else [])]
    ended = call(command)
    if ended.returncode != 0:
        raise ToolError("the dump could not be made", ended.stderr.strip(), ended.returncode)


def compare(
    function: typing.Callable[[], object],
    *,
    runs: int = 2,
    directory: _Path | None = None,
    seed: int | None = 0,
    flags: typing.Sequence[str] = (),
    tool: _Path | None = None,
) -> Outcome:
    """Calls `function` so many times, and compares what its operators computed. When they diverge it is called as often
    again, to have the values.

    directory: where the dumps are kept, as run-1, run-2, ...; without it they are removed.
    seed: as for `record`, before every call.
    flags: further ones of `repro-check diff`, such as ["--policy", "ulp", "--ulp", "4"].
    @throws ToolError where nothing could be judged: nothing else is ever a pass
    """
    if runs < 2:
        raise ValueError("a comparison takes two runs at least")
    program = find_tool(tool)
    with contextlib.ExitStack() as stack:
        passes = directory is None
        if directory is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="repro-check-"))
        where = pathlib.Path(directory)
        dumps = [where / f"run-{number + 1}" for number in range(runs)]
        report = where / "report.json"
        command = [program, "diff", *map(os.fspath, dumps), "--color", "never", "--report", f"json={report}", *flags]

        def compared(level: str) -> Outcome:
            for dump in dumps:
                if dump.exists():
                    shutil.rmtree(dump)
                with record(dump, level=level, seed=seed, tool=program):
                    function()
            return judge(command, report)

        try:
            outcome = compared("digest")
            if not outcome.reproducible:
                # Values are worth another look only where they part again.
                measured = compared("tensor")
                outcome = outcome if measured.reproducible else measured
        except ToolError as error:
            if passes:
                raise ToolError(error.message, lasting(error.hint, where), error.exit_code) from None
            raise
    return dataclasses.replace(outcome, text=lasting(outcome.text, where)) if passes else outcome
