# SPDX-License-Identifier: Apache-2.0
"""/index, read and written: its digest is checked before anything in it is believed."""

from __future__ import annotations

import struct
import typing

import numpy as np

from . import digest, layout
from .records import GeneratorUse
from .trace import TraceFile

Row = typing.Any


class Index:
    """The tables, mapped and not loaded: a trace of a million operators is read as it is asked for."""

    def __init__(self, trace: TraceFile, expected: digest.Digest | None) -> None:
        self._trace = trace
        lines = []
        self._tables: dict[str, np.ndarray[typing.Any, typing.Any]] = {}
        for name in trace.names("index", layout.MOST_TABLES):
            found = trace.dataset("index/" + name)
            if len(found.shape) != 1:
                trace.fail("is not a list of rows", "/index/" + name)
            data, size = found.bytes, found.type.get_size()
            lines.append(f"{name} {found.shape[0]} {size} {digest.of_bytes(data)}\n")
            if name in layout.TABLES:
                self._tables[name] = self._typed(name, data, found.type, found.shape[0])
        text = "".join(lines).encode("utf-8", "surrogateescape")
        if digest.of_bytes(text) != expected:
            trace.fail("/index does not match the digest in the manifest")
        for name in layout.TABLES.keys() - layout.OPTIONAL_TABLES - self._tables.keys():
            trace.fail("is missing", "/index/" + name)
        self._check_texts()

    def _typed(self, name: str, data: typing.Any, made: typing.Any, rows: int) -> typing.Any:
        wanted, size = layout.TABLES[name], made.get_size()
        stated = made.dtype
        if wanted.names is None:
            if stated != wanted:
                self._trace.fail("has rows of another type", "/index/" + name)
            return data.view(wanted)
        later = layout.LATER_MEMBERS.get(name, frozenset())
        kept = [n for n in wanted.names if n not in later or n in (stated.names or ())]
        for member in kept:
            if (stated.fields or {}).get(member, ())[:2] != wanted.fields[member][:2]:  # type: ignore[index]
                self._trace.fail(f'has another member "{member}"', "/index/" + name)
        fields: typing.Any = {
            "names": kept,
            "formats": [wanted.fields[n][0] for n in kept],  # type: ignore[index]
            "offsets": [wanted.fields[n][1] for n in kept],  # type: ignore[index]
            "itemsize": size,
        }
        return data.view(np.dtype(fields)) if rows else np.empty(0, np.dtype(fields))

    def _check_texts(self) -> None:
        offsets = self._tables["text_offsets"]
        ascending = len(offsets) > 0 and bool((offsets[1:] >= offsets[:-1]).all())
        if not ascending or offsets[0] != 0 or offsets[-1] != self.count("text_bytes"):
            self._trace.fail("does not cut text_bytes into texts", "/index/text_offsets")
        self._texts = self._tables["text_bytes"].tobytes()
        self._text_offsets: list[int] = offsets.tolist()

    def count(self, table: str) -> int:
        return len(self._tables[table]) if table in self._tables else 0

    def _as_dicts(self, rows: typing.Any) -> list[Row]:
        """Rows by the names of their members: plain numbers, a hundred times as fast to read one by
        one as those of numpy."""
        names = rows.dtype.names
        return rows.tolist() if names is None else [dict(zip(names, row)) for row in rows.tolist()]

    def row(self, table: str, number: int) -> Row:
        return self.rows(table, number, 1)[0]

    def rows(self, table: str, begin: int, count: int) -> list[Row]:
        rows = self._tables[table]
        if begin + count > len(rows):
            self._trace.fail(f"has {len(rows)} rows, not {count} from {begin}", "/index/" + table)
        return self._as_dicts(rows[begin : begin + count])

    def find(self, table: str, member: str, value: int) -> Row | None:
        """The row with that value, in a table whose rows ascend by it."""
        if not self.count(table):
            return None
        number = int(np.searchsorted(self._tables[table][member], np.uint64(value)))
        row = self.row(table, number) if number < self.count(table) else None
        return row if row and row[member] == value else None

    def each(self, table: str) -> typing.Iterator[Row]:
        """Every row, a few thousand in memory at a time; none of a table that is not there."""
        for begin in range(0, self.count(table), 4096):
            yield from self._as_dicts(self._tables[table][begin : begin + 4096])

    def has_member(self, table: str, member: str) -> bool:
        return member in (self._tables[table].dtype.names or ())

    def text(self, number: int) -> str:
        if not 0 <= number < len(self._text_offsets) - 1:
            self._trace.fail(f"has no text {number}", "/index/text_offsets")
        data = self._texts[self._text_offsets[number] : self._text_offsets[number + 1]]
        return data.decode("utf-8", "replace")

    def dims(self, begin: int, count: int) -> tuple[int, ...]:
        if count > layout.MOST_DIMS:
            self._trace.fail(f"cannot have {count} dimensions", "/index/dims")
        return tuple(self.rows("dims", begin, count))

    def decoded(self, table: str, row: Row) -> Row:
        """The row with what its numbers stand for in their place: texts, words, sizes, digest."""
        for name in layout.TEXTS[table]:
            row[name] = self.text(row[name])
        for name, words in layout.WORDS.items():
            if name in row:
                if row[name] >= len(words):
                    self._trace.fail(f"holds the unknown {name} {row[name]}", "/index/" + table)
                row[name] = words[row[name]]
        for name in layout.SIZES:
            if f"{name}_begin" in row:
                row[name] = self.dims(row[f"{name}_begin"], row[f"{name}_count"])
        if any(size < 0 for size in row.get("shape", ())):
            self._trace.fail(f"holds the impossible shape {list(row['shape'])}", "/index/dims")
        if "digest_high" in row:
            row["digest"] = digest.Digest(row["digest_high"], row["digest_low"])
        return row

    def record(self, table: str, number: int) -> Row:
        return self.decoded(table, self.row(table, number))

    def records(self, table: str, begin: int = 0, count: int | None = None) -> typing.Iterator[Row]:
        """Decoded; all of the table without a count."""
        rows = self.each(table) if count is None else self.rows(table, begin, count)
        return (self.decoded(table, row) for row in rows)


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
        """A row of what its numbers stand for; members that are not named are 0."""
        names = layout.TABLES[table].names or ()
        for name in layout.TEXTS[table]:
            members[name] = self.text(members.get(name, ""))
        for name in members.keys() & layout.WORDS.keys():
            members[name] = layout.WORDS[name].index(members[name])
        for name in layout.SIZES:
            if name in members:
                members[f"{name}_begin"], members[f"{name}_count"] = self.dims(members.pop(name))
        if "digest" in members:
            members["digest_high"], members["digest_low"] = members.pop("digest")
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
        row = {"name": name, "overload": overload, "seeded": int(seeded)}
        return self.once("operators", tuple(row.values()), lambda: self.add("operators", **row))

    def site(self, module: str, module_type: str, frame: tuple[str, int] | None) -> int:
        def make() -> int:
            begin = self.count("frames")
            if frame is not None:
                self.add("frames", file=frame[0], line=frame[1])
            return self.add(
                "sites",
                module_path=module,
                module_type=module_type,
                frames_begin=begin,
                frame_count=int(frame is not None),
            )

        return self.once("sites", (module, module_type, frame), make)

    def generator(self, use: GeneratorUse | None) -> int:
        return -1 if use is None else self.add("generators", **use._asdict())

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
