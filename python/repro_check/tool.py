# SPDX-License-Identifier: Apache-2.0
"""Where the program `repro-check` is: named, built in the checkout that this package was installed from, installed with
this package, or in PATH."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys
import typing
import urllib.parse

from .errors import ToolError
from .ownership import refusal


def find_tool(argument: str | os.PathLike[str] | None = None) -> str:
    """The argument, else $REPRO_CHECK, else the build of the checkout that `pip install .` was called in, else that
    of this package's wheel, else `repro-check` in PATH.

    Raises:
        ToolError: that is no program
    """
    for source, name in (("", argument), ("REPRO_CHECK is ", os.environ.get("REPRO_CHECK"))):
        if name:
            found = shutil.which(os.fspath(name))
            if found is None:
                raise ToolError(f"{source}{os.fspath(name)}: is not a program")
            return found
    checkout = _checkout()
    found = None if checkout is None else shutil.which(checkout / "build" / "release" / "bin" / "repro-check")
    # Long after the installation others may make a folder in the place of one that is gone.
    why = refusal(found, __file__) if found else ""
    if why:
        raise ToolError(f"{why}, so {found} is not run", "name it: pytest --repro-check PATH, or REPRO_CHECK=PATH")
    found = found or _of_the_wheel() or _in_path()
    if found is None and checkout is not None:
        raise ToolError(
            f"repro-check is not built in {checkout}, where this package was installed from, nor in PATH",
            f"cd {checkout} && scripts/setup && cmake --preset release && cmake --build --preset release",
        )
    if found is None:
        raise ToolError(
            "repro-check is not in PATH", "name it: pytest --repro-check PATH, or REPRO_CHECK=PATH"
        )
    return found


def call(command: typing.Sequence[str], timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command without a terminal, and captures its output."""
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=timeout
    )


def main() -> typing.NoReturn:
    """The command `repro-check` of a checkout's package: becomes the program, which a wheel has in its place."""
    try:
        program = find_tool()
    except ToolError as error:
        print(f"repro-check: error: {error}", file=sys.stderr)
        sys.exit(2)
    os.execv(program, [program, *sys.argv[1:]])


def _checkout() -> pathlib.Path | None:
    """As pip notes it of a folder that it installs from."""
    try:
        noted = importlib.metadata.distribution("repro-check").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return None
    origin = json.loads(noted or "{}")
    if "dir_info" not in origin:
        return None
    return pathlib.Path(urllib.parse.unquote(urllib.parse.urlsplit(origin["url"]).path))


def _of_the_wheel() -> str | None:
    """Found without PATH, which leaves out an environment that was not activated."""
    try:
        files = importlib.metadata.files("repro-check") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "repro-check":
            place = pathlib.Path(file.locate())
            found = shutil.which(place.parent.resolve() / place.name)
            if found is not None and not _is_ours(found):
                return found
    return None


def _in_path() -> str | None:
    """Not the command of this package, which would only look again."""
    for folder in os.get_exec_path():
        found = shutil.which(os.path.join(folder, "repro-check"))
        if found is not None and not _is_ours(found):
            return found
    return None


def _is_ours(file: str) -> bool:
    with open(file, "rb") as stream:
        return b"repro_check.tool" in stream.read(1024)
