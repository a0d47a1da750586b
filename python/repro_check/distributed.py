# SPDX-License-Identifier: Apache-2.0
"""`ranks`, `diff` and `verify` over the dumps of many ranks, on Dask: a worker reads each slice
of the ranks where it is, and only small results are copied.

    from dask.distributed import Client
    from repro_check import distributed

    verdict = distributed.ranks("/scratch/run", Client("tcp://scheduler:8786"))
    print(verdict.text); sys.exit(verdict.exit_code)

Without a client the workers are threads of this process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile
import typing

from .errors import ToolError
from .tool import find_tool

Path = typing.Union[str, "os.PathLike[str]"]

#: Parts that are put together at once, and ranks of one task.
FAN_IN, WIDTH = 16, 16
#: More than any job has, as the tool has it.
MOST_RANKS = 1 << 17
#: The worst decides: a code stands before those behind it.
WORST_FIRST = (5, 3, 1, 4, 0)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of the command for all ranks."""

    exit_code: int  #: 0, 1, 3, 4 or 5
    text: str  #: the text report
    report: typing.Any  #: the JSON report; for `verify` one document per rank


def ranks(
    dump: Path, client: typing.Any = None, *, options: typing.Sequence[str] = (), **how: typing.Any
) -> Verdict:
    """Do the replicas agree? As `repro-check ranks dump`, with further options of this command.

    dump: a directory with one dump per rank, as the workers see it; a worker needs only the ranks of its tasks.
    client: a client of dask.distributed, or an object with its submit() and gather().
    count: the number of ranks; by default that in `ranks.json`, which must be readable here.
    width: ranks per task. A difference inside one task is reported with names.
    where: takes the first and the last rank of a task, and returns the workers that have them (`workers` of
        Client.submit).
    tool: the program, on the workers.

    Raises:
        ToolError: a task, or the merge, ends without a verdict
    """
    return _merged(["ranks", os.fspath(dump), *options], dump, client, **how)


def diff(
    baseline: Path, candidate: Path, client: typing.Any = None, *, options: typing.Sequence[str] = (), **how: typing.Any
) -> Verdict:
    """Two runs, rank by rank. As `repro-check diff baseline candidate`, with further options. The rest is as for
    ranks()."""
    words = ["diff", os.fspath(baseline), os.fspath(candidate), *options]
    return _merged(words, baseline, client, **how)


def verify(dump: Path, client: typing.Any = None, **how: typing.Any) -> Verdict:
    """Do the dumps match their digests? As `repro-check verify dump`. The rest is as for ranks()."""
    parts = _reduced(_verified, [os.fspath(dump)], dump, client, lambda *lists: sum(lists, []), **how)
    code = min((part[0] for part in parts), key=WORST_FIRST.index)
    told = "".join(text for part_code, text, _ in parts if part_code == code)
    return Verdict(code, told, [document for _, _, document in parts])


def _merged(words: list[str], dump: Path, client: typing.Any, **how: typing.Any) -> Verdict:
    tool = how.get("tool")
    lines = _reduced(_lines, words, dump, client, lambda *parts: b"".join(parts), **how)
    with tempfile.TemporaryDirectory(prefix="repro-check-") as folder:
        file = pathlib.Path(folder, "slices.jsonl")
        file.write_bytes(lines)
        merge = ["report", "--merge", os.fspath(file)]
        code, text = _ended(tool, merge)
        _, report = _ended(tool, [*merge, "--format", "json"])
    return Verdict(code, text.decode(), json.loads(report))


def _reduced(
    task: typing.Callable[..., typing.Any],
    words: list[str],
    dump: Path,
    client: typing.Any,
    join: typing.Callable[..., typing.Any],
    *,
    count: int | None = None,
    width: int = WIDTH,
    where: typing.Callable[[int, int], typing.Any] | None = None,
    tool: Path | None = None,
) -> typing.Any:
    """The results of the tasks, one per slice of the ranks, merged as a tree on the workers."""
    count = count or json.loads(pathlib.Path(dump, "ranks.json").read_text())["ranks"]
    if not (isinstance(count, int) and 0 < count <= MOST_RANKS):
        raise ValueError(f"{os.fspath(dump)}: {count!r} is no number of ranks")
    with contextlib.ExitStack() as stack:
        if client is None:
            client = stack.enter_context(_local_client())
        parts = []
        for first in range(0, count, width):
            last = min(first + width, count) - 1
            place = {"workers": where(first, last)} if where else {}
            # Not pure: what lies there may be another run the next time.
            parts.append(client.submit(task, tool, words, first, last, pure=False, **place))
        while len(parts) > 1:
            groups = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
            parts = [client.submit(join, *group, pure=False) for group in groups]
        return client.gather(parts[0])


def _local_client() -> typing.ContextManager[typing.Any]:
    try:
        from dask.distributed import Client
    except ImportError:
        raise ToolError(
            "ranks are spread over workers by dask.distributed, which is not installed",
            "pip install 'repro-check[distributed]', or call the program: repro-check ranks DUMP --ranks 0:512",
        ) from None
    make: typing.Any = Client  # which says nothing of its types
    client: typing.ContextManager[typing.Any] = make(processes=False, dashboard_address=":0")
    return client


def _ended(tool: Path | None, words: list[str]) -> tuple[int, bytes]:
    """Exit code and output of the program. An incomplete answer raises."""
    ended = subprocess.run([find_tool(tool), *words], capture_output=True, stdin=subprocess.DEVNULL)
    if ended.returncode not in WORST_FIRST or not ended.stdout:
        said = ended.stderr.decode(errors="replace").strip()
        raise ToolError(f"repro-check {' '.join(words)} ended with {ended.returncode}", said, ended.returncode)
    return ended.returncode, ended.stdout


def _lines(tool: Path | None, words: list[str], first: int, last: int) -> bytes:
    return _ended(tool, [*words, "--ranks", f"{first}:{last + 1}", "--format", "jsonl"])[1]


def _verified(tool: Path | None, words: list[str], first: int, last: int) -> list[tuple[int, str, typing.Any]]:
    """For each rank the exit code, a line of text, and the JSON document."""
    verified = []
    for rank in range(first, last + 1):
        place = os.path.join(*words, f"rank-{rank}")
        if not os.path.isdir(place):
            verified.append((4, f"ABSENT {place}\n", {"dump": place, "status": "absent"}))
            continue
        code, said = _ended(tool, ["verify", place, "--format", "json"])
        document = json.loads(said)["dumps"][0]
        told = f": {document['message']}" if document["message"] else ""
        verified.append((code, f"{document['status'].upper()} {place}{told}\n", document))
    return verified
