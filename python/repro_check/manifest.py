# SPDX-License-Identifier: Apache-2.0
"""manifest.json: read with its digest checked, and written."""

from __future__ import annotations

import json
import os
import re
import typing

from . import digest, layout
from .errors import DamagedDump, UnknownFormat

Json = typing.Dict[str, typing.Any]

_HINT = "the manifest was edited or damaged; record the run again"
_ZEROS = "0" * 32
#: Every field of a manifest, as it is written where nothing else is known.
FIELDS: Json = {
    "format": layout.FORMAT,
    "version": f"{layout.MAJOR}.{layout.MINOR}",
    "tool_version": "",
    "run_name": "",
    "created": "",
    "model_path": "",
    "model_method": "forward",
    "model_digest": str(digest.ZERO),
    "seed": 0,
    "device": "cpu",
    "determinism": "off",
    "disable_dropout": False,
    "rng": "device",
    "grad": "disabled",
    "seconds": 0.0,
    "load_seconds": 0.0,
    "trace": {},
    "warnings": [],
    "settings": [],
    "environment": [],
    "named_tensors": [],
    "configuration": "{}",
}
#: Since 1.4, each where it has something to say.
RARE_FIELDS: Json = {"run_id": "", "attempt": 0, "end": {}, "processes": [], "notes": [], "sources": []}
TRACE_FIELDS: Json = {
    "operators": 0,
    "tensors": 0,
    "contents": 0,
    "stored_bytes": 0,
    "substitutions": 0,
    "drawing_operators": 0,
    "level": "tensor",
    "depth": "top",
    "include": [],
    "exclude": [],
    "digest_algorithm": digest.ALGORITHM,
    "io": "buffered",
    "index_digest": "",
}
# Of the trace, what a reader can do without.
_OPTIONAL = {"substitutions", "drawing_operators", "include", "exclude", "io"}


def _no_duplicates(pairs: list[tuple[str, typing.Any]]) -> Json:
    found: Json = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f'"{key}" is there twice')
        found[key] = value
    return found


def _no_constants(name: str) -> typing.NoReturn:
    raise ValueError(f"{name} is no JSON")


def _expect(place: str, fields: Json, like: Json) -> None:
    """@param like  values of the types that are wanted"""
    for name, example in like.items():
        if name not in fields:
            raise DamagedDump(f'{place}: "{name}" is missing', _HINT)
        value, wanted = fields[name], type(example)
        right = isinstance(value, (int, float, str) if wanted is float else wanted)
        if not right or (wanted is int and (isinstance(value, bool) or value < 0)):
            raise DamagedDump(f'{place}: "{name}" is of another type', _HINT)


def check_version(version: object, place: str) -> None:
    """
    Raises:
        UnknownFormat: it is of another major version; a higher minor one only adds things
    """
    if not isinstance(version, str) or not re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}", version):
        raise DamagedDump(f'{place}: "version" must be "<major>.<minor>"', _HINT)
    major = int(version.split(".")[0])
    if major != layout.MAJOR:
        raise UnknownFormat(
            f"{place}: dump format {version} cannot be read: this package reads {layout.MAJOR}.x",
            "install the package that belongs to the repro-check that recorded it"
            if major > layout.MAJOR
            else "record the run again",
        )


def parse(data: bytes, place: str) -> Json:
    """The manifest, checked against its own digest. `place` names it in errors."""
    try:
        manifest = json.loads(
            data.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constants
        )
    except (ValueError, RecursionError) as error:
        raise DamagedDump(f"{place}: {error}", _HINT) from None
    if not isinstance(manifest, dict) or manifest.get("format") != layout.FORMAT:
        raise UnknownFormat(f'{place}: not the manifest of a dump ("format" is not "{layout.FORMAT}")')
    check_version(manifest.get("version"), place)
    rare = {name: like for name, like in RARE_FIELDS.items() if name in manifest}
    _expect(place, manifest, {**FIELDS, **rare, "manifest_digest": ""})
    needed = {name: value for name, value in TRACE_FIELDS.items() if name not in _OPTIONAL}
    _expect(place + ": /trace", manifest["trace"], needed)
    stated = manifest["manifest_digest"]
    at = data.rfind(stated.encode()) if digest.parse(stated) else -1
    if at < 0 or digest.of_bytes(data[:at] + _ZEROS.encode() + data[at + 32 :]) != digest.parse(stated):
        raise DamagedDump(f"{place}: the manifest does not match its own digest", _HINT)
    return manifest


def to_bytes(fields: Json) -> bytes:
    """`fields` without `manifest_digest`, which is added as the last one."""
    text = json.dumps({**fields, "manifest_digest": _ZEROS}, indent=1, allow_nan=False) + "\n"
    at = text.rfind(_ZEROS)
    stated = str(digest.of_bytes(text.encode()))
    return (text[:at] + stated + text[at + 32 :]).encode()


def write(directory: str, fields: Json) -> str:
    """Puts the manifest in its place, whole and on the disk: from then on there is a dump.
    @return the digest that it states of itself"""
    path, data = os.path.join(directory, "manifest.json"), to_bytes(fields)
    with open(path + ".tmp", "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)
    sync(directory)
    return typing.cast(str, json.loads(data)["manifest_digest"])


def sync(path: str) -> None:
    """Forces a file, or what a directory lists, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
