# SPDX-License-Identifier: Apache-2.0
"""Rows of /index, with the members and offsets of docs/DUMP_FORMAT.md: reader and writer follow from it."""

from __future__ import annotations

import typing

import numpy as np

from . import rows

FORMAT, MAJOR, MINOR, NONE = rows.FORMAT, rows.MAJOR, rows.MINOR, rows.NONE
# The record of what a call returned, which is no operator.
RETURNED = "repro_check::returned"

REQUIRES_GRAD, STORED, STEADY, MOVED, COUNTED = rows.FLAGS
WATCHED = STEADY | MOVED
BLOCK_TRAINING = rows.BLOCK_TRAINING
#: The `depth` of a recording of blocks.
BLOCKS = "blocks"
OWN_DATASET, IN_REFERENCE = -1, -2
MOST_DIMS, MOST_LEVELS, MOST_TABLES = 1024, 64, 256

ROLES, PHASES = ("input", "output"), rows.PHASES
#: What the numbers in these members stand for.
WORDS: dict[str, typing.Sequence[str]] = {
    "state": rows.STATES,
    "role": ROLES,
    "phase": PHASES,
    "dtype": rows.DTYPES,
}
#: Lists of sizes in `dims`, from a member `..._begin`, as many as `..._count` says.
SIZES = ("shape", "strides")


def _rows(members: str) -> np.dtype[typing.Any]:
    """A row whose members are such words of `rows.TABLES`; those that are the number of a text say so."""
    fields: list[typing.Any] = []
    for word in members.split():
        name, _, code = word.rstrip("?").rpartition(":")
        is_text = code.startswith("t")
        metadata = {"text": True} if is_text else {}
        fields.append((name, np.dtype("<" + code.replace("t", "u"), metadata=metadata)))
    return fields[0][1] if fields[0][0] == "" else np.dtype(fields)


TABLES = {name: _rows(members) for name, members in rows.TABLES.items()}
OPTIONAL_TABLES = frozenset(rows.IN_SOME_DUMPS)
#: Members that dumps of an older minor version lack.
LATER_MEMBERS = {
    name: frozenset(word.split(":")[0] for word in members.split() if word.endswith("?"))
    for name, members in rows.TABLES.items()
}
#: Members that are texts, by table.
TEXTS = {
    name: tuple(n for n in row.names or () if "text" in (row[n].metadata or ()))
    for name, row in TABLES.items()
}
