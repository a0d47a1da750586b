# SPDX-License-Identifier: Apache-2.0
"""Rows of /index, with the members and offsets of docs/DUMP_FORMAT.md."""

from __future__ import annotations

import typing

import numpy as np

FORMAT = "repro-check-dump"
MAJOR, MINOR = 1, 3
NONE = 0xFFFFFFFF
# The record of what a call returned, which is no operator.
RETURNED = "repro_check::returned"

REQUIRES_GRAD, STORED, STEADY, MOVED, COUNTED = 1, 2, 4, 8, 16
WATCHED = STEADY | MOVED
OWN_DATASET, IN_REFERENCE = -1, -2
MOST_DIMS, MOST_LEVELS, MOST_TABLES = 1024, 64, 256

STATES = ("hashed", "uninitialised", "none", "undefined", "composite", "excluded")
ROLES = ("input", "output")
PHASES = ("forward", "backward", "optimizer")


def _rows(*members: tuple[str, str]) -> np.dtype[typing.Any]:
    fields: list[typing.Any] = []
    for code, names in members:
        fields += [(name, "<" + code) for name in names.split()]
    return np.dtype(fields)


TABLES: dict[str, np.dtype[typing.Any]] = {
    "ops": _rows(
        ("i8", "parent"),
        ("u8", "wall_ns values_begin tensors_begin substitutions_begin"),
        ("i8", "generator"),
        ("u4", "op site depth phase step rank lane argument_rows result_rows tensor_count"),
        ("u4", "substitution_count reserved"),
    ),
    "tensors": _rows(
        ("u8", "digest_high digest_low"),
        ("i8", "storage_offset storage producer stats"),
        ("u8", "shape_begin strides_begin"),
        ("u4", "shape_count strides_count slot device layout attributes name"),
        ("u1", "role state dtype flags"),
    ),
    "values": _rows(("i8", "integer"), ("f8", "real imaginary"), ("u4", "name"), ("u2", "kind level")),
    "contents": _rows(
        ("u8", "digest_high digest_low shape_begin bytes"), ("u4", "shape_count dtype"), ("i8", "packed")
    ),
    "slices": _rows(
        ("u8", "digest_high digest_low slice_high slice_low elements stride shape_begin"),
        ("u4", "shape_count dtype"),
    ),
    "operators": _rows(("u4", "name overload seeded")),
    "sites": _rows(("u4", "module_path module_type"), ("u4", "frames_begin frame_count")),
    "frames": _rows(("u4", "file line function")),
    "generators": _rows(
        ("u8", "seed position_before position_after"), ("i8", "drawn"), ("u4", "device reserved")
    ),
    "substitutions": _rows(("u4", "argument from to reason")),
    "stats": _rows(
        ("f8", "min max mean std l2"), ("u8", "zeros nans positive_infs negative_infs subnormals")
    ),
    "non_finite": _rows(("u8", "tensor nans positive_infs negative_infs")),
    "dims": np.dtype("<i8"),
    "text_offsets": np.dtype("<u8"),
    "text_bytes": np.dtype("u1"),
}
# Not in every dump.
OPTIONAL_TABLES = frozenset({"slices", "non_finite"})
# Members that dumps of an older minor version lack.
LATER_MEMBERS = {"contents": frozenset({"packed"})}
