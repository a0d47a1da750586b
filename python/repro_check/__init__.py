# SPDX-License-Identifier: Apache-2.0
"""Reads and writes dumps of repro-check in Python.

    dump = repro_check.open("repro-check-out/baseline")
    dump["aten::addmm", 3].outputs[0]        # its fourth call, as an ndarray

    with repro_check.record("DUMP"):         # every operator that PyTorch calls in this process
        train_step()
    repro_check.compare(train_step).text     # called twice, and compared

    with repro_check.DumpWriter("candidate") as writer:
        writer.op("aten::addmm", module="encoder", inputs=[a, b, c], outputs=[d])
"""

from __future__ import annotations

import importlib as _importlib
import os as _os
import typing as _typing

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

if _typing.TYPE_CHECKING:
    from .dump import Dump, NamedTensor
    from .records import Block, Operator, Parameter, Tensor, Tensors
    from .values import Opaque, Symbol, TensorSlot
    from .writer import DumpWriter
    from .writer import Given as tensor

__version__ = "0.1.0"

__all__ = [
    "Block",
    "DamagedDump",
    "Dump",
    "DumpWriter",
    "IncompleteDump",
    "InvalidRecord",
    "NamedTensor",
    "NotStored",
    "Opaque",
    "Operator",
    "Parameter",
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

# Recording and comparing need neither NumPy nor h5py: what does is imported at its first use.
_MODULES = {
    "dump": ("Dump", "NamedTensor"),
    "records": ("Block", "Operator", "Parameter", "Tensor", "Tensors"),
    "values": ("Opaque", "Symbol", "TensorSlot"),
    "writer": ("DumpWriter", "tensor"),
}
_LATER = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> _typing.Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = _importlib.import_module(f"{__name__}.{_LATER[name]}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"dumps are read and written with {error.name}, which is not installed: pip install 'repro-check[dumps]'",
            name=error.name,
        ) from None
    globals()[name] = value = getattr(module, {"tensor": "Given"}.get(name, name))
    return value


def __dir__() -> list[str]:
    return [*globals(), *_LATER]


def open(  # noqa: A001 (as gzip and tarfile have it)
    directory: str | _os.PathLike[str],
    *,
    reference: str | _os.PathLike[str] | None = None,
    partial: bool = False,
) -> Dump:
    """Opens a dump, and checks its manifest and index against their digests.

    reference: place of the dump that this one refers to (`dump.reference`).
    partial: accept a recording that was cut short.

    Raises:
        DamagedDump, IncompleteDump, UnknownFormat
    """
    dump: Dump = __getattr__("Dump")(directory, reference=reference, partial=partial)
    return dump
