# SPDX-License-Identifier: Apache-2.0
"""trace.h5, written: plain contiguous datasets whose bytes HDF5 does not convert."""

from __future__ import annotations

import math
import os
import tempfile
import typing

import h5py
import numpy as np

from . import dtypes, layout
from .errors import ReproCheckError

SMALL = 32 << 10  #: contents up to this size are packed in a dump without /ops


def link_name(text: str) -> str:
    """A name of the tree of /ops. Cut at 200 bytes."""
    if not text:
        return "%"
    parts, size = [], 0
    for character in text:
        code = ord(character)
        plain = code >= 0x20 and code != 0x7F and character not in "/%" and not 0xD800 <= code < 0xE000
        part = character if plain else "".join(f"%{b:02X}" for b in character.encode("utf-8", "replace"))
        size += len(part.encode("utf-8"))
        if size > 200:
            break
        parts.append(part)
    name = "".join(parts)
    return "%2E" + name[1:] if name in (".", "..") else name


def make_directory(path: str) -> bool:
    """Whether it had to be made. @throws ReproCheckError where something is in it"""
    if not os.path.isdir(path):
        os.makedirs(path)
        return True
    if os.listdir(path):
        raise ReproCheckError(f"{path}: is not empty", "name a directory that does not exist yet")
    return False


def _attribute(text: str) -> str:
    """A text that HDF5 can hold, which is neither NUL nor half a character."""
    return text.replace("\0", "\\x00").encode("utf-8", "replace").decode()[:4096]


class TraceWriter:
    def __init__(self, path: str) -> None:
        self.path = path
        self._file = h5py.File(path, "x", libver=("v108", "v108"))
        for name, text in (("format", layout.FORMAT), ("version", f"{layout.MAJOR}.{layout.MINOR}")):
            self._file.attrs.create(name, np.bytes_(text))
        self._contents = self._file.create_group("content")
        self._small = tempfile.SpooledTemporaryFile(max_size=16 << 20)
        self._packed = 0

    def add(self, name: str, dtype: str, raw: np.ndarray[typing.Any, typing.Any]) -> None:
        """A content with a dataset of its own."""
        shape = raw.shape if raw.ndim <= 32 else (raw.size,)
        self._write(self._contents, name, dtypes.hdf5_type(dtype), shape, raw, dtype)

    def pack(self, data: np.ndarray[typing.Any, typing.Any]) -> int:
        """A small content behind the others; where it begins."""
        self._small.write(data.data)
        self._packed += data.nbytes
        return self._packed - data.nbytes

    def _write(
        self,
        group: h5py.Group,
        name: str,
        made: h5py.h5t.TypeID,
        shape: tuple[int, ...],
        data: np.ndarray[typing.Any, typing.Any],
        dtype: str = "",
    ) -> None:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_layout(h5py.h5d.CONTIGUOUS)
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        creation.set_obj_track_times(False)
        space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
        dataset = h5py.h5d.create(group.id, name.encode("utf-8"), made, space, creation)
        if math.prod(shape):
            # Whatever stands in memory has the very type of the dataset.
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data, mtype=made)
        if dtype:
            h5py.Dataset(dataset).attrs["dtype"] = dtype

    def link(self, op: int, operator: str, module: str, source: str) -> h5py.Group:
        """The group of one operator in the tree for people."""
        group = self._file.require_group("ops").create_group(f"{op:06} {link_name(operator)}")
        for name, text in (("operator", operator), ("module", module), ("source", source)):
            group.attrs[name] = _attribute(text)
        group.attrs["op_index"] = np.uint64(op)
        return group

    def link_tensor(self, group: h5py.Group, folder: str, slot: str, content: str) -> None:
        side = group.require_group(folder)
        name, copy = link_name(slot), 2
        while name in side:
            name, copy = f"{link_name(slot)} ({copy})", copy + 1
        side[name] = self._contents[content]

    def finish(self, tables: typing.Iterable[tuple[str, np.ndarray[typing.Any, typing.Any]]]) -> None:
        """Writes /index and /packed, and forces the file to the disk."""
        index = self._file.create_group("index")
        for name, rows in tables:
            self._write(index, name, h5py.h5t.py_create(rows.dtype), rows.shape, rows)
        if self._packed:
            self._write_packed()
        self.close()
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _write_packed(self) -> None:
        self._small.seek(0)
        data = np.frombuffer(self._small.read(), "u1")
        self._write(self._file["/"], "packed", h5py.h5t.STD_U8LE.copy(), data.shape, data)

    def close(self) -> None:
        self._file.close()
        self._small.close()
