# SPDX-License-Identifier: Apache-2.0
"""Dumps of repro-check, read and written in Python.

    dump = repro_check.open("repro-check-out/baseline")
    dump["aten::addmm", 3].outputs[0]        # the fourth call of it, as an ndarray

    with repro_check.record("DUMP"):         # every operator that PyTorch calls in this process
        train_step()
    repro_check.compare(train_step).text     # called twice, and judged

    with repro_check.DumpWriter("candidate") as writer:
        writer.op("aten::addmm", module="encoder", inputs=[a, b, c], outputs=[d])
"""

from __future__ import annotations

import os as _os

from .dump import Dump, NamedTensor
from .errors import (
    DamagedDump,
    IncompleteDump,
    InvalidRecord,
    NotStored,
    ReproCheckError,
    ToolError,
    UnknownFormat,
    UnsupportedDtype,
)
from .program import compare, record
from .records import Operator, Tensor, Tensors
from .values import Opaque, Symbol, TensorSlot
from .writer import DumpWriter
from .writer import Given as tensor

__version__ = "0.1.0"

__all__ = [
    "DamagedDump",
    "Dump",
    "DumpWriter",
    "IncompleteDump",
    "InvalidRecord",
    "NamedTensor",
    "NotStored",
    "Opaque",
    "Operator",
    "ReproCheckError",
    "Symbol",
    "Tensor",
    "TensorSlot",
    "Tensors",
    "ToolError",
    "UnknownFormat",
    "UnsupportedDtype",
    "compare",
    "open",
    "record",
    "tensor",
]


def open(  # noqa: A001 (as gzip and tarfile have it)
    directory: str | _os.PathLike[str],
    *,
    reference: str | _os.PathLike[str] | None = None,
    partial: bool = False,
) -> Dump:
    """Opens a dump, and holds its manifest and index against their digests.

    reference: where the dump is that this one refers to (`dump.reference`).
    partial: take a recording that was cut short.
    @throws DamagedDump, IncompleteDump, UnknownFormat
    """
    return Dump(directory, reference=reference, partial=partial)
