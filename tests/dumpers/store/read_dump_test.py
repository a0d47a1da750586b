#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs docs/read_dump.py, and h5py alone, over a dump with awkward tensors.

read_dump_test.py MAKE_DUMP READ_DUMP FIXTURE; ends with 77 where h5py is missing.
"""
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError:
    print("h5py is not installed: skipped")
    sys.exit(77)

NAN, INF = float("nan"), float("inf")
# What the fixture describes, by slot of its first operator: dtype that h5py shows, values.
EXPECTED = {
    "flags": ("bool", [True, False, True]),
    "brain": ("float32", [[1.5, -2.0], [INF, NAN]]),
    "half": ("float16", [0.5, -1.25, 65504.0]),
    "complex": ("complex64", [1 + 2j, complex(-0.5, INF)]),
    "e5m2": ("float16", [1.0, -0.5, 57344.0]),
    "scalar": ("float64", 0.1),
    "empty": ("int64", np.empty((0, 3))),
    "wide": ("float32", [[1, 2, 3], [4, 5, 6]]),
}


def same(values, expected):
    values, expected = np.asarray(values), np.asarray(expected)
    if values.shape != expected.shape:
        return False
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    with np.errstate(invalid="ignore"):  # casting a NaN of ml_dtypes warns
        return np.array_equal(values.astype(wide), expected.astype(wide), equal_nan=True)


def check_reader(module, directory, reference=None):
    dump = module.Dump(directory, reference)
    operators = list(dump.operators())
    assert operators == [("aten::everything.all", "encoder.layers.3"), ("aten::relu", "")], operators
    tensors = {dump.text(row["slot"]): row for row in dump.tensors(0)}
    for slot, (_, expected) in EXPECTED.items():
        values = dump.read(tensors[slot])
        if slot == "e5m2" and values.dtype == np.uint8:  # no ml_dtypes: the bytes as they are
            expected = [0x3C, 0xB8, 0x7B]
        assert same(values, expected), (slot, values)
    assert same(dump.read(tensors["0"]), [448.0, 1.0] if module.ml_dtypes else [0x7E, 0x38])


def check_h5py(directory):
    with h5py.File(f"{directory}/trace.h5") as file:
        inputs = file["ops/000000 aten::everything.all/inputs"]
        for slot, (dtype, expected) in EXPECTED.items():
            assert inputs[slot].dtype == dtype, (slot, inputs[slot].dtype)
            assert same(inputs[slot][()], expected), (slot, inputs[slot][()])
        assert inputs["brain"].attrs["dtype"] == "bfloat16"
        attributes = file["ops/000000 aten::everything.all"].attrs
        assert attributes["module"] == "encoder.layers.3" and attributes["source"] == "model.py:123"


def main():
    make_dump, reader, fixture = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("read_dump", reader)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    with tempfile.TemporaryDirectory() as directory:
        dump = pathlib.Path(directory) / "dump"
        subprocess.run([make_dump, fixture, dump], check=True)
        check_h5py(dump)
        check_reader(module, dump)
        packed = pathlib.Path(directory) / "packed"
        subprocess.run([make_dump, fixture, packed, "packed"], check=True)
        check_reader(module, packed)
        referring = pathlib.Path(directory) / "referring"
        for whole in (dump, packed):
            subprocess.run([make_dump, fixture, referring, f"reference={whole}"], check=True)
            with h5py.File(referring / "trace.h5") as file:
                assert not file["content"].keys(), list(file["content"])
            check_reader(module, referring, whole)
            shutil.rmtree(referring)
        module.ml_dtypes = None  # as it is where that package is missing
        check_reader(module, dump)
        listing = subprocess.run(
            [sys.executable, "-B", reader, dump], check=True, capture_output=True, text=True
        ).stdout
        assert listing == "0\taten::everything.all\tencoder.layers.3\n1\taten::relu\t\n", listing


if __name__ == "__main__":
    main()
