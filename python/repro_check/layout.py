# SPDX-License-Identifier: Apache-2.0
"""Rows of /index, with the members and offsets of docs/DUMP_FORMAT.md: reader and writer follow from it."""

from __future__ import annotations

import typing

import numpy as np

from . import dtypes

FORMAT = "repro-check-dump"
MAJOR, MINOR = 1, 4
NONE = 0xFFFFFFFF
# The record of what a call returned, which is no operator.
RETURNED = "repro_check::returned"

REQUIRES_GRAD, STORED, STEADY, MOVED, COUNTED = 1, 2, 4, 8, 16
WATCHED = STEADY | MOVED
OWN_DATASET, IN_REFERENCE = -1, -2
MOST_DIMS, MOST_LEVELS, MOST_TABLES = 1024, 64, 256

STATES = ("hashed", "uninitialised", "none", "undefined", "composite", "excluded")
ROLES = ("input", "output")
PHASES = ("forward", "backward", "optimizer", "setup", "data", "loss", "reduce", "recompute", "eval")
#: What the numbers in these members stand for.
WORDS: dict[str, typing.Sequence[str]] = {
    "state": STATES,
    "role": ROLES,
    "phase": PHASES,
    "dtype": dtypes.NAMES,
}
#: Lists of sizes in `dims`, from a member `..._begin`, as many as `..._count` says.
SIZES = ("shape", "strides")

def _rows(*members: tuple[str, str]) -> np.dtype[typing.Any]:
    """Members are of a code of numpy, or "text": the number of one."""
    fields: list[typing.Any] = []
    for code, names in members:
        metadata = {"text": True} if code == "text" else {}
        kind = np.dtype("<u4" if code == "text" else "<" + code, metadata=metadata)
        fields += [(name, kind) for name in names.split()]
    return np.dtype(fields)


TABLES: dict[str, np.dtype[typing.Any]] = {
    "ops": _rows(
        ("i8", "parent"),
        ("u8", "wall_ns values_begin tensors_begin substitutions_begin"),
        ("i8", "generator"),
        ("u4", "op site depth phase step rank lane argument_rows result_rows tensor_count"),
        ("u4", "substitution_count"),
        ("text", "modes"),
    ),
    "tensors": _rows(
        ("u8", "digest_high digest_low"),
        ("i8", "storage_offset storage producer stats"),
        ("u8", "shape_begin strides_begin"),
        ("u4", "shape_count strides_count"),
        ("text", "slot device layout attributes name"),
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
    "operators": _rows(("text", "name overload"), ("u4", "seeded")),
    "sites": _rows(("text", "module_path module_type"), ("u4", "frames_begin frame_count")),
    "frames": _rows(("text", "file"), ("u4", "line"), ("text", "function")),
    "generators": _rows(
        ("u8", "seed position_before position_after"), ("i8", "drawn"), ("text", "device"), ("u4", "reserved")
    ),
    "substitutions": _rows(("text", "argument from to reason")),
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
#: Members that are texts, by table.
TEXTS = {
    name: tuple(n for n in rows.names or () if "text" in (rows[n].metadata or ()))
    for name, rows in TABLES.items()
}
