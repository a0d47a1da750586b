# SPDX-License-Identifier: Apache-2.0
"""The bytes of tensors: where they lie, held against their digests each time they are read."""

from __future__ import annotations

import math
import typing

import numpy as np

from . import digest, dtypes, layout
from .digest import Digest
from .errors import NotStored
from .index import Index
from .records import Array, Slice
from .trace import TraceFile

Key = typing.Tuple[str, typing.Tuple[int, ...], Digest]


class ContentStore:
    def __init__(self, directory: str, algorithm: str, trace: TraceFile, index: Index) -> None:
        self.directory = directory
        self.reference: ContentStore | None = None
        self.reference_name = ""  #: run name of the dump that holds the rest
        self._algorithm = algorithm
        self._trace = trace
        self._index = index
        self.places = self._read_places()
        self._slices = self._read_slices()
        self._packed = self._find_packed()

    def __contains__(self, key: object) -> bool:
        return key in self.places

    def referred(self) -> int:
        """How many contents lie in another dump."""
        return sum(place == layout.IN_REFERENCE for place in self.places.values())

    def _read_places(self) -> dict[Key, int]:
        places: dict[Key, int] = {}
        packs = self._index.has_member("contents", "packed")
        for number, row in enumerate(self._index.records("contents")):
            name, shape = row["dtype"], row["shape"]
            if name == "unknown" or row["bytes"] != math.prod(shape) * dtypes.raw_dtype(name).itemsize:
                self._trace.fail(f"row {number} is no tensor of {row['bytes']} bytes", "/index/contents")
            place = row["packed"] if packs else layout.OWN_DATASET
            if place < layout.IN_REFERENCE:
                self._trace.fail(f"row {number} lies nowhere", "/index/contents")
            places[name, shape, row["digest"]] = place
        return places

    def _read_slices(self) -> dict[Key, Slice]:
        slices: dict[Key, Slice] = {}
        for number, row in enumerate(self._index.records("slices")):
            name, shape = row["dtype"], row["shape"]
            kept = Slice(Digest(row["slice_high"], row["slice_low"]), row["elements"], row["stride"])
            reaches = (kept.elements - 1) * kept.stride < math.prod(shape) if kept.elements else True
            if not (0 <= kept.elements < math.prod(shape) and kept.stride and reaches):
                self._trace.fail(f"row {number} is no slice", "/index/slices")
            if (name, (kept.elements,), kept.digest) not in self.places:
                self._trace.fail(f"row {number} refers to a content that is not listed", "/index/slices")
            slices[name, shape, row["digest"]] = kept
        return slices

    def _find_packed(self) -> Array:
        if not self._trace.has("packed"):
            return np.empty(0, "u1")
        found = self._trace.dataset("packed")
        if len(found.shape) != 1 or found.type.get_size() != 1:
            self._trace.fail("is not a list of bytes", "/packed")
        return found.bytes

    def slice_of(self, dtype: str, shape: tuple[int, ...], digest: Digest) -> Slice | None:
        return self._slices.get((dtype, shape, digest))

    def content(self, dtype: str, shape: tuple[int, ...], digest: Digest) -> Array:
        """Raw elements of one stored content, held against its digest.

        Raises:
            NotStored, DamagedDump
        """
        name = content_name(dtype, shape, digest)
        place = self.places.get((dtype, shape, digest))
        if place is None:
            raise NotStored(f"{self.directory}: content {name} is not stored")
        if place == layout.IN_REFERENCE:
            if self.reference is None:
                raise NotStored(
                    f"{self.directory}: content {name} lies in another dump",
                    f'open it with reference=DIR, the dump of the run "{self.reference_name}"',
                )
            return self.reference.content(dtype, shape, digest)
        return self._own(dtype, shape, digest, name, place)

    def _own(self, dtype: str, shape: tuple[int, ...], stated: Digest, name: str, place: int) -> Array:
        if self._algorithm != digest.ALGORITHM:
            raise NotStored(
                f'{self.directory}: its digests are "{self._algorithm}", which cannot be verified'
            )
        raw = dtypes.raw_dtype(dtype)
        if place == layout.OWN_DATASET:
            found = self._trace.dataset("content/" + name)
            flat = shape if len(shape) <= 32 else (math.prod(shape),)
            if found.shape != flat or not found.type.equal(dtypes.hdf5_type(dtype)):
                self._trace.fail("is of another dtype or shape than its name", "/content/" + name)
            data = np.array(found.bytes)
        else:
            end = place + math.prod(shape) * raw.itemsize
            if end > self._packed.size:
                self._trace.fail(f"ends before content {name} does", "/packed")
            data = np.array(self._packed[place:end])
        if digest.of_bytes(data) != stated:
            self._trace.fail("the stored bytes do not match their digest", "/content/" + name)
        return data.view(raw).reshape(shape)

    def verify(self) -> int:
        """Reads every content that can be reached, and returns how many.

        Raises:
            DamagedDump: a content does not match its digest
        """
        count = 0
        for (dtype, shape, stated), place in self.places.items():
            if place == layout.IN_REFERENCE and self.reference is None:
                continue
            self.content(dtype, shape, stated)
            count += 1
        return count


def content_name(dtype: str, shape: tuple[int, ...], digest: Digest) -> str:
    """Name of the dataset of a content."""
    return f"{digest}-{dtype}-{'x'.join(map(str, shape)) or 'scalar'}"
