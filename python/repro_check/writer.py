# SPDX-License-Identifier: Apache-2.0
"""Writes a dump, so that any framework can be judged by repro-check."""

from __future__ import annotations

import contextlib
import datetime
import os
import typing

from . import dtypes, layout, manifest, statistics
from .contents import content_name
from .digest import ZERO, Digest
from .errors import InvalidRecord, ReproCheckError
from .identity import Origin, Origins
from .index_writer import IndexWriter, index_digest
from .records import GeneratorUse
from .returned import split
from .trace_writer import SMALL, TraceWriter, make_directory
from .values import Encoded
from .writing import (
    Content,
    Data,
    Given,
    Source,
    TensorArguments,
    Use,
    check_place,
    content_of,
    frame_of,
    uses,
    value_rows,
)

_LEVELS = ("digest", "stats", "tensor")


class DumpWriter:
    """Used as `with DumpWriter("candidate") as writer:`. The manifest is written last, when the
    block is left: whatever ends it otherwise leaves nothing that could be taken for a dump.

    level: "tensor" keeps bytes, "stats" and "digest" do not.
    browse: give every content a dataset and every operator a group for h5dump and HDFView. That
        takes milliseconds an operator; without it small contents are packed.
    settings, environment: what could change the numbers, by name: repro-check names the ones that
        differ between two dumps.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        run_name: str = "",
        level: str = "tensor",
        depth: str = "top",
        browse: bool = False,
        device: str = "cpu",
        seed: int = 0,
        model_path: str = "",
        model_digest: Digest = ZERO,
        determinism: str = "off",
        settings: typing.Mapping[str, typing.Any] | None = None,
        environment: typing.Mapping[str, typing.Any] | None = None,
        warnings: typing.Sequence[str] = (),
        tool_version: str = "repro_check (Python)",
    ) -> None:
        if level not in _LEVELS:
            raise InvalidRecord(f'level "{level}" is unknown', f"take one of {', '.join(_LEVELS)}")
        if not 0 <= seed < 1 << 64:
            raise InvalidRecord("a seed is a whole number from 0 to 2^64-1")
        self.directory = os.fspath(directory)
        self.warnings = list(warnings)
        self._level = level
        self._browse = browse
        self._device = device
        self._head = dict(
            tool_version=tool_version,
            run_name=run_name or os.path.basename(os.path.abspath(self.directory)),
            created=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            model_path=model_path,
            model_digest=str(model_digest),
            seed=seed,
            device=device,
            determinism=determinism,
            settings=[{"name": n, "found": str(v), "used": str(v)} for n, v in (settings or {}).items()],
            environment=[{"name": n, "value": str(v)} for n, v in (environment or {}).items()],
        )
        self._trace_head = dict(level=level, depth=depth, stored_bytes=0, drawing_operators=0)
        self._returned = 0
        self._named: list[dict[str, typing.Any]] = []
        self._index = IndexWriter()
        self._origins = Origins()
        self._started = datetime.datetime.now()
        self._broken = False  #: an operator was written by half
        self._made_directory = make_directory(self.directory)
        try:
            self._trace = TraceWriter(os.path.join(self.directory, "trace.h5"))
        except OSError as error:
            raise ReproCheckError(f"{self.directory}: {error}") from None

    def __enter__(self) -> DumpWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    # What the run started from

    def input(self, name: str, data: Data) -> None:
        """Names a tensor that the model was given: a difference in it is then told as such."""
        self._name("input", name, data, f"input:{name}")

    def parameter(self, name: str, data: Data) -> None:
        """Names a weight: `encoder.layers.3.weight`."""
        self._name("parameter", name, data, f"state:{name}")

    def buffer(self, name: str, data: Data) -> None:
        """Names a tensor that the model owns and does not learn."""
        self._name("buffer", name, data, f"state:{name}")

    def _name(self, kind: str, name: str, data: Data, full: str) -> None:
        given = data if isinstance(data, Given) else Given(data)
        content = content_of(given)
        dtype, shape, stated = content.key
        self._named.append(
            {"kind": kind, "name": name, "dtype": dtype, "shape": list(shape), "digest": str(stated)}
        )
        self._origins.named(given.data, content.key, full)
        if self._level == "tensor":
            self._store(content)

    # Operators

    def op(
        self,
        name: str,
        *,
        inputs: TensorArguments = (),
        outputs: TensorArguments = (),
        arguments: typing.Mapping[str, typing.Any] | None = None,
        results: typing.Sequence[typing.Any] = (),
        module: str = "",
        module_type: str = "",
        overload: str = "",
        source: Source = None,
        phase: str = "forward",
        step: int = 0,
        rank: int = 0,
        lane: int = 0,
        depth: int = 0,
        parent: int | None = None,
        seeded: bool = False,
        generator: GeneratorUse | None = None,
        seconds: float = 0.0,
    ) -> int:
        """Records one operator call, in the order of the trace, and returns its op index.

        inputs, outputs: tensors, with their argument names or without; None is no tensor.
        arguments, results: what is not a tensor: numbers, texts, lists, Symbol.
        source: `"model.py:41"` or `("model.py", 41)`.
        @throws InvalidRecord, UnsupportedDtype; the writer can go on
        """
        number = self._index.count("ops")
        check_place(number, phase, parent)
        # All that may be refused comes before the first row is written.
        tensors = [*uses("input", inputs), *uses("output", outputs)]
        rows = value_rows(tensors, arguments or {}, results, self._index.text)
        origins = [self._origin(number, use) for use in tensors]
        self._expect_whole()
        self._broken = True
        self._index.add(
            "ops",
            parent=-1 if parent is None else parent,
            wall_ns=int(seconds * 1e9),
            generator=self._index.generator(generator),
            op=self._index.operator(name, overload, seeded),
            site=self._index.site(module, module_type, frame_of(source)),
            depth=depth,
            phase=layout.PHASES.index(phase),
            step=step,
            rank=rank,
            lane=lane,
            **self._add_rows(tensors, origins, rows),
        )
        self._trace_head["drawing_operators"] += generator is not None and generator.drawn != 0
        if self._browse:
            self._link(number, f"{name}.{overload}" if overload else name, module, source, tensors)
        self._broken = False
        return number

    def returned(self, value: typing.Any, *, step: int = 0, rank: int = 0) -> int:
        """Records what a call returned: tensors, numbers, texts and None, in lists, tuples and mappings.
        repro-check compares it whatever became of the operators.
        """
        tensors, scalars = split(value)
        number = self.op(
            layout.RETURNED,
            inputs=tensors,
            outputs=tensors,
            arguments=scalars,
            results=list(scalars.values()),
            step=step,
            rank=rank,
        )
        self._returned += 1
        return number

    def _add_rows(
        self,
        tensors: list[Use],
        origins: list[Origin | None],
        rows: tuple[list[Encoded], list[Encoded]],
    ) -> dict[str, int]:
        """Where the rows of one operator are, that other tables hold."""
        places = {
            "values_begin": self._index.count("values"),
            "tensors_begin": self._index.count("tensors"),
            "substitutions_begin": self._index.count("substitutions"),
            "argument_rows": len(rows[0]),
            "result_rows": len(rows[1]),
            "tensor_count": len(tensors),
        }
        for use, origin in zip(tensors, origins):
            self._add_tensor(use, origin)
        for row in rows[0] + rows[1]:
            self._index.add_tuple("values", row)
        return places

    def _expect_whole(self) -> None:
        if self._broken:
            raise ReproCheckError(
                f"{self.directory}: an operator could not be written: there is no dump to go on with",
                "the error before this one says why; discard() and record again",
            )

    def _origin(self, number: int, use: Use) -> Origin | None:
        given, content = use.given, use.content
        if given is None or content is None:
            return None
        if use.role == "output":
            return self._origins.written(given.data, content.key, number)
        origin = self._origins.of_input(given.data, content.key)
        if given.producer is None:
            return origin
        if not 0 <= given.producer < number:
            raise InvalidRecord(f"op {number} cannot read what op {given.producer} makes")
        return Origin(origin.storage, given.producer)

    def _add_tensor(self, use: Use, origin: Origin | None) -> None:
        text, given, content = self._index.text, use.given, use.content
        row: dict[str, typing.Any] = {"slot": text(use.slot), "role": layout.ROLES.index(use.role)}
        row.update(device=text(self._device), layout=text("strided"), storage=-1, producer=-1, stats=-1)
        if given is None or content is None or origin is None:
            self._index.add("tensors", **row, state=layout.STATES.index("undefined"))
            return
        shape, strides = self._index.dims(content.shape), self._index.dims(content.strides)
        stored = self._level == "tensor"
        row.update(shape_begin=shape[0], shape_count=shape[1])
        row.update(strides_begin=strides[0], strides_count=strides[1])
        row.update(digest_high=content.digest.high, digest_low=content.digest.low)
        row.update(device=text(given.device or self._device), layout=text(given.layout))
        row.update(attributes=text(given.attributes), name=text(origin.name))
        row.update(storage=origin.storage, producer=origin.producer)
        row.update(dtype=dtypes.NUMBERS[content.dtype])
        row["flags"] = layout.STORED * stored | layout.REQUIRES_GRAD * given.requires_grad
        if self._level == "stats":
            stats = statistics.as_row(statistics.of_raw(content.raw, content.dtype))
            row["stats"] = self._index.add("stats", **stats)
        else:
            row["flags"] |= layout.COUNTED
            counts = statistics.non_finite(content.raw, content.dtype)
            if any(counts):
                tensor = self._index.count("tensors")
                self._index.add("non_finite", tensor=tensor, **counts._asdict())
        if stored:
            self._store(content)
        self._index.add("tensors", **row)

    def _store(self, content: Content) -> None:
        self._index.once("contents", content.key, lambda: self._store_new(content))

    def _store_new(self, content: Content) -> int:
        data, place = content.bytes, layout.OWN_DATASET
        if self._browse or data.nbytes > SMALL:
            self._trace.add(content_name(*content.key), content.dtype, content.raw)
        else:
            place = self._trace.pack(data)
        self._trace_head["stored_bytes"] += data.nbytes
        begin, count = self._index.dims(content.shape)
        return self._index.add(
            "contents",
            digest_high=content.digest.high,
            digest_low=content.digest.low,
            shape_begin=begin,
            bytes=data.nbytes,
            shape_count=count,
            dtype=dtypes.NUMBERS[content.dtype],
            packed=place,
        )

    def _link(self, number: int, full: str, module: str, source: Source, tensors: list[Use]) -> None:
        frame = frame_of(source)
        shown = f"{frame[0]}:{frame[1]}" if frame else ""
        group = self._trace.link(number, full, module, shown)
        for use in tensors:
            if use.content is not None and self._level == "tensor":
                self._trace.link_tensor(group, use.role + "s", use.slot, content_name(*use.content.key))

    # The end

    def close(self) -> None:
        """Finishes the dump. Called when the block is left."""
        self._expect_whole()
        tables = list(self._index.tables())
        self._trace.finish(tables)
        count = self._index.count
        trace: manifest.Json = {
            **manifest.TRACE_FIELDS,
            **self._trace_head,
            "operators": count("ops"),
            "tensors": count("tensors"),
            "contents": count("contents"),
            "index_digest": str(index_digest(tables)),
        }
        if self._returned:
            trace["returned"] = self._returned
        order = ("input", "parameter", "buffer")
        manifest.write(
            self.directory,
            {
                **manifest.FIELDS,
                **self._head,
                "seconds": (datetime.datetime.now() - self._started).total_seconds(),
                "trace": trace,
                "warnings": self.warnings,
                "named_tensors": sorted(self._named, key=lambda named: order.index(named["kind"])),
            },
        )

    def discard(self) -> None:
        """Leaves no dump, as when the block ends by an exception."""
        self._trace.close()
        with contextlib.suppress(OSError):
            os.remove(os.path.join(self.directory, "trace.h5"))
            if self._made_directory:
                os.rmdir(self.directory)
