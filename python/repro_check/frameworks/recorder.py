# SPDX-License-Identifier: Apache-2.0
"""What recorders of models have in common: the request that `repro-check` writes, the inputs in it, and the lines in
which a recorder says how it goes, as docs/ARCHITECTURE.md has them."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
import typing

import h5py
import numpy as np

from ..errors import ReproCheckError
from .generated import Array, Json, generate

#: Exit codes of the tool, by kind of failure.
_CODES = {"usage": 2, "run_failed": 5, "internal": 70}


class Failure(ReproCheckError):
    """A run that did not come to its end."""

    kind = "run_failed"


class Refusal(Failure):
    """A mistake of the configuration, or of what is installed."""

    kind = "usage"


class Request(typing.NamedTuple):
    run: Json  #: the resolved configuration, docs/CONFIGURATION.md
    directory: str
    report_outputs: bool
    bare: bool

    @property
    def dump(self) -> Json:
        return typing.cast(Json, self.run["dump"])


def read_request(file: str) -> Request:
    with open(file, encoding="utf-8") as stream:
        read = json.load(stream)
    if read.get("format") != "repro-check-request-1":
        raise Refusal(f"{file}: no request of this version", "use the recorder that came with repro-check")
    return Request(
        read["run"], read["dump_directory"], read.get("report_outputs", False), read.get("bare", False)
    )


def refuse(run: Json, keys: typing.Mapping[str, typing.Any], why: str) -> None:
    """Of keys of a run, `dump.slice` of its dump, those that do not have the value that means nothing."""
    for key, nothing in keys.items():
        section, _, inner = key.rpartition(".")
        given = (run[section] if section else run).get(inner, nothing)
        if given != nothing:
            raise Refusal(f"/{key.replace('.', '/')}: {why}", "leave it out")


class Status:
    """Says how it goes, a message a line; nobody has to listen."""

    def __init__(self, descriptor: int) -> None:
        self._began, self._descriptor = time.monotonic(), descriptor

    def say(self, type_: str, **fields: typing.Any) -> None:
        try:
            os.write(self._descriptor, (json.dumps({"type": type_, **fields}) + "\n").encode())
        except OSError:
            pass

    def phase(self, name: str) -> None:
        self.say("phase", name=name)

    def done(self, operators: int, tensors: int, size: int, dump: str | None) -> None:
        seconds = time.monotonic() - self._began
        self.say("done", operators=operators, tensors=tensors, bytes=size, seconds=seconds, dump=dump)


def read_input(given: Json) -> typing.Any:
    """The array that an input of a request stands for; of a value that is none, itself."""
    where = given["pointer"]
    if "generate" in given:
        return generate(given, where)
    try:
        if "npy" in given:
            return np.load(given["npy"], allow_pickle=False)
        if "hdf5" in given:
            with h5py.File(given["hdf5"], "r") as file:
                return np.asarray(file[given["dataset"]])
    except (OSError, ValueError, KeyError) as error:
        raise Refusal(f"{where}: {error}", "give a whole file, or generate the input") from None
    if "value" in given:
        return given["value"]
    raise Refusal(f"{where}: of this kind a model here takes none", 'give it as "npy", "hdf5", "generate" or "value"')


def matched(calls: list[Json], needed: list[str], optional: list[str]) -> list[dict[str, Json]]:
    """Of each call the inputs by name; what has none is meant by its place.
    @param needed    names that the model takes, in order
    @param optional  those that it takes as well, and has a value for"""
    found, names = [], needed + optional
    for number, call in enumerate(calls):
        taken: dict[str, Json] = {}
        for place, given in enumerate(call["inputs"]):
            name = given.get("name") or (names[place] if place < len(names) else "")
            if name not in names or name in taken:
                what = f'is given "{name}" twice' if name in taken else f"the model has no input \"{name or place}\""
                raise Refusal(f"{given['pointer']}: {what}", f"its inputs are {', '.join(names)}")
            taken[name] = given
        missing = [name for name in needed if name not in taken]
        if missing:
            raise Refusal(f"/calls/{number}: no input is given for {', '.join(missing)}", "add it to \"inputs\"")
        found.append(taken)
    return found


Verbs = typing.Mapping[str, typing.Callable[..., typing.Any]]


def main(verbs: Verbs, arguments: list[str]) -> int:
    """`record` is given the request and the status; what other verbs return goes to stdout as JSON."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    recording = bool(arguments) and arguments[0] == "record"
    status = Status(int(arguments[3]) if arguments[2:3] == ["--status-fd"] else 1)
    try:
        if not arguments or arguments[0] not in verbs:
            raise Refusal(f"a recorder of this kind cannot {' '.join(arguments[:1]) or 'do nothing'}",
                          f"it can {', '.join(verbs)}")
        if recording:
            verbs["record"](read_request(arguments[1]), status)
        else:
            print(json.dumps(verbs[arguments[0]](*arguments[1:])))
        return 0
    except ReproCheckError as error:
        kind = getattr(error, "kind", "usage")
        text, hint = error.message, error.hint
    except Exception as error:
        traceback.print_exc()
        kind, text, hint = "internal", f"{type(error).__name__}: {error}", "this is a bug: please report it"
    if recording:
        status.say("error", kind=kind, message=text, hint=hint)
    sys.stderr.write(f"{text}\n" + (f"  {hint}\n" if hint else ""))
    return _CODES[kind]


__all__ = ["Array", "Failure", "Json", "Refusal", "Request", "Status", "main", "matched", "read_input", "refuse"]
