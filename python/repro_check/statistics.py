# SPDX-License-Identifier: Apache-2.0
"""Statistics of a tensor, by the definitions of the format's table `stats`."""

from __future__ import annotations

import numpy as np

from . import dtypes
from .records import Array, NonFinite, Stats

_NIBBLES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def _numbers(raw: Array, dtype: str) -> Array:
    """Every number in float64: two an element of complex and packed dtypes."""
    flat = np.ascontiguousarray(raw).reshape(-1)
    if dtype == "float4_e2m1fn_x2":
        return _NIBBLES[np.stack([flat & 0xF, flat >> 4], axis=-1)].reshape(-1)
    if dtype in dtypes.PARTS:
        return flat.view(dtypes.raw_dtype(dtypes.PARTS[dtype])).astype("f8")
    if dtype == "bfloat16":
        return (flat.astype("u4") << 16).view("f4").astype("f8")
    with np.errstate(invalid="ignore"):
        return dtypes.convert(flat, dtype).astype("f8")


def _smallest_normal(dtype: str) -> float:
    """Integers have no subnormals."""
    if dtype == "float4_e2m1fn_x2":
        return 1.0
    bits = dtypes.FLOATS.get(dtypes.PARTS.get(dtype, dtype))
    return 2.0 ** (1 - bits.bias) if bits else 0.0


def of_raw(raw: Array, dtype: str) -> Stats:
    """min and max over all but NaN, mean, std and l2 over finite numbers; NaN where there are none.

    Raises:
        UnsupportedDtype: for 8-bit floats without `ml_dtypes`
    """
    numbers = _numbers(raw, dtype)
    nan = float("nan")
    finite, real = numbers[np.isfinite(numbers)], numbers[~np.isnan(numbers)]
    mean = float(finite.mean()) if finite.size else nan
    small = (numbers != 0) & (np.abs(numbers) < _smallest_normal(dtype))
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


def non_finite(raw: Array, dtype: str) -> NonFinite:
    """By the bits, whatever numpy knows of the dtype."""
    part = dtypes.PARTS.get(dtype, dtype)
    bits = dtypes.FLOATS.get(part)
    if bits is None and dtype != "float8_e8m0fnu":
        return NonFinite(0, 0, 0)
    size = dtypes.raw_dtype(part).itemsize
    lanes = np.ascontiguousarray(raw).reshape(-1).view(f"<u{size}")

    def count(mask: int, wanted: int) -> int:
        kind = lanes.dtype.type
        return int(np.count_nonzero((lanes & kind(mask)) == kind(wanted)))

    if bits is None:
        return NonFinite(count(0xFF, 0xFF), 0, 0)
    sign = 1 << bits.sign
    if bits.ends != "ieee":
        return NonFinite(count(sign - 1, sign - 1) if bits.ends == "fn" else count(0xFF, sign), 0, 0)
    exponent = sign - (1 << bits.mantissa)
    odd = count(exponent, exponent)
    infinities = [count(2 * sign - 1, wanted) for wanted in (exponent, exponent | sign) if odd] or [0, 0]
    return NonFinite(odd - sum(infinities), *infinities)
