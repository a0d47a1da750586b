# SPDX-License-Identifier: Apache-2.0
"""Arguments and results: rows of /index/values as Python values, and back."""

from __future__ import annotations

import dataclasses
import typing

from . import layout
from .errors import InvalidRecord

KINDS = "none bool integer double complex string symbol tensor opaque list".split()


@dataclasses.dataclass(frozen=True)
class TensorSlot:
    """Stands for one of the operator's tensors: `operator.tensors[index]`."""

    index: int


@dataclasses.dataclass(frozen=True)
class Symbol:
    """Device, dtype, layout and the like, by name."""

    name: str


@dataclasses.dataclass(frozen=True)
class Opaque:
    """Something of which only the type is known."""

    type: str


def decode(rows: typing.Any, text: typing.Callable[[int], str], fail: typing.Callable[[str], typing.NoReturn]) -> list[tuple[str, typing.Any]]:
    """(name, value) of every value at the outermost level, in order."""
    at = 0

    def one(level: int) -> typing.Any:
        nonlocal at
        if at >= len(rows):
            fail("holds a list that is cut short")
        row = rows[at]
        at += 1
        if row["level"] != level or level > layout.MOST_LEVELS:
            fail("holds a list of a wrong depth")
        if row["kind"] >= len(KINDS):
            fail(f"holds the unknown kind {row['kind']}")
        kind, integer = KINDS[row["kind"]], row["integer"]
        if kind == "list":
            return [one(level + 1) for _ in range(integer)]
        made: dict[str, typing.Callable[[], typing.Any]] = {
            "none": lambda: None,
            "bool": lambda: integer != 0,
            "integer": lambda: integer,
            "double": lambda: row["real"],
            "complex": lambda: complex(row["real"], row["imaginary"]),
            "string": lambda: text(integer),
            "symbol": lambda: Symbol(text(integer)),
            "tensor": lambda: TensorSlot(integer),
            "opaque": lambda: Opaque(text(integer)),
        }
        return made[kind]()

    found = []
    while at < len(rows):
        name = rows[at]["name"]
        found.append(("" if name == layout.NONE else text(name), one(0)))
    return found


Encoded = typing.Tuple[int, float, float, int, int, int]


def encode(value: typing.Any, name: int, text: typing.Callable[[str], int], level: int = 0) -> list[Encoded]:
    """Rows of one value. @throws InvalidRecord for what the format has no kind for"""

    def row(kind: str, integer: int = 0, number: complex = 0) -> list[Encoded]:
        number = complex(number)
        return [(integer, number.real, number.imag, name, KINDS.index(kind), level)]

    if value is None:
        return row("none")
    if isinstance(value, bool):
        return row("bool", int(value))
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise InvalidRecord(f"the argument {value} is beyond 64 bits", "give it as a text")
        return row("integer", value)
    if isinstance(value, float):
        return row("double", number=value)
    if isinstance(value, complex):
        return row("complex", number=value)
    if isinstance(value, str):
        return row("string", text(value))
    if isinstance(value, Symbol):
        return row("symbol", text(value.name))
    if isinstance(value, TensorSlot):
        return row("tensor", value.index)
    if isinstance(value, Opaque):
        return row("opaque", text(value.type))
    if isinstance(value, (list, tuple)):
        if level >= layout.MOST_LEVELS:
            raise InvalidRecord("lists are nested too deep", f"{layout.MOST_LEVELS} levels at most")
        rows = row("list", len(value))
        for item in value:
            rows += encode(item, layout.NONE, text, level + 1)
        return rows
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a scalar of numpy
        return encode(value.item(), name, text, level)
    raise InvalidRecord(
        f"cannot record a {type(value).__name__} as an argument",
        "numbers, texts, lists, None, Symbol and Opaque are recorded; tensors belong into inputs",
    )
