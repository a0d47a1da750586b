# SPDX-License-Identifier: Apache-2.0
"""Which operator made the tensor that another one is given: what tells origin from propagated."""

from __future__ import annotations

import dataclasses
import typing
import weakref

import numpy as np

from .contents import Key


@dataclasses.dataclass
class Origin:
    storage: int
    producer: int  #: op index; -1 = no operator
    name: str = ""  #: `state:...`, `input:...`


def _owner(data: typing.Any) -> typing.Any:
    """The array that owns the memory of a view."""
    while isinstance(data, np.ndarray) and isinstance(data.base, np.ndarray):
        data = data.base
    return data


class Origins:
    """Arrays are recognised as objects (a view by what it views), for as long as they live; where
    that fails, by their content: equal bytes were made by the operator that made them last."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[weakref.ref[typing.Any], Origin]] = {}
        self._contents: dict[Key, Origin] = {}
        self._next = 0

    def new(self, producer: int, name: str = "") -> Origin:
        self._next += 1
        return Origin(self._next - 1, producer, name)

    def _by_object(self, data: typing.Any) -> Origin | None:
        found = self._objects.get(id(_owner(data)))
        return found[1] if found and found[0]() is _owner(data) else None

    def of_input(self, data: typing.Any, key: Key) -> Origin:
        found = self._by_object(data) or self._contents.get(key)
        if found is None:
            found = self.new(-1)
            self._keep(data, key, found)
        return found

    def written(self, data: typing.Any, key: Key, op: int) -> Origin:
        """An output: what was given to the operator as well was written in place."""
        found = self._by_object(data)
        origin = Origin(found.storage, op) if found else self.new(op)
        self._keep(data, key, origin)
        return origin

    def named(self, data: typing.Any, key: Key, name: str) -> None:
        self._keep(data, key, self.new(-1, name))

    def _keep(self, data: typing.Any, key: Key, origin: Origin) -> None:
        owner = _owner(data)
        self._contents[key] = origin
        try:
            reference = weakref.ref(owner)
        except TypeError:  # lists, numbers: known by content alone
            return
        self._objects[id(owner)] = (reference, origin)
