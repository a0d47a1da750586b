#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NumPy writes arrays of every kind, our reader and writer pass them on, NumPy compares:
`npy_against_numpy.py NPY_ROUNDTRIP`. Exit 77 (skipped) where NumPy is missing."""
import itertools
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

DTYPES = ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"]
SHAPES = [(), (1,), (0,), (7,), (3, 4), (2, 3, 4), (2, 0, 3), (1, 5, 1, 2)]


def main(program: str) -> int:
    random = np.random.default_rng(1)
    compared = 0
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.npy", Path(folder) / "out.npy"
        for dtype, shape, order, byte_order in itertools.product(DTYPES, SHAPES, "CF", "<>"):
            array = random.integers(0, 2 if dtype == "?" else 100, shape)
            array = np.asarray(array).astype(np.dtype(dtype).newbyteorder(byte_order), order=order)
            np.save(source, array)
            subprocess.run([program, source, target], check=True)
            back = np.load(target, allow_pickle=False)
            assert back.dtype == array.dtype.newbyteorder("="), (dtype, back.dtype)
            assert back.shape == array.shape and np.array_equal(back, array), (dtype, shape, order)
            assert back.flags["C_CONTIGUOUS"]
            compared += 1
    print(f"{compared} arrays compared")
    return 0 if compared == len(DTYPES) * len(SHAPES) * 4 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
