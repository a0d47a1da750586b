# SPDX-License-Identifier: Apache-2.0
"""The dtypes of the format: their numbers, and what numpy and HDF5 make of them."""

from __future__ import annotations

import typing

import h5py
import numpy as np

from . import rows
from .errors import UnsupportedDtype

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None  # type: ignore[assignment]

NAMES = rows.DTYPES
NUMBERS = {name: number for number, name in enumerate(NAMES)}

_COMPLEX32 = np.dtype([("r", "<f2"), ("i", "<f2")])
# How the bytes lie in memory, for what numpy itself does not know or names otherwise.
_RAW = {
    "bfloat16": np.dtype("<u2"),
    "complex32": _COMPLEX32,
    "qint8": np.dtype("i1"),
    "quint8": np.dtype("u1"),
    "qint32": np.dtype("<i4"),
    "float4_e2m1fn_x2": np.dtype("u1"),
}


class Float(typing.NamedTuple):
    """How the bits of a floating dtype are read: sign, exponent, mantissa."""

    exponent: int  #: bits
    mantissa: int
    bias: int
    #: What is no number: "ieee" has infinities, "fn" has NaN where all bits but the sign are set,
    #: "fnuz" where the sign alone is.
    ends: str = "ieee"

    @property
    def sign(self) -> int:
        """Position of the sign, behind the others."""
        return self.exponent + self.mantissa


FLOATS = {
    "float16": Float(5, 10, 15),
    "bfloat16": Float(8, 7, 127),
    "float32": Float(8, 23, 127),
    "float64": Float(11, 52, 1023),
    "float8_e4m3fn": Float(4, 3, 7, "fn"),
    "float8_e4m3fnuz": Float(4, 3, 8, "fnuz"),
    "float8_e5m2": Float(5, 2, 15),
    "float8_e5m2fnuz": Float(5, 2, 16, "fnuz"),
}
#: Of each of the two numbers of a complex one.
PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_NEEDS_ML_DTYPES = {"bfloat16", "float8_e8m0fnu"} | {n for n in FLOATS if n.startswith("float8")}


def raw_dtype(name: str) -> np.dtype[typing.Any]:
    """Little-endian numpy dtype with the width of one element; unsigned where numpy has no better."""
    if name in _RAW:
        return _RAW[name]
    if name.startswith("float8"):
        return np.dtype("u1")
    return np.dtype(name).newbyteorder("<")


def numpy_dtype(name: str) -> np.dtype[typing.Any]:
    """What `Tensor.numpy()` answers with.

    Raises:
        UnsupportedDtype: that needs `ml_dtypes`
    """
    if name == "complex32":
        return np.dtype("complex64")
    if name not in _NEEDS_ML_DTYPES:
        return raw_dtype(name)
    known = getattr(ml_dtypes, name, None)
    if known is None:
        raise UnsupportedDtype(
            f"numpy has no {name}", "pip install ml_dtypes, or take the bytes with raw()"
        )
    made: np.dtype[typing.Any] = np.dtype(known)
    return made


def convert(raw: np.ndarray[typing.Any, typing.Any], name: str) -> np.ndarray[typing.Any, typing.Any]:
    """Raw elements as `numpy_dtype(name)`, exactly."""
    if name == "complex32":
        wide = np.empty(raw.shape, "complex64")
        wide.real, wide.imag = raw["r"], raw["i"]
        return wide
    wanted = numpy_dtype(name)
    return raw if raw.dtype == wanted else raw.view(wanted)


def name_of(dtype: np.dtype[typing.Any]) -> str:
    """Name in the format of a numpy dtype, those of `ml_dtypes` included.

    Raises:
        UnsupportedDtype
    """
    if dtype == _COMPLEX32:
        return "complex32"
    if dtype.name in NUMBERS and dtype.name != "unknown":
        return dtype.name
    raise UnsupportedDtype(
        f"a dump cannot hold the dtype {dtype}",
        'convert it first, or give the bytes: repro_check.tensor(raw, dtype="bfloat16")',
    )


def _float_type(name: str) -> h5py.h5t.TypeID:
    bits = FLOATS[name]
    made = h5py.h5t.IEEE_F32LE.copy()
    made.set_fields(bits.sign, bits.mantissa, bits.exponent, 0, bits.mantissa)
    made.set_size((bits.sign + 1) // 8)
    made.set_ebias(bits.bias)
    return made


def hdf5_type(name: str) -> h5py.h5t.TypeID:
    """The type of a dataset of /content, as the table of the format has it."""
    if name in FLOATS and name not in ("float32", "float64"):
        return _float_type(name)
    if name == "complex32":
        made = h5py.h5t.create(h5py.h5t.COMPOUND, 4)
        made.insert(b"r", 0, _float_type("float16"))
        made.insert(b"i", 2, _float_type("float16"))
        return made
    return h5py.h5t.py_create(raw_dtype(name), logical=True)
