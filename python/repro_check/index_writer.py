# SPDX-License-Identifier: Apache-2.0
"""Rows of /index as they are collected, and their digest."""

from __future__ import annotations

import struct
import typing

import numpy as np

from . import digest, layout
from .records import GeneratorUse


# Rows have no padding. Packing by struct takes a hundredth of the time that numpy does for one.
_CODES = {"<i8": "q", "<u8": "Q", "<u4": "I", "<u2": "H", "|u1": "B", "<f8": "d"}
_PACKERS = {
    name: struct.Struct("<" + "".join(_CODES[dtype[member].str] for member in dtype.names)).pack
    for name, dtype in layout.TABLES.items()
    if dtype.names is not None
}


class IndexWriter:
    def __init__(self) -> None:
        self._rows: dict[str, bytearray] = {name: bytearray() for name in layout.TABLES}
        self._counts = dict.fromkeys(layout.TABLES, 0)
        self._numbers: dict[typing.Any, int] = {}
        self._texts: dict[str, int] = {}
        self._text_bytes = bytearray()
        self._text_offsets = [0]
        self.text("")  # text 0

    def text(self, value: str) -> int:
        number = self._texts.setdefault(value, len(self._texts))
        if number == len(self._text_offsets) - 1:
            self._text_bytes += value.encode("utf-8", "replace")
            self._text_offsets.append(len(self._text_bytes))
        return number

    def count(self, table: str) -> int:
        return self._counts[table]

    def add(self, table: str, **members: typing.Any) -> int:
        """A row; members that are not named are 0."""
        names = layout.TABLES[table].names or ()
        if not members.keys() <= set(names):
            raise TypeError(f"{table} has no {members.keys() - set(names)}")
        return self.add_tuple(table, tuple(members.get(name, 0) for name in names))

    def add_tuple(self, table: str, row: tuple[typing.Any, ...]) -> int:
        self._rows[table] += _PACKERS[table](*row)
        self._counts[table] += 1
        return self._counts[table] - 1

    def dims(self, sizes: typing.Sequence[int]) -> tuple[int, int]:
        """First row and count in `dims`; equal lists are kept once."""
        key = ("dims", tuple(sizes))
        if key not in self._numbers:
            self._numbers[key] = self._counts["dims"]
            self._rows["dims"] += np.array(sizes, "<i8").tobytes()
            self._counts["dims"] += len(key[1])
        return self._numbers[key], len(key[1])

    def once(self, table: str, key: typing.Any, make: typing.Callable[[], int]) -> int:
        """The row of `key` in a table that holds each thing once."""
        if (table, key) not in self._numbers:
            self._numbers[table, key] = make()
        return self._numbers[table, key]

    def operator(self, name: str, overload: str, seeded: bool) -> int:
        return self.once(
            "operators",
            (name, overload, seeded),
            lambda: self.add(
                "operators", name=self.text(name), overload=self.text(overload), seeded=int(seeded)
            ),
        )

    def site(self, module: str, module_type: str, frame: tuple[str, int] | None) -> int:
        def make() -> int:
            begin = self.count("frames")
            if frame is not None:
                self.add("frames", file=self.text(frame[0]), line=frame[1], function=self.text(""))
            return self.add(
                "sites",
                module_path=self.text(module),
                module_type=self.text(module_type),
                frames_begin=begin,
                frame_count=int(frame is not None),
            )

        return self.once("sites", (module, module_type, frame), make)

    def generator(self, use: GeneratorUse | None) -> int:
        if use is None:
            return -1
        row = use._asdict()
        row["device"] = self.text(use.device)
        return self.add("generators", **row)

    def tables(self) -> typing.Iterator[tuple[str, np.ndarray[typing.Any, typing.Any]]]:
        """Every table that a dump has, in byte order of name."""
        self._rows["text_bytes"] = self._text_bytes
        self._rows["text_offsets"] = bytearray(np.array(self._text_offsets, "<u8").tobytes())
        for name in sorted(layout.TABLES):
            if name in layout.OPTIONAL_TABLES and not self._counts[name]:
                continue
            yield name, np.frombuffer(bytes(self._rows[name]), layout.TABLES[name])


def index_digest(tables: typing.Iterable[tuple[str, np.ndarray[typing.Any, typing.Any]]]) -> digest.Digest:
    lines = [
        f"{name} {len(rows)} {rows.itemsize} {digest.of_bytes(rows.view('u1') if rows.size else b'')}\n"
        for name, rows in tables
    ]
    return digest.of_bytes("".join(sorted(lines, key=lambda line: line.split(" ")[0].encode())).encode())
