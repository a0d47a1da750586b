# SPDX-License-Identifier: Apache-2.0
"""Records and compares code of this process, for notebooks and tests. The process loads what `repro-check exec` loads
into a program."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import types
import typing

from . import notebook
from .errors import ToolError
from .ownership import refusal
from .snapshot import Snapshot
from .testing import Outcome, judge, lasting
from .tool import call, find_tool

_Path = typing.Union[str, "os.PathLike[str]"]


def _libexec(tool: str) -> pathlib.Path:
    """Where the probes are that belong to the tool, with their Python side."""
    given = os.environ.get("REPRO_CHECK_LIBEXEC")
    if given:
        return pathlib.Path(given)
    return pathlib.Path(tool).resolve().parent.parent / "libexec" / "repro-check"


@functools.lru_cache(maxsize=None)  # what is loaded already is not looked at again
def _attach(libexec: pathlib.Path, tool: str) -> types.ModuleType:
    place = str(libexec / "python")
    if not os.path.isdir(place):
        raise ToolError(f"{place}: is not there, so nothing can be recorded", "install the recorder too")
    for folder, _, files in os.walk(libexec, followlinks=True):
        why = next(filter(None, (refusal(os.path.join(folder, file), tool) for file in ["", *files])), "")
        if why:
            raise ToolError(f"{why}, so it is not loaded", "install repro-check again, for you or root alone")
    if place not in sys.path:
        sys.path.append(place)
    return importlib.import_module("repro_check_hooks.attach")


def _seed(seed: int | None) -> None:
    if seed is None:
        return
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


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
    """Records every operator that PyTorch calls in this process. The dump is written at the end of the block.

    seed: seeds `random`, NumPy and PyTorch first; None seeds nothing.
    force: replace an existing dump.
    tool: the program repro-check; by default that of find_tool().

    Raises:
        ToolError: nothing can be recorded, or the dump exists already
    """
    if depth == "blocks":
        raise ToolError("blocks are recorded of whole programs", "use `repro-check exec --depth blocks`")
    options = {"level": level, "depth": depth, "include": list(include), "exclude": list(exclude)}
    with _recorded(directory, seed=seed, force=force, tool=tool, **options):
        yield pathlib.Path(directory)


@contextlib.contextmanager
def _recorded(
    directory: _Path, *, seed: int | None, tool: _Path | None, force: bool = False, **options: object
) -> typing.Iterator[typing.Any]:
    """As record(): with the recording itself."""
    program = find_tool(tool)
    dump = pathlib.Path(directory)
    if dump.exists() and not force:
        raise ToolError(f"{dump}: already exists", "record to another directory, or replace it with force=True")
    libexec = _libexec(program)
    attach = _attach(libexec, program)
    dump.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{dump.name}.processes-", dir=dump.parent) as folder:
        plan = {
            **options,
            "seed": seed,
            "run": dump.name,
            "configuration": json.dumps({"program": {"command": sys.argv}}),
            "directory": folder,
            "probes": str(libexec),
            "build_folder": folder,
        }
        _seed(seed)
        recording = attach.begin_here(plan)
        if recording.failure:
            raise ToolError(f"nothing can be recorded: {recording.failure}")
        try:
            yield recording
        finally:
            recording.end()
            _make_dump(program, pathlib.Path(recording.directory), dump, force)


def _make_dump(program: str, journal: pathlib.Path, dump: pathlib.Path, force: bool) -> None:
    command = [program, "recover", os.fspath(journal), "-o", os.fspath(dump), "--format", "json"]
    ended = call([*command, "--force"] if force else command)
    if ended.returncode != 0:
        raise ToolError("the dump could not be made", (ended.stderr or ended.stdout).strip(), ended.returncode)
    partial = json.loads(ended.stdout)["partial"]
    if partial:
        raise ToolError(f"{dump}: only a part was recorded: {partial['reason']}")


# A fact about a recorded call: whether the next call sees its changes.
_STATE_OF_CALLS = b"process.state"


def _generators() -> list[object]:
    """The generators of this process that a seed sets."""
    import torch

    numpy = sys.modules.get("numpy.random")
    known = [random._inst, torch.default_generator, *torch.cuda.default_generators]
    return [*known, numpy.mtrand._rand] if numpy else known


def compare(
    function: typing.Callable[[], object],
    *,
    state: object = None,
    runs: int = 2,
    directory: _Path | None = None,
    seed: int | None = None,
    policy: str | None = None,
    ulp: int | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    numbers: bool | str | typing.Sequence[str] = False,
    flags: typing.Sequence[str] = (),
    tool: _Path | None = None,
) -> Outcome:
    """Calls `function` `runs` times and compares the results of its operators; where they diverge, again with values.

    state: what the function changes, such as (model, optimizer): modules, optimizers, schedulers and other objects
        with a state_dict, tensors, generators, arrays, and lists, tuples and dictionaries of them. It is
        restored after every call, so that each call begins with the same state. Without it each call continues from the
        previous one.
    directory: place of the dumps run-1, run-2, ...; without it they are removed.
    seed: as for `record`, before every call; the generators are restored at the end. Without it the function must set
        its own seeds, or it draws other numbers in each call.
    policy, ulp, rtol, atol: what counts as equal, as for `repro-check diff`; by default bitwise, with ulp the policy
        `ulp`, with rtol and atol the policy `tolerance`.
    numbers: judges losses, parameters, gradients, optimizer states and results, whatever operators made them; or
        these alone: ["losses", "parameters"].
    flags: further options of `repro-check diff`.

    Raises:
        ToolError: there is no verdict
    """
    if runs < 2:
        raise ValueError("a comparison takes two runs at least")
    program = find_tool(tool)
    snapshot = None if state is None else Snapshot(state)
    with contextlib.ExitStack() as stack:
        if seed is not None:
            stack.callback(Snapshot(_generators()).restore)
        where = _folder(directory, stack)
        dumps = [where / f"run-{number + 1}" for number in range(runs)]
        report = where / "report.json"
        command = [program, "diff", *map(os.fspath, dumps), "--color", "never", "--report", f"json={report}"]
        command += [*_policy_flags(policy, ulp, rtol, atol), *_numbers_flags(numbers), *flags]
        shown = stack.enter_context(notebook.progress())

        def compared(level: str) -> Outcome:
            _record_all(function, dumps, snapshot, shown, level=level, seed=seed, tool=program)
            shown("comparing")
            return judge(command, report)

        try:
            outcome = _settled(compared)
        except ToolError as error:
            if directory is None:
                raise ToolError(error.message, lasting(error.hint, where), error.exit_code) from None
            raise
    return outcome.without_dumps() if directory is None else outcome


def _folder(directory: _Path | None, stack: contextlib.ExitStack) -> pathlib.Path:
    """The caller's, or one that is removed with the stack."""
    if directory is None:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="repro-check-"))
    return pathlib.Path(directory)


def _record_all(
    function: typing.Callable[[], object],
    dumps: list[pathlib.Path],
    snapshot: Snapshot | None,
    shown: typing.Callable[[str], None],
    **options: typing.Any,
) -> None:
    for number, dump in enumerate(dumps):
        again = ", again, to have the values" if options["level"] == "tensor" else ""
        shown(f"call {number + 1} of {len(dumps)}{again}")
        if dump.exists():
            shutil.rmtree(dump)
        try:
            with _recorded(dump, **options) as recording:
                recording.probe.repro_check_fact(_STATE_OF_CALLS, b"kept" if snapshot is None else b"restored")
                function()
        finally:
            if snapshot is not None:
                snapshot.restore()


def _policy_flags(
    policy: str | None, ulp: int | None, rtol: float | None, atol: float | None
) -> list[str]:
    if policy is None and ulp is not None:
        policy = "ulp"
    if policy is None and (rtol is not None or atol is not None):
        policy = "tolerance"
    given = {"policy": policy, "ulp": ulp, "rtol": rtol, "atol": atol}
    return [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]


def _numbers_flags(numbers: bool | str | typing.Sequence[str]) -> list[str]:
    if isinstance(numbers, bool):
        return ["--numbers"] if numbers else []
    names = numbers if isinstance(numbers, str) else ",".join(numbers)
    if not names:
        raise ValueError("numbers names nothing: True takes those that are recorded")
    return [f"--numbers={names}"]


def _settled(compared: typing.Callable[[str], Outcome]) -> Outcome:
    """What calls recorded with digests say, or, where they part, calls recorded with values."""
    try:
        digests = compared("digest")
    except ToolError as error:
        if error.exit_code != 4:
            raise
        values = compared("tensor")
        # What other bits are allowed has to have been seen: else the difference was not measured, and may be any.
        if values.reproducible and not any(report["coverage"]["within_policy"] for report in values.reports):
            raise
        return values
    if digests.reproducible:
        return digests
    # Values are worth another look only where they part again.
    values = compared("tensor")
    return digests if values.reproducible else values
