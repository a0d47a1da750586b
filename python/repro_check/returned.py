# SPDX-License-Identifier: Apache-2.0
"""What a call returned, as the last record of the call (docs/DUMP_FORMAT.md)."""

from __future__ import annotations

import typing

from . import values


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
        value, (bool, int, float, complex, str, values.Symbol, typing.Mapping, list, tuple)
    )


def split(value: typing.Any) -> tuple[dict[str, typing.Any], dict[str, typing.Any]]:
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
