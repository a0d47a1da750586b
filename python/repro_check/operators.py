# SPDX-License-Identifier: Apache-2.0
"""Rows of /index as `Operator` and `Tensor`."""

from __future__ import annotations

import typing

from . import layout, values
from .contents import ContentStore
from .digest import Digest
from .index import Index
from .records import Frame, GeneratorUse, NonFinite, Operator, Stats, Substitution, Tensor
from .trace import TraceFile


class OperatorReader:
    def __init__(self, directory: str, trace: TraceFile, index: Index, contents: ContentStore) -> None:
        self._directory = directory
        self._trace = trace
        self._index = index
        self._contents = contents
        self.count = index.count("ops")

    def operator_name(self, row: typing.Any) -> tuple[str, str]:
        name, overload = self._index.text(row["name"]), self._index.text(row["overload"])
        return name, f"{name}.{overload}" if overload else name

    def site(self, number: int) -> tuple[str, str, tuple[Frame, ...]]:
        if number == layout.NONE:
            return "", "", ()
        row, text = self._index.row("sites", number), self._index.text
        frames = self._index.rows("frames", row["frames_begin"], row["frame_count"])
        return (
            text(row["module_path"]),
            text(row["module_type"]),
            tuple(Frame(text(f["file"]), f["line"], text(f["function"])) for f in frames),
        )

    def operator(self, number: int) -> Operator:
        index, row = self._index, self._index.row("ops", number)
        if not -1 <= row["parent"] < number or row["phase"] >= len(layout.PHASES):
            self._trace.fail(f"row {number} has an impossible parent or phase", "/index/ops")
        info = index.row("operators", row["op"])
        module, module_type, frames = self.site(row["site"])
        begin, middle = row["values_begin"], row["argument_rows"]
        rows = index.rows("values", begin, middle + row["result_rows"])
        changes = index.rows("substitutions", row["substitutions_begin"], row["substitution_count"])
        return Operator(
            index=number,
            name=index.text(info["name"]),
            overload=index.text(info["overload"]),
            seeded=bool(info["seeded"]),
            module=module,
            module_type=module_type,
            frames=frames,
            phase=layout.PHASES[row["phase"]],
            step=row["step"],
            rank=row["rank"],
            lane=row["lane"],
            depth=row["depth"],
            parent=row["parent"] if row["parent"] >= 0 else None,
            seconds=row["wall_ns"] / 1e9,
            arguments=tuple(self._values(rows[:middle])),
            results=tuple(value for _, value in self._values(rows[middle:])),
            tensors=tuple(
                self._tensor(tensor, number, row["tensors_begin"] + i)
                for i, tensor in enumerate(
                    index.rows("tensors", row["tensors_begin"], row["tensor_count"])
                )
            ),
            substitutions=tuple(
                Substitution(*(index.text(change[n]) for n in ("argument", "from", "to", "reason")))
                for change in changes
            ),
            generator=self._generator(row["generator"]),
        )

    def _values(self, rows: typing.Any) -> list[tuple[str, typing.Any]]:
        return values.decode(
            rows, self._index.text, lambda what: self._trace.fail(what, "/index/values")
        )

    def _generator(self, number: int) -> GeneratorUse | None:
        if number < 0:
            return None
        row = self._index.row("generators", number)
        numbers = (int(row[n]) for n in ("seed", "position_before", "position_after", "drawn"))
        return GeneratorUse(self._index.text(row["device"]), *numbers)

    def _non_finite(self, row: typing.Any, place: int, stats: typing.Any) -> NonFinite | None:
        """@param place  of the tensor's row in its table"""
        if stats is not None:
            return NonFinite(*(stats[name] for name in NonFinite._fields))
        if not row["flags"] & layout.COUNTED:
            return None
        found = self._index.find("non_finite", "tensor", place)
        return NonFinite(*(found[name] if found else 0 for name in NonFinite._fields))

    def _tensor(self, row: typing.Any, op: int, place: int) -> Tensor:
        index, text = self._index, self._index.text
        if row["role"] >= len(layout.ROLES) or row["state"] >= len(layout.STATES):
            self._trace.fail(f"a tensor of op {op} has an unknown role or state", "/index/tensors")
        if not -1 <= row["producer"] < self.count:
            self._trace.fail(f"a tensor of op {op} has an impossible producer", "/index/tensors")
        role, slot = layout.ROLES[row["role"]], text(row["slot"])
        hashed = layout.STATES[row["state"]] == "hashed"
        stats = index.row("stats", row["stats"]) if row["stats"] >= 0 else None
        tensor = Tensor(
            role=role,
            slot=slot,
            dtype=index.dtype(row["dtype"], "tensors"),
            shape=index.shape(row),
            strides=index.dims(row["strides_begin"], row["strides_count"]),
            device=text(row["device"]),
            layout=text(row["layout"]),
            attributes=text(row["attributes"]),
            name=text(row["name"]),
            state=layout.STATES[row["state"]],
            digest=Digest(row["digest_high"], row["digest_low"]) if hashed else None,
            stored=bool(row["flags"] & layout.STORED),
            requires_grad=bool(row["flags"] & layout.REQUIRES_GRAD),
            moved=bool(row["flags"] & layout.MOVED) if row["flags"] & layout.WATCHED else None,
            storage=row["storage"],
            storage_offset=row["storage_offset"],
            producer=row["producer"] if row["producer"] >= 0 else None,
            stats=None if stats is None else Stats(**stats),
            non_finite=self._non_finite(row, place, stats),
            _contents=self._contents,
            _where=f"{self._directory}: op {op} {role} {slot}",
        )
        if tensor.stored and (tensor.dtype, tensor.shape, tensor.digest) not in self._contents:
            self._trace.fail(f"op {op} refers to a content that the index does not list")
        return tensor
