# SPDX-License-Identifier: Apache-2.0
"""Arguments and results: rows of /index/values as Python values, and back; what a call returned, as the
last record of the call (docs/DUMP_FORMAT.md)."""

from __future__ import annotations

import dataclasses
import typing

from . import layout
from .errors import InvalidRecord


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


class _Kind(typing.NamedTuple):
    """A row of /index/values holds an integer and a complex number."""

    type: type
    encode: typing.Callable[[typing.Any], tuple[typing.Any, complex]]
    decode: typing.Callable[[typing.Any, complex], typing.Any]
    is_text: bool = False  #: the integer is the number of a text


#: By the number of the kind.
_KINDS = (
    _Kind(type(None), lambda value: (0, 0), lambda integer, _: None),
    _Kind(bool, lambda value: (int(value), 0), lambda integer, _: integer != 0),
    _Kind(int, lambda value: (value, 0), lambda integer, _: integer),
    _Kind(float, lambda value: (0, value), lambda _, number: number.real),
    _Kind(complex, lambda value: (0, value), lambda _, number: number),
    _Kind(str, lambda value: (value, 0), lambda text, _: text, True),
    _Kind(Symbol, lambda value: (value.name, 0), lambda text, _: Symbol(text), True),
    _Kind(TensorSlot, lambda value: (value.index, 0), lambda integer, _: TensorSlot(integer)),
    _Kind(Opaque, lambda value: (value.type, 0), lambda text, _: Opaque(text), True),
)
_LIST = len(_KINDS)


def decode(
    rows: typing.Any, text: typing.Callable[[int], str], fail: typing.Callable[[str], typing.NoReturn]
) -> list[tuple[str, typing.Any]]:
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
        if row["kind"] == _LIST:
            return [one(level + 1) for _ in range(row["integer"])]
        if row["kind"] > _LIST:
            fail(f"holds the unknown kind {row['kind']}")
        kind, integer = _KINDS[row["kind"]], row["integer"]
        number = complex(row["real"], row["imaginary"])
        return kind.decode(text(integer) if kind.is_text else integer, number)

    found = []
    while at < len(rows):
        name = rows[at]["name"]
        found.append(("" if name == layout.NONE else text(name), one(0)))
    return found


Encoded = typing.Tuple[int, float, float, int, int, int]


def encode(
    value: typing.Any, name: int, text: typing.Callable[[str], int], level: int = 0
) -> list[Encoded]:
    """Rows of one value.

    Raises:
        InvalidRecord: for what the format has no kind for
    """
    for number, kind in enumerate(_KINDS):
        if not isinstance(value, kind.type):
            continue
        integer, parts = kind.encode(value)
        integer, parts = text(integer) if kind.is_text else integer, complex(parts)
        if not -(1 << 63) <= integer < 1 << 63:
            raise InvalidRecord(f"the argument {value} is beyond 64 bits", "give it as a text")
        return [(integer, parts.real, parts.imag, name, number, level)]
    if isinstance(value, (list, tuple)):
        if level >= layout.MOST_LEVELS:
            raise InvalidRecord("lists are nested too deep", f"{layout.MOST_LEVELS} levels at most")
        rows: list[Encoded] = [(len(value), 0.0, 0.0, name, _LIST, level)]
        for item in value:
            rows += encode(item, layout.NONE, text, level + 1)
        return rows
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a scalar of numpy
        return encode(value.item(), name, text, level)
    raise InvalidRecord(
        f"cannot record a {type(value).__name__} as an argument",
        "numbers, texts, lists, None, Symbol and Opaque are recorded; tensors belong into inputs",
    )


def _leaves(value: typing.Any, path: str = "out") -> typing.Iterator[tuple[str, typing.Any]]:
    """What a value holds that holds nothing further, each by its path, as a recorder names it."""
    items: list[tuple[str, typing.Any]] = []
    if isinstance(value, typing.Mapping):
        items = [(_key(key), item) for key, item in value.items()]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        items = [(_key(name), item) for name, item in zip(value._fields, value)]
    elif isinstance(value, (list, tuple)):
        items = [(f"[{place}]", item) for place, item in enumerate(value)]
    if not items:
        yield path, value
    for key, item in items:
        yield from _leaves(item, path + key)


def _key(key: typing.Any) -> str:
    if not isinstance(key, str):
        return f"[{key}]"
    return f".{key}" if key.isascii() and key.isidentifier() else f'["{key}"]'


def _is_scalar(value: typing.Any) -> bool:
    """Whether a value of a call is none of its tensors. An empty container is none either."""
    return value is None or isinstance(
        value, (bool, int, float, complex, str, Symbol, Opaque, typing.Mapping, list, tuple)
    )


def split_returned(value: typing.Any) -> tuple[dict[str, typing.Any], dict[str, typing.Any]]:
    """Its tensors, and whatever else is in it, by path."""
    leaves = list(_leaves(value))
    tensors = {path: leaf for path, leaf in leaves if not _is_scalar(leaf)}
    # What is left of containers are empty ones.
    scalars = {
        path: [] if isinstance(leaf, (typing.Mapping, tuple)) else leaf
        for path, leaf in leaves
        if _is_scalar(leaf)
    }
    return tensors, scalars
