# SPDX-License-Identifier: Apache-2.0
"""A dump as a pandas frame."""

from __future__ import annotations

import typing

from . import statistics
from .errors import ReproCheckError
from .records import Stats, Tensor

if typing.TYPE_CHECKING:
    import pandas

    from .dump import Dump


def _stats(tensor: Tensor, compute: bool) -> Stats | None:
    if tensor.stats is None and compute and tensor.stored:
        return statistics.of_raw(tensor.raw(), tensor.dtype)
    return tensor.stats


def statistics_frame(dump: Dump, compute: bool) -> pandas.DataFrame:
    try:
        import pandas
    except ImportError:
        raise ReproCheckError("a frame needs pandas", "pip install pandas") from None
    rows = [
        {
            "op": operator.index,
            "operator": operator.full_name,
            "module": operator.module,
            "phase": operator.phase,
            "step": operator.step,
            "role": tensor.role,
            "slot": tensor.slot,
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "state": tensor.state,
            "stored": tensor.stored,
            "digest": str(tensor.digest) if tensor.digest else None,
            "name": tensor.name,
            **statistics.as_row(_stats(tensor, compute)),
        }
        for operator in dump.operators()
        for tensor in operator.tensors
    ]
    columns = "op operator module phase step role slot dtype shape state stored digest name".split()
    return pandas.DataFrame(rows, columns=columns + list(Stats.__dataclass_fields__))
