# SPDX-License-Identifier: Apache-2.0
"""XXH3-128 by the rule `xxh3-128-tree-1MiB` of docs/DUMP_FORMAT.md."""

from __future__ import annotations

import typing

import xxhash

ALGORITHM = "xxh3-128-tree-1MiB"
CHUNK = 1 << 20


class Digest(typing.NamedTuple):
    high: int
    low: int

    def __str__(self) -> str:
        return f"{self.high:016x}{self.low:016x}"


ZERO = Digest(0, 0)


def _leaf(data: typing.Any) -> Digest:
    value = xxhash.xxh3_128_intdigest(data)
    return Digest(value >> 64, value & 0xFFFFFFFFFFFFFFFF)


def of_bytes(data: typing.Any) -> Digest:
    """Digest of anything with a contiguous buffer: bytes, memoryview, ndarray of uint8."""
    view = memoryview(data)
    if view.nbytes == 0:
        return _leaf(b"")
    view = view.cast("B")
    if view.nbytes <= CHUNK:
        return _leaf(view)
    leaves = bytearray()
    for begin in range(0, view.nbytes, CHUNK):
        leaf = _leaf(view[begin : begin + CHUNK])
        leaves += leaf.high.to_bytes(8, "little") + leaf.low.to_bytes(8, "little")
    return _leaf(bytes(leaves))


def of_border(leaves: typing.Iterable[tuple[Digest, int, tuple[int, ...]]]) -> Digest | None:
    """Of a border of a block: of content, number of the dtype, and shape of each of its tensors, in order; None where
    there are none."""
    data = bytearray()
    for content, dtype, shape in leaves:
        for number in (*content, dtype, len(shape), *shape):
            data += number.to_bytes(8, "little")
    return of_bytes(bytes(data)) if data else None


def parse(text: object) -> Digest | None:
    """None unless `text` is 32 lower-case hexadecimal digits."""
    if not isinstance(text, str) or len(text) != 32 or set(text) - set("0123456789abcdef"):
        return None
    return Digest(int(text[:16], 16), int(text[16:], 16))
