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
_TYPES: dict[str, type | tuple[type, ...]] = {
    "tool_version": str,
    "run_name": str,
    "created": str,
    "model_path": str,
    "model_method": str,
    "model_digest": str,
    "seed": int,
    "device": str,
    "determinism": str,
    "disable_dropout": bool,
    "rng": str,
    "grad": str,
    "seconds": (int, float, str),
    "load_seconds": (int, float, str),
    "trace": dict,
    "warnings": list,
    "settings": list,
    "environment": list,
    "named_tensors": list,
    "configuration": str,
    "manifest_digest": str,
}
_TRACE_TYPES: dict[str, type] = {
    "operators": int,
    "tensors": int,
    "contents": int,
    "stored_bytes": int,
    "level": str,
    "depth": str,
    "digest_algorithm": str,
    "index_digest": str,
}


def _no_duplicates(pairs: list[tuple[str, typing.Any]]) -> Json:
    found: Json = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f'"{key}" is there twice')
        found[key] = value
    return found


def _no_constants(name: str) -> typing.NoReturn:
    raise ValueError(f"{name} is no JSON")


def _expect(place: str, fields: Json, types: typing.Mapping[str, typing.Any]) -> None:
    for name, wanted in types.items():
        if name not in fields:
            raise DamagedDump(f'{place}: "{name}" is missing', _HINT)
        value = fields[name]
        if not isinstance(value, wanted) or (wanted is int and (isinstance(value, bool) or value < 0)):
            raise DamagedDump(f'{place}: "{name}" is of another type', _HINT)


def check_version(version: object, place: str) -> None:
    """@throws UnknownFormat for another major version; a higher minor one only adds things."""
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
    _expect(place, manifest, _TYPES)
    _expect(place + ": /trace", manifest["trace"], _TRACE_TYPES)
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


def write(directory: str, fields: Json) -> None:
    """Puts the manifest in its place, whole and on the disk: from then on there is a dump."""
    path = os.path.join(directory, "manifest.json")
    with open(path + ".tmp", "xb") as file:
        file.write(to_bytes(fields))
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
