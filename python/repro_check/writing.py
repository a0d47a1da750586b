# SPDX-License-Identifier: Apache-2.0
"""What a writer is given: arrays of any framework, as the bytes that a dump holds."""

from __future__ import annotations

import dataclasses
import typing

import numpy as np

from . import dtypes, layout, values
from .contents import Key
from .digest import Digest, of_bytes
from .errors import InvalidRecord
from .records import Array

Data = typing.Any  #: an array of any framework that numpy takes, or `tensor(...)`
TensorArguments = typing.Union[typing.Mapping[str, Data], typing.Sequence[Data]]
Source = typing.Union[str, typing.Tuple[str, int], None]


@dataclasses.dataclass(frozen=True)
class Given:
    """An input or output of `DumpWriter.op` that needs more than its array: `repro_check.tensor`.

    dtype: name in the format, where numpy has no such dtype: `data` then holds the raw elements
        (uint16 for bfloat16, int8 for qint8, [("r", "<f2"), ("i", "<f2")] for complex32).
    attributes: exact quantiser parameters, as text; compared as they stand.
    producer: op index that made the values, where the writer cannot know it.
    """

    data: typing.Any
    dtype: str | None = None
    device: str | None = None
    layout: str = "strided"
    attributes: str = ""
    requires_grad: bool = False
    producer: int | None = None


@dataclasses.dataclass(frozen=True)
class Content:
    """The bytes of one tensor in logical order."""

    raw: Array  #: contiguous
    dtype: str
    strides: tuple[int, ...]
    bytes: Array
    digest: Digest

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.raw.shape)

    @property
    def key(self) -> Key:
        return self.dtype, self.shape, self.digest


def _strides(array: Array) -> tuple[int, ...]:
    """In elements; those of a contiguous tensor where the array's own are no multiple of one."""
    if array.size and all(stride % array.itemsize == 0 for stride in array.strides):
        return tuple(stride // array.itemsize for stride in array.strides)
    strides, step = [], 1
    for size in reversed(array.shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def content_of(given: Given) -> Content:
    """@throws InvalidRecord, UnsupportedDtype"""
    array = np.asarray(given.data)
    name = given.dtype or dtypes.name_of(array.dtype)
    if name not in dtypes.NUMBERS or name == "unknown":
        raise InvalidRecord(f'"{name}" is no dtype of the format', f"they are {', '.join(dtypes.NAMES[1:])}")
    raw = dtypes.raw_dtype(name)
    if array.dtype.itemsize != raw.itemsize:
        raise InvalidRecord(
            f"elements of {array.dtype} are not those of {name}", f"give the raw elements as {raw}"
        )
    strides = _strides(array)
    if array.dtype.byteorder == ">" or (array.dtype.kind in "iufc" and not array.dtype.isnative):
        array = array.astype(array.dtype.newbyteorder("<"))
    flat = np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray makes 0-d 1-d
    flat = flat.view(raw) if flat.dtype != raw else flat
    data = flat.reshape(-1).view("u1") if flat.size else np.empty(0, "u1")
    return Content(flat, name, strides, data, of_bytes(data))


class Use(typing.NamedTuple):
    """A tensor of one operator, checked and not yet written; an undefined one has no content."""

    role: str
    slot: str
    given: Given | None
    content: Content | None


def uses(role: str, tensors: TensorArguments) -> list[Use]:
    """@throws InvalidRecord, UnsupportedDtype"""
    named = tensors.items() if isinstance(tensors, typing.Mapping) else enumerate(tensors)
    found = []
    for slot, data in named:
        given = data if data is None or isinstance(data, Given) else Given(data)
        found.append(Use(role, str(slot), given, None if given is None else content_of(given)))
    return found


def value_rows(
    tensors: typing.Sequence[Use],
    arguments: typing.Mapping[str, typing.Any],
    results: typing.Sequence[typing.Any],
    text: typing.Callable[[str], int],
) -> tuple[list[values.Encoded], list[values.Encoded]]:
    """Rows of `values`, those of the arguments and those of the results: tensors come first."""
    sides: dict[str, list[values.Encoded]] = {"input": [], "output": []}
    for place, use in enumerate(tensors):
        name = text(use.slot) if use.role == "input" else layout.NONE
        sides[use.role] += values.encode(values.TensorSlot(place), name, text)
    for name_, value in arguments.items():
        sides["input"] += values.encode(value, text(name_), text)
    for value in results:
        sides["output"] += values.encode(value, layout.NONE, text)
    return sides["input"], sides["output"]


def frame_of(source: Source) -> tuple[str, int] | None:
    if isinstance(source, str):
        file, _, line = source.rpartition(":")
        return (file, int(line)) if file and line.isdigit() else (source, 0)
    return source


def check_place(number: int, phase: str, parent: int | None) -> None:
    """@throws InvalidRecord where an operator cannot stand there"""
    if phase not in layout.PHASES:
        raise InvalidRecord(f'phase "{phase}" is unknown', f"take one of {', '.join(layout.PHASES)}")
    if parent is not None and not 0 <= parent < number:
        raise InvalidRecord(f"op {number} cannot have the parent {parent}", "record that one first")
