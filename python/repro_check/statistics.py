# SPDX-License-Identifier: Apache-2.0
"""Statistics of a tensor, by the definitions of the format's table `stats`."""

from __future__ import annotations

import typing

import numpy as np

from . import dtypes
from .records import Array, NonFinite, Stats

_NIBBLES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
# Smallest normal number; integers have no subnormals.
_NORMAL = {
    "float16": 2.0**-14,
    "complex32": 2.0**-14,
    "bfloat16": 2.0**-126,
    "float32": 2.0**-126,
    "complex64": 2.0**-126,
    "float64": 2.0**-1022,
    "complex128": 2.0**-1022,
    "float8_e4m3fn": 2.0**-6,
    "float8_e5m2": 2.0**-14,
    "float8_e4m3fnuz": 2.0**-7,
    "float8_e5m2fnuz": 2.0**-15,
    "float4_e2m1fn_x2": 1.0,
}


def _numbers(raw: Array, dtype: str) -> Array:
    """Every number in float64: two an element of complex and packed dtypes."""
    flat = np.ascontiguousarray(raw).reshape(-1)
    if dtype == "float4_e2m1fn_x2":
        return _NIBBLES[np.stack([flat & 0xF, flat >> 4], axis=-1)].reshape(-1)
    if dtype == "complex32":
        return flat.view("<f2").astype("f8")
    if dtype in ("complex64", "complex128"):
        return flat.view("<f4" if dtype == "complex64" else "<f8").astype("f8")
    if dtype == "bfloat16":
        return (flat.astype("u4") << 16).view("f4").astype("f8")
    with np.errstate(invalid="ignore"):
        return dtypes.convert(flat, dtype).astype("f8")


def of_raw(raw: Array, dtype: str) -> Stats:
    """min and max over all but NaN, mean, std and l2 over finite numbers; NaN where there are none.
    @throws UnsupportedDtype for 8-bit floats without `ml_dtypes`"""
    numbers = _numbers(raw, dtype)
    nan = float("nan")
    finite, real = numbers[np.isfinite(numbers)], numbers[~np.isnan(numbers)]
    mean = float(finite.mean()) if finite.size else nan
    small = (numbers != 0) & (np.abs(numbers) < _NORMAL.get(dtype, 0.0))
    return Stats(
        min=float(real.min()) if real.size else nan,
        max=float(real.max()) if real.size else nan,
        mean=mean,
        std=float(np.sqrt(np.square(finite - mean).mean())) if finite.size else nan,
        l2=float(np.sqrt(np.square(finite).sum())) if finite.size else nan,
        zeros=int((numbers == 0).sum()),
        nans=int(np.isnan(numbers).sum()),
        positive_infs=int((numbers == np.inf).sum()),
        negative_infs=int((numbers == -np.inf).sum()),
        subnormals=int(small.sum()),
    )


# How dtypes spell what is no number: bits in a mask, and the sign bit where they have an infinity.
_ODD = {
    "float16": ("<u2", 0x7C00, 0x7C00, 0x8000),
    "complex32": ("<u2", 0x7C00, 0x7C00, 0x8000),
    "bfloat16": ("<u2", 0x7F80, 0x7F80, 0x8000),
    "float32": ("<u4", 0x7F800000, 0x7F800000, 0x80000000),
    "complex64": ("<u4", 0x7F800000, 0x7F800000, 0x80000000),
    "float64": ("<u8", 0x7FF << 52, 0x7FF << 52, 1 << 63),
    "complex128": ("<u8", 0x7FF << 52, 0x7FF << 52, 1 << 63),
    "float8_e5m2": ("u1", 0x7C, 0x7C, 0x80),
    "float8_e4m3fn": ("u1", 0x7F, 0x7F, 0),
    "float8_e4m3fnuz": ("u1", 0xFF, 0x80, 0),
    "float8_e5m2fnuz": ("u1", 0xFF, 0x80, 0),
    "float8_e8m0fnu": ("u1", 0xFF, 0xFF, 0),
}


def non_finite(raw: Array, dtype: str) -> NonFinite:
    """By the bits, whatever numpy knows of the dtype."""
    if dtype not in _ODD:
        return NonFinite(0, 0, 0)
    code, mask, odd, sign = _ODD[dtype]
    lanes = np.ascontiguousarray(raw).reshape(-1).view(code)
    kind = lanes.dtype.type
    count = int(np.count_nonzero((lanes & kind(mask)) == kind(odd)))
    if not count or not sign:
        return NonFinite(count, 0, 0)
    infs = [int(np.count_nonzero(lanes == kind(bits))) for bits in (odd, odd | sign)]
    return NonFinite(count - sum(infs), *infs)


def as_row(stats: Stats | None) -> dict[str, typing.Any]:
    names = Stats.__dataclass_fields__
    return {name: None if stats is None else getattr(stats, name) for name in names}
