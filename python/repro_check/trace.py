# SPDX-License-Identifier: Apache-2.0
"""trace.h5: plain contiguous datasets, whose bytes are mapped past HDF5, which would convert some of the
dtypes and read all of it; and written without being converted."""

from __future__ import annotations

import math
import os
import stat
import tempfile
import typing

import h5py
import numpy as np

from . import dtypes, layout, manifest
from .errors import DamagedDump, ReproCheckError

Bytes: typing.TypeAlias = "np.ndarray[typing.Any, np.dtype[np.uint8]]"

HINT = "the dump is damaged; copy it again or record the run again"


class Found(typing.NamedTuple):
    type: h5py.h5t.TypeID
    shape: tuple[int, ...]
    bytes: Bytes  #: to look at; who changes them takes a copy


def little_endian(made: h5py.h5t.TypeID) -> h5py.h5t.TypeID | None:
    """The same type with every number in it little-endian; none where no dump holds such elements."""
    if isinstance(made, h5py.h5t.TypeCompoundID):
        ours = h5py.h5t.create(h5py.h5t.COMPOUND, made.get_size())
        for i in range(made.get_nmembers()):
            member = little_endian(made.get_member_type(i))
            if member is None:
                return None
            ours.insert(made.get_member_name(i), made.get_member_offset(i), member)
        return ours
    if isinstance(made, h5py.h5t.TypeEnumID):
        return made
    if not isinstance(made, (h5py.h5t.TypeIntegerID, h5py.h5t.TypeFloatID)):
        return None
    copy = made.copy()
    copy.set_order(h5py.h5t.ORDER_LE)
    return copy


def plain_file(path: str) -> typing.BinaryIO:
    """Opens a regular file that is no link.

    Raises:
        DamagedDump
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        raise DamagedDump(f"{path}: is missing", HINT) from None
    except OSError as error:
        if os.path.islink(path):
            raise DamagedDump(f"{path}: is a link", HINT) from None
        raise error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DamagedDump(f"{path}: is not a file", HINT)
    return os.fdopen(descriptor, "rb")


class TraceFile:
    def __init__(self, path: str) -> None:
        self.path = path
        self._plain = plain_file(path)
        try:
            self.size = os.fstat(self._plain.fileno()).st_size
            self._file = h5py.File(path, "r")
        except (OSError, RuntimeError) as error:
            self._plain.close()
            raise DamagedDump(f"{path}: is not a whole HDF5 file ({error})", HINT) from None

    def close(self) -> None:
        self._file.close()
        self._plain.close()

    def fail(self, what: str, inside: str = "") -> typing.NoReturn:
        raise DamagedDump(f"{self.path}: {inside + ': ' if inside else ''}{what}", HINT)

    def text_attribute(self, name: str) -> str:
        """A text of fixed length at the root."""
        try:
            attribute = h5py.h5a.open(self._file.id, name.encode())
            made = attribute.get_type()
            fixed = isinstance(made, h5py.h5t.TypeStringID) and not made.is_variable_str()
            if fixed and made.get_size() <= 64 and attribute.shape in ((), (1,)):
                value = np.empty((), f"S{made.get_size()}")
                attribute.read(value.reshape(attribute.shape))
                return bytes(value[()]).decode("utf-8", "replace")
        except (KeyError, OSError, RuntimeError, ValueError):
            pass
        self.fail("is not a short text of fixed length", f'attribute "{name}"')

    def names(self, group: str, limit: int) -> list[str]:
        """Names in a group of the root, in byte order."""
        self._expect_hard_link(group)
        try:
            names = [bytes(name) for name in self._file[group].id]
        except (KeyError, OSError, RuntimeError, AttributeError, TypeError) as error:
            self.fail(f"cannot be listed ({error})", "/" + group)
        if len(names) > limit:
            self.fail("holds too many datasets", "/" + group)
        return [name.decode("utf-8", "surrogateescape") for name in sorted(names)]

    def _expect_hard_link(self, path: str) -> None:
        at = ""
        for part in path.split("/"):
            at = f"{at}/{part}"
            try:
                link = self._file.get(at, getlink=True)
            except (KeyError, OSError, RuntimeError) as error:
                self.fail(f"cannot be read ({error})", at)
            if link is None:
                self.fail("is missing", at)
            if not isinstance(link, h5py.HardLink):
                self.fail("is a link", at)

    def has(self, path: str) -> bool:
        return path in self._file

    def dataset(self, path: str) -> Found:
        """A dataset of this file. One that is not contiguous and little-endian, as another program
        may store it, is read into memory; the others are mapped.

        Raises:
            DamagedDump
        """
        place = "/" + path
        self._expect_hard_link(path)
        try:
            dataset = h5py.h5d.open(self._file.id, path.encode("utf-8", "surrogateescape"))
            made, creation = dataset.get_type(), dataset.get_create_plist()
            layout = creation.get_layout()
            elsewhere = creation.get_external_count() or creation.get_nfilters()
            shape = tuple(int(size) for size in dataset.shape or ())
            scalar = dataset.get_space().get_simple_extent_type()
            offset, stored = dataset.get_offset(), dataset.get_storage_size()
        except (KeyError, OSError, RuntimeError, ValueError, TypeError) as error:
            self.fail(f"cannot be read ({error})", place)
        if layout not in (h5py.h5d.CONTIGUOUS, h5py.h5d.CHUNKED, h5py.h5d.COMPACT):
            self.fail("is stored in other datasets", place)
        if elsewhere:
            self.fail("is stored in another file, or through a filter", place)
        if scalar not in (h5py.h5s.SIMPLE, h5py.h5s.SCALAR):
            self.fail("has no shape", place)
        size = made.get_size()
        for extent in shape:
            size *= extent
        plain, ours = layout == h5py.h5d.CONTIGUOUS, little_endian(made)
        if plain and size and offset is None:
            self.fail("has no bytes", place)
        if plain and size and offset + size > self.size:
            self.fail("lies beyond the end of the file", place)
        if plain and (ours is None or ours.equal(made)):
            mapped = np.memmap(self._plain, "u1", "r", offset, (size,)) if size else np.empty(0, "u1")
            return Found(made, shape, np.asarray(mapped))
        # Chunks that are not there read as zeros, of which a small file could announce any number.
        if not size <= stored <= self.size:
            self.fail("has no bytes", place)
        if ours is None:
            self.fail("has elements of a kind that no dump holds", place)
        into = np.empty(size, "u1")
        try:
            if size:
                dataset.read(h5py.h5s.ALL, h5py.h5s.ALL, into, ours)
        except (OSError, RuntimeError, ValueError, TypeError) as error:
            self.fail(f"cannot be read ({error})", place)
        return Found(ours, shape, into)


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
    """Whether it had to be made.

    Raises:
        ReproCheckError: something is in it
    """
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
            self._small.seek(0)
            data = np.frombuffer(self._small.read(), "u1")
            self._write(self._file["/"], "packed", h5py.h5t.STD_U8LE.copy(), data.shape, data)
        self.close()
        manifest.sync(self.path)

    def close(self) -> None:
        self._file.close()
        self._small.close()
