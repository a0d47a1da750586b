# SPDX-License-Identifier: Apache-2.0
"""One operator of a dump, and its tensors."""

from __future__ import annotations

import dataclasses
import os
import typing

import numpy as np

from . import dtypes
from .digest import Digest
from .errors import NotStored

if typing.TYPE_CHECKING:
    from .contents import ContentStore

Array = np.ndarray[typing.Any, typing.Any]


class Slice(typing.NamedTuple):
    """Elements of a tensor that is not stored whole: those at `stride * i`, row-major."""

    digest: Digest
    elements: int
    stride: int


class Stats(typing.NamedTuple):
    """As recorded. mean, std and l2 are over finite elements, std is the population's."""

    min: float
    max: float
    mean: float
    std: float
    l2: float
    zeros: int
    nans: int
    positive_infs: int
    negative_infs: int
    subnormals: int


class NonFinite(typing.NamedTuple):
    """Elements that are no numbers; of complex ones each part counts."""

    nans: int
    positive_infs: int
    negative_infs: int


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor argument or result, as the dump has it. `numpy()` reads and verifies its bytes."""

    role: str
    slot: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]  #: in elements
    device: str
    layout: str
    attributes: str
    name: str  #: `state:encoder.3.weight`, `input:tokens`, or empty
    state: str
    digest: Digest | None
    stored: bool
    requires_grad: bool
    moved: bool | None  #: written between its digest and the call; None = nobody watched
    storage: int
    storage_offset: int
    producer: int | None  #: op index that wrote it last
    stats: Stats | None
    non_finite: NonFinite | None  #: recorded at every level; None = by nobody
    _contents: ContentStore = dataclasses.field(repr=False, compare=False)
    _where: str = dataclasses.field(repr=False, compare=False)

    def raw(self) -> Array:
        """The elements in their own width, whatever numpy knows of the dtype.

        Raises:
            NotStored, DamagedDump
        """
        if self.state != "hashed" or self.digest is None:
            raise NotStored(f"{self._where}: is {self.state}: it has no values")
        if not self.stored:
            kept = self._contents.slice_of(self.dtype, self.shape, self.digest)
            raise NotStored(
                f"{self._where}: the dump has its digest and no bytes",
                "a slice of it is stored: take slice()"
                if kept
                else 'record with "dump": {"level": "tensor"}',
            )
        return self._contents.content(self.dtype, self.shape, self.digest)

    def numpy(self) -> Array:
        """An array of its own, with dtype and shape; bfloat16 and float8 through `ml_dtypes`,
        complex32 as complex64, quantised ones as their integers.

        Raises:
            NotStored, DamagedDump, UnsupportedDtype
        """
        dtypes.numpy_dtype(self.dtype)
        return dtypes.convert(self.raw(), self.dtype)

    def slice(self) -> tuple[Array, Array]:
        """(row-major positions, values) of what is stored of a tensor that is too large.

        Raises:
            NotStored: there is no slice
        """
        kept = self.digest and self._contents.slice_of(self.dtype, self.shape, self.digest)
        if not kept:
            raise NotStored(f"{self._where}: there is no slice of it")
        values = self._contents.content(self.dtype, (kept.elements,), kept.digest)
        return np.arange(kept.elements) * kept.stride, dtypes.convert(values, self.dtype)


class Tensors(typing.Sequence[Array]):
    """The arrays of one side of an operator, by place or by slot; `records` without their bytes."""

    def __init__(self, records: tuple[Tensor, ...]) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def record(self, which: int | str) -> Tensor:
        if isinstance(which, str):
            for tensor in self.records:
                if tensor.slot == which:
                    return tensor
            slots = ", ".join(repr(tensor.slot) for tensor in self.records)
            raise KeyError(f"no tensor {which!r}; there are {slots or 'none'}")
        return self.records[which]

    def __getitem__(self, which: typing.Any) -> typing.Any:
        if isinstance(which, slice):
            return [tensor.numpy() for tensor in self.records[which]]
        return self.record(which).numpy()

    def __repr__(self) -> str:
        parts = (f"{t.slot}: {t.dtype}{list(t.shape)}" for t in self.records)
        return f"<Tensors {', '.join(parts)}>"


class Frame(typing.NamedTuple):
    file: str
    line: int
    function: str

    def __str__(self) -> str:
        """`train.py:31`, and `In [6], line 1` in a cell of a notebook."""
        name = os.path.basename(self.file)
        return f"{name}, line {self.line}" if name.startswith("In [") else f"{name}:{self.line}"


class Block(typing.NamedTuple):
    """One call of a block, a module that was chosen to be watched: digests of all tensors that went in and came out,
    None where nothing could be opened."""

    step: int
    path: str
    call: int  #: of this path within step and phase
    phase: str
    training: bool
    inputs: Digest | None
    outputs: Digest | None
    unopened: int  #: leaves of types that are not read


class Parameter(typing.NamedTuple):
    """A parameter that was read behind an optimizer's step; no digest where it moved meanwhile."""

    step: int
    name: str
    digest: Digest | None


class Substitution(typing.NamedTuple):
    argument: str
    before: str
    after: str
    reason: str


class GeneratorUse(typing.NamedTuple):
    device: str
    seed: int
    position_before: int
    position_after: int
    drawn: int


@dataclasses.dataclass(frozen=True)
class Operator:
    """One call. Two with equal `key` are the same place of the model, called again."""

    index: int
    name: str
    overload: str
    seeded: bool
    module: str
    module_type: str
    frames: tuple[Frame, ...]  #: innermost first
    phase: str
    step: int
    rank: int
    lane: int
    modes: str  #: of the calling thread, where they are not LibTorch's: `autocast.cpu=bfloat16`
    depth: int
    parent: int | None
    seconds: float
    arguments: tuple[tuple[str, typing.Any], ...]
    results: tuple[typing.Any, ...]
    tensors: tuple[Tensor, ...]
    substitutions: tuple[Substitution, ...]
    generator: GeneratorUse | None

    @property
    def full_name(self) -> str:
        """`aten::add.Tensor`"""
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def inputs(self) -> Tensors:
        return Tensors(tuple(tensor for tensor in self.tensors if tensor.role == "input"))

    @property
    def outputs(self) -> Tensors:
        return Tensors(tuple(tensor for tensor in self.tensors if tensor.role == "output"))

    @property
    def key(self) -> tuple[int, int, int, str, int, str, str]:
        return (self.rank, self.lane, self.step, self.phase, self.depth, self.module, self.full_name)

    def __repr__(self) -> str:
        return f"<Operator {self.index} {self.full_name} {self.module}>"
