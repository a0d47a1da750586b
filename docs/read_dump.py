#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a dump of repro-check: read_dump.py DUMP lists operators, read_dump.py DUMP OP shows one,
and read_dump.py DUMP OP REFERENCE one of a dump that refers to another."""
import sys

import h5py
import numpy as np

try:
    import ml_dtypes
except ImportError:  # bfloat16 is widened then, float8 stays bytes
    ml_dtypes = None

DTYPES = """unknown bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32
float64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2
complex32 complex64 complex128 qint8 quint8 qint32""".split()
RAW = {"bfloat16": "<u2", "complex32": [("r", "<f2"), ("i", "<f2")]}  # what numpy has no name for


def begin(dataset):
    """Where its bytes lie in the file."""
    offset = dataset.id.get_offset()
    if offset is None and dataset.size:
        sys.exit(f"{dataset.name} is not stored contiguously; python/repro_check reads it")
    return offset or 0


class Dump:
    def __init__(self, directory, reference=None):
        self.reference = Dump(reference) if reference else None
        self.path = f"{directory}/trace.h5"
        self.file = h5py.File(self.path, "r")
        self.index = {name: rows[()] for name, rows in self.file["index"].items()}
        self.packed = self.places()
        self.texts = self.index["text_bytes"].tobytes()

    def places(self):
        """Where in the file the contents lie that have no dataset of their own, by digest."""
        rows = self.index["contents"]
        if "packed" not in rows.dtype.names:
            return {}
        first = begin(self.file["packed"]) if "packed" in self.file else 0
        return {
            (row["digest_high"], row["digest_low"]): first + int(row["packed"])
            if row["packed"] >= 0
            else None  # in the reference
            for row in rows[rows["packed"] != -1]
        }

    def text(self, number):
        begin, end = self.index["text_offsets"][number : number + 2]
        return self.texts[begin:end].decode("utf-8", "replace")

    def operators(self):
        for op in self.index["ops"]:
            name = self.index["operators"][op["op"]]
            site = self.index["sites"][op["site"]] if op["site"] != 0xFFFFFFFF else None
            full = [self.text(name["name"]), self.text(name["overload"])]
            yield ".".join(filter(None, full)), self.text(site["module_path"]) if site else ""

    def tensors(self, op_index):
        op = self.index["ops"][op_index]
        return self.index["tensors"][op["tensors_begin"] :][: op["tensor_count"]]

    def read(self, tensor):
        shape = self.index["dims"][tensor["shape_begin"] :][: tensor["shape_count"]]
        return self.content((tensor["digest_high"], tensor["digest_low"]), tensor["dtype"], shape)

    def content(self, digest, dtype, shape):
        dtype = DTYPES[dtype]
        size = "x".join(map(str, shape)) or "scalar"
        name = f"{digest[0]:016x}{digest[1]:016x}-{dtype}-{size}"
        offset = self.packed.get(digest, -1)
        if offset is None:
            return self.reference.content(digest, DTYPES.index(dtype), shape)
        if offset == -1:  # a tensor without elements lies nowhere
            offset = begin(self.file["content"][name])
        known = getattr(ml_dtypes, dtype, None) or RAW.get(dtype, dtype.replace("qu", "u").lstrip("q"))
        raw = np.dtype("u1" if dtype.startswith("float8") and not ml_dtypes else known)
        values = np.fromfile(self.path, raw, int(np.prod(shape)), offset=offset).reshape(shape)
        widen = dtype == "bfloat16" and not ml_dtypes
        return (values.astype("u4") << 16).view("f4") if widen else values


if __name__ == "__main__":
    dump = Dump(sys.argv[1], *sys.argv[3:])
    if len(sys.argv) == 2:
        for number, names in enumerate(dump.operators()):
            print(number, *names, sep="\t")
    else:
        for tensor in dump.tensors(int(sys.argv[2])):
            side = ("input", "output")[tensor["role"]]
            values = dump.read(tensor) if tensor["flags"] & 2 else "not stored"
            print(side, dump.text(tensor["slot"]), values)
