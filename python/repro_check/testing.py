# SPDX-License-Identifier: Apache-2.0
"""`assert_reproducible`, for pytest and other test runners: runs the program `repro-check` and raises AssertionError
if the runs diverge."""

from __future__ import annotations

import contextlib
import dataclasses
import html
import json
import os
import pathlib
import subprocess
import tempfile
import typing

from . import notebook
from .errors import ToolError
from .tool import call, find_tool

#: What the codes mean that are neither 0 (reproducible) nor 1 (divergence).
FAILURES = {
    2: "usage or configuration",
    3: "a dump is unreadable, damaged or of an unknown version",
    4: "not comparable, or nothing was compared",
    5: "a run failed",
    70: "internal error",
    130: "interrupted",
}


@dataclasses.dataclass(frozen=True, repr=False)
class Outcome:
    """A verdict: the runs agree or diverge. It shows the text of the report, in a notebook the HTML page."""

    exit_code: int  #: 0 or 1
    text: str  #: the text report
    reports: list[dict[str, typing.Any]]  #: the JSON report, or one per pair of runs
    directory: pathlib.Path  #: of the dumps
    page: str = ""  #: the HTML report, if it was made in a notebook

    @property
    def reproducible(self) -> bool:
        return self.exit_code == 0

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str | None:
        """The page in a frame that has no access to the notebook; None in other places."""
        frame = '<iframe sandbox="allow-scripts" title="repro-check" width="100%" height="760" srcdoc="{}"></iframe>'
        return frame.format(html.escape(self.page)) if self.page else None

    def without_dumps(self) -> Outcome:
        """The same outcome after its dumps are removed."""
        page = _without(self.page, self.directory)
        return dataclasses.replace(self, text=lasting(self.text, self.directory), page=page)


def lasting(text: str, folder: pathlib.Path) -> str:
    """`text` without the lines that name a removed folder."""
    return f"{_without(text, folder).rstrip()}\n  dumps      removed: directory=... keeps them"


def _without(text: str, folder: pathlib.Path) -> str:
    """Without the lines that name a folder, but for the data of a page."""
    lines = text.split("\n")
    return "\n".join(line for line in lines if str(folder) not in line or line.startswith("<script"))


def set_arguments(overrides: typing.Mapping[str, typing.Any], pointer: str = "") -> list[str]:
    """`threads=1, compare={"policy": "ulp"}` as `--set /threads=1 --set /compare/policy="ulp"`."""
    arguments: list[str] = []
    for key, value in overrides.items():
        place = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
        if isinstance(value, typing.Mapping) and value:
            arguments += set_arguments(value, place)
        else:
            arguments += ["--set", f"{place}={json.dumps(value)}"]
    return arguments


def judge(command: typing.Sequence[str], report: pathlib.Path, timeout: float | None = None) -> Outcome:
    """Runs a command of repro-check that writes a JSON report to `report`.

    Raises:
        ToolError: for every exit code other than 0 and 1, and for an invalid report
    """
    page = report.with_suffix(".html")
    for earlier in (report, page):
        earlier.unlink(missing_ok=True)  # one of an earlier run must not speak for this one
    if notebook.is_kernel():
        command = [*command, "--report", f"html={page}"]
    try:
        ended = call(command, timeout)
    except subprocess.TimeoutExpired:
        raise ToolError(f"repro-check did not end within {timeout} s", " ".join(command)) from None
    code = ended.returncode
    if code in (0, 1):
        return _judged(code, ended.stdout, report)
    said = "\n  ".join(part.strip() for part in (ended.stdout, ended.stderr) if part.strip())
    if code < 0:
        raise ToolError(f"repro-check was killed by signal {-code}", said, code)
    meaning = FAILURES.get(code, "a code that this package does not know")
    raise ToolError(f"repro-check could not judge: {meaning} (exit code {code})", said, code)


def run(
    config: str | os.PathLike[str] | typing.Mapping[str, typing.Any],
    *,
    overrides: typing.Mapping[str, typing.Any],
    tool: str | os.PathLike[str] | None,
    directory: pathlib.Path,
    timeout: float | None,
) -> Outcome:
    """Runs `repro-check run`. A configuration that is a mapping stands where the caller stands:
    its relative paths are those of the current directory.

    Raises:
        as judge() does
    """
    program = find_tool(tool)
    written: str | None = None
    if isinstance(config, typing.Mapping):
        with tempfile.NamedTemporaryFile("w", suffix=".json", dir=".", delete=False) as file:
            json.dump(config, file)
        written = file.name
    path = written if written is not None else os.fspath(typing.cast(str, config))
    command = [program, "run", "-c", path, "--out", os.fspath(directory), "--force"]
    command += ["--progress", "never", "--color", "never", *set_arguments(overrides)]
    command += ["--set", '/report={"format": ["text", "json"]}']  # text on stdout, JSON beside the dumps
    try:
        return judge(command, directory / "report.json", timeout)
    finally:
        if written is not None:
            os.remove(written)


def _judged(code: int, text: str, path: pathlib.Path) -> Outcome:
    """The verdict, if exit code and report agree."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ToolError(f"repro-check ended with {code} and left no report: {error}", text, code) from None
    reports = found if isinstance(found, list) else [found]  # more than two runs give a list
    verdicts = [report.get("verdict", {}).get("exit_code") for report in reports]
    agree = code in verdicts and all(verdict in (0, code) for verdict in verdicts)
    if not agree:
        raise ToolError(f"repro-check ended with {code}, its report says {verdicts}", text, code)
    page = path.with_suffix(".html")
    shown = page.read_text(encoding="utf-8") if page.exists() else ""
    return Outcome(code, text, reports, path.parent, shown)


Config = typing.Union[str, "os.PathLike[str]", typing.Mapping[str, typing.Any]]


def assert_reproducible(
    config: Config | typing.Callable[[], object],
    *,
    tool: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
    **overrides: typing.Any,
) -> Outcome:
    """Runs a configuration of repro-check (a file, or its content) and passes if the runs agree. A function is called
    in this process; its keywords are those of `repro_check.compare`.

    overrides: values of the configuration: `threads=1`, `compare={"policy": "ulp", "ulp": 4}`.
    tool: the program; else as find_tool() has it.
    directory: where dumps and report.json are kept; without it they are removed.

    Raises:
        AssertionError: with the report when the runs diverge
        ToolError: with what the tool said when it could not judge: nothing else is ever a pass
    """
    __tracebackhide__ = True
    if callable(config) and timeout is not None:
        raise TypeError("a function is called in this process, which no timeout ends: leave it out")
    with contextlib.ExitStack() as stack:
        passes = directory is None
        if directory is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="repro-check-"))
        where = pathlib.Path(directory)
        where.mkdir(parents=True, exist_ok=True)
        try:
            if callable(config):
                from .program import compare  # which needs this module

                outcome = compare(config, directory=where, tool=tool, **overrides)
            else:
                outcome = run(config, overrides=overrides, tool=tool, directory=where, timeout=timeout)
        except ToolError as error:
            # What was wrong is in the message; how we came to know it helps nobody.
            if passes:
                error = ToolError(error.message, lasting(error.hint, where), error.exit_code)
            raise error.with_traceback(None) from None
    if passes:
        outcome = outcome.without_dumps()
    if not outcome.reproducible:
        raise AssertionError(outcome.text.rstrip() or "the runs diverged")
    return outcome
