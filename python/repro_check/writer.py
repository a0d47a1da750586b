# SPDX-License-Identifier: Apache-2.0
"""Writes dumps, so that repro-check can compare any framework."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import typing
import weakref

import numpy as np

from . import dtypes, layout, manifest, statistics, values
from .contents import Key, content_name
from .digest import ZERO, Digest, of_border, of_bytes
from .errors import InvalidRecord, ReproCheckError
from .index import IndexWriter, index_digest
from .records import Array, GeneratorUse
from .trace import SMALL, TraceWriter, make_directory

Data = typing.Any  #: an array of any framework that numpy takes, or `tensor(...)`
TensorArguments = typing.Union[typing.Mapping[str, Data], typing.Sequence[Data]]
Source = typing.Union[str, typing.Tuple[str, int], None]


@dataclasses.dataclass(frozen=True)
class Given:
    """An input or output of `DumpWriter.op` that needs more than its array: `repro_check.tensor`.

    dtype: name in the format, where numpy has no such dtype: `data` then holds the raw elements
        (uint16 for bfloat16, int8 for qint8, [("r", "<f2"), ("i", "<f2")] for complex32).
    attributes: exact quantiser parameters, as text; compared as they stand.
    producer: op index that made the values, where the writer cannot know it.
    """

    data: typing.Any
    dtype: str | None = None
    device: str | None = None
    layout: str = "strided"
    attributes: str = ""
    requires_grad: bool = False
    producer: int | None = None


@dataclasses.dataclass(frozen=True)
class Content:
    """The bytes of one tensor in logical order."""

    raw: Array  #: contiguous
    dtype: str
    strides: tuple[int, ...]
    bytes: Array
    digest: Digest

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.raw.shape)

    @property
    def key(self) -> Key:
        return self.dtype, self.shape, self.digest


def _strides(array: Array) -> tuple[int, ...]:
    """In elements; those of a contiguous tensor where the array's own are no multiple of one."""
    if array.size and all(stride % array.itemsize == 0 for stride in array.strides):
        return tuple(stride // array.itemsize for stride in array.strides)
    strides, step = [], 1
    for size in reversed(array.shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def content_of(given: Given) -> Content:
    """
    Raises:
        InvalidRecord, UnsupportedDtype
    """
    array = np.asarray(given.data)
    name = given.dtype or dtypes.name_of(array.dtype)
    if name not in dtypes.NUMBERS or name == "unknown":
        raise InvalidRecord(f'"{name}" is no dtype of the format', f"they are {', '.join(dtypes.NAMES[1:])}")
    raw = dtypes.raw_dtype(name)
    if array.dtype.itemsize != raw.itemsize:
        raise InvalidRecord(
            f"elements of {array.dtype} are not those of {name}", f"give the raw elements as {raw}"
        )
    strides = _strides(array)
    if array.dtype.byteorder == ">" or (array.dtype.kind in "iufc" and not array.dtype.isnative):
        array = array.astype(array.dtype.newbyteorder("<"))
    flat = np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray makes 0-d 1-d
    flat = flat.view(raw) if flat.dtype != raw else flat
    data = flat.reshape(-1).view("u1") if flat.size else np.empty(0, "u1")
    return Content(flat, name, strides, data, of_bytes(data))


class Use(typing.NamedTuple):
    """A tensor of one operator, checked and not yet written; an undefined one has no content."""

    role: str
    slot: str
    given: Given | None
    content: Content | None


def uses(role: str, tensors: TensorArguments) -> list[Use]:
    """
    Raises:
        InvalidRecord, UnsupportedDtype
    """
    named = tensors.items() if isinstance(tensors, typing.Mapping) else enumerate(tensors)
    found = []
    for slot, data in named:
        given = data if data is None or isinstance(data, Given) else Given(data)
        found.append(Use(role, str(slot), given, None if given is None else content_of(given)))
    return found


def value_rows(
    tensors: typing.Sequence[Use],
    arguments: typing.Mapping[str, typing.Any],
    results: typing.Sequence[typing.Any],
    text: typing.Callable[[str], int],
) -> tuple[list[values.Encoded], list[values.Encoded]]:
    """Rows of `values`, those of the arguments and those of the results: tensors come first."""
    sides: dict[str, list[values.Encoded]] = {"input": [], "output": []}
    for place, use in enumerate(tensors):
        name = text(use.slot) if use.role == "input" else layout.NONE
        sides[use.role] += values.encode(values.TensorSlot(place), name, text)
    for name_, value in arguments.items():
        sides["input"] += values.encode(value, text(name_), text)
    for value in results:
        sides["output"] += values.encode(value, layout.NONE, text)
    return sides["input"], sides["output"]


def frame_of(source: Source) -> tuple[str, int] | None:
    if isinstance(source, str):
        file, _, line = source.rpartition(":")
        return (file, int(line)) if file and line.isdigit() else (source, 0)
    return source


@dataclasses.dataclass(frozen=True)
class Call:
    """One operator call, by the keywords of `DumpWriter.op`."""

    name: str
    inputs: TensorArguments = ()
    outputs: TensorArguments = ()
    arguments: typing.Mapping[str, typing.Any] | None = None
    results: typing.Sequence[typing.Any] = ()
    module: str = ""
    module_type: str = ""
    overload: str = ""
    source: Source = None
    phase: str = "forward"
    step: int = 0
    rank: int = 0
    lane: int = 0
    depth: int = 0
    parent: int | None = None
    seeded: bool = False
    generator: GeneratorUse | None = None
    seconds: float = 0.0

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name

    def check_place(self, number: int) -> None:
        """
        Raises:
            InvalidRecord: it cannot be the operator of that number
        """
        if self.phase not in layout.PHASES:
            raise InvalidRecord(f'phase "{self.phase}" is unknown', f"take one of {', '.join(layout.PHASES)}")
        if self.parent is not None and not 0 <= self.parent < number:
            raise InvalidRecord(
                f"op {number} cannot have the parent {self.parent}", "record that one first"
            )


@dataclasses.dataclass
class Origin:
    storage: int
    producer: int  #: op index; -1 = no operator
    name: str = ""  #: `state:...`, `input:...`


def _owner(data: typing.Any) -> typing.Any:
    """The array that owns the memory of a view."""
    while isinstance(data, np.ndarray) and isinstance(data.base, np.ndarray):
        data = data.base
    return data


class Origins:
    """Arrays are recognised as objects (a view by what it views), for as long as they live; where
    that fails, by their content: equal bytes were made by the operator that made them last."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[weakref.ref[typing.Any], Origin]] = {}
        self._contents: dict[Key, Origin] = {}
        self._next = 0

    def new(self, producer: int, name: str = "") -> Origin:
        self._next += 1
        return Origin(self._next - 1, producer, name)

    def _by_object(self, data: typing.Any) -> Origin | None:
        found = self._objects.get(id(_owner(data)))
        return found[1] if found and found[0]() is _owner(data) else None

    def of_input(self, data: typing.Any, key: Key) -> Origin:
        found = self._by_object(data) or self._contents.get(key)
        if found is None:
            found = self.new(-1)
            self._keep(data, key, found)
        return found

    def written(self, data: typing.Any, key: Key, op: int) -> Origin:
        """An output: what was given to the operator as well was written in place."""
        found = self._by_object(data)
        origin = Origin(found.storage, op) if found else self.new(op)
        self._keep(data, key, origin)
        return origin

    def named(self, data: typing.Any, key: Key, name: str) -> None:
        self._keep(data, key, self.new(-1, name))

    def _keep(self, data: typing.Any, key: Key, origin: Origin) -> None:
        owner = _owner(data)
        self._contents[key] = origin
        try:
            reference = weakref.ref(owner)
        except TypeError:  # lists, numbers: known by content alone
            return
        self._objects[id(owner)] = (reference, origin)


_LEVELS = ("digest", "stats", "tensor")


class DumpWriter:
    """Used as `with DumpWriter("candidate") as writer:`. The manifest is written last, when the
    block is left: whatever ends it otherwise leaves nothing that could be taken for a dump.

    level: "tensor" keeps bytes, "stats" and "digest" do not.
    browse: give every content a dataset and every operator a group for h5dump and HDFView. That
        takes milliseconds an operator; without it small contents are packed.
    settings, environment: what could change the numbers, by name: repro-check names the ones that
        differ between two dumps.
    configuration: what was asked for, as JSON.
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
        configuration: str = "{}",
        tool_version: str = "repro_check (Python)",
    ) -> None:
        if level not in _LEVELS:
            raise InvalidRecord(f'level "{level}" is unknown', f"take one of {', '.join(_LEVELS)}")
        if not 0 <= seed < 1 << 64:
            raise InvalidRecord("a seed is a whole number from 0 to 2^64-1")
        self.directory = os.fspath(directory)
        self.warnings = list(warnings)
        self.stated_digest = ""  #: of the manifest, once the dump is closed
        self._level = level
        self._keeps = True
        self._browse = browse
        self._device = device
        self._head = dict(  # noqa: C408 (as a literal it is longer)
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
            configuration=configuration,
        )
        self._trace_head: dict[str, typing.Any] = {
            "level": level, "depth": depth, "stored_bytes": 0, "drawing_operators": 0
        }
        self._returned = 0
        self._block_calls: dict[tuple[int, str, str], int] = {}
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

    @property
    def stored_bytes(self) -> int:
        return typing.cast(int, self._trace_head["stored_bytes"])

    def keep_contents(self, keeps: bool) -> None:
        """Whether at level "tensor" the bytes of what follows are kept; of all else there are digests."""
        self._keeps = keeps

    # What the run started from

    def input(self, name: str, data: Data) -> None:
        """Names an input of the model. The report then names a difference in it."""
        self._name("input", name, data, f"input:{name}")

    def parameter(self, name: str, data: Data) -> None:
        """Names a weight: `encoder.layers.3.weight`."""
        self._name("parameter", name, data, f"state:{name}")

    def buffer(self, name: str, data: Data) -> None:
        """Names a tensor of the model that is not trained."""
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

        Raises:
            InvalidRecord, UnsupportedDtype: and the writer can go on
        """
        return self._add(
            Call(
                name,
                inputs=inputs,
                outputs=outputs,
                arguments=arguments,
                results=results,
                module=module,
                module_type=module_type,
                overload=overload,
                source=source,
                phase=phase,
                step=step,
                rank=rank,
                lane=lane,
                depth=depth,
                parent=parent,
                seeded=seeded,
                generator=generator,
                seconds=seconds,
            )
        )

    def _add(self, call: Call) -> int:
        number = self._index.count("ops")
        call.check_place(number)
        # All that may be refused comes before the first row is written.
        tensors = [*uses("input", call.inputs), *uses("output", call.outputs)]
        rows = value_rows(tensors, call.arguments or {}, call.results, self._index.text)
        origins = [self._origin(number, use) for use in tensors]
        self._expect_whole()
        self._broken = True
        self._index.add(
            "ops",
            parent=-1 if call.parent is None else call.parent,
            wall_ns=int(call.seconds * 1e9),
            generator=self._index.generator(call.generator),
            op=self._index.operator(call.name, call.overload, call.seeded),
            site=self._index.site(call.module, call.module_type, frame_of(call.source)),
            depth=call.depth,
            phase=call.phase,
            step=call.step,
            rank=call.rank,
            lane=call.lane,
            **self._add_rows(tensors, origins, rows),
        )
        self._trace_head["drawing_operators"] += call.generator is not None and call.generator.drawn != 0
        if self._browse:
            self._link(number, call, tensors)
        self._broken = False
        return number

    def block(
        self,
        path: str,
        *,
        inputs: TensorArguments = (),
        outputs: TensorArguments = (),
        step: int = 0,
        phase: str = "forward",
        training: bool = True,
        unopened: int = 0,
    ) -> None:
        """Records one call of a block, in order of the end of the calls, into a dump of `depth="blocks"`. Of what goes
        in and comes out the dump keeps digests.

        unopened: how many parts of them are of types that could not be read.

        Raises:
            InvalidRecord, UnsupportedDtype: and the writer can go on
        """
        self._expect_blocks()
        if phase not in layout.PHASES:
            raise InvalidRecord(f'phase "{phase}" is unknown', f"take one of {', '.join(layout.PHASES)}")
        borders = [self._border(uses(role, of)) for role, of in (("input", inputs), ("output", outputs))]
        place = (step, phase, path)
        self._block_calls[place] = self._block_calls.get(place, -1) + 1
        self._index.add(
            "blocks",
            in_high=borders[0].high,
            in_low=borders[0].low,
            out_high=borders[1].high,
            out_low=borders[1].low,
            step=step,
            path=path,
            call=self._block_calls[place],
            unopened=min(unopened, 0xFFFF),
            phase=phase,
            flags=layout.BLOCK_TRAINING if training else 0,
        )

    def parameter_read(self, name: str, data: Data | None, *, step: int = 0) -> None:
        """Records into a dump of `depth="blocks"` what a parameter holds behind a step of an optimizer; None: it moved
        while it was read.

        Raises:
            InvalidRecord, UnsupportedDtype
        """
        self._expect_blocks()
        self._index.add("parameters", step=step, name=name, digest=self._border(uses("input", [data])))

    def _expect_blocks(self) -> None:
        self._expect_whole()
        if self._trace_head["depth"] != layout.BLOCKS:
            raise InvalidRecord("this dump is one of operators", f'make it with depth="{layout.BLOCKS}"')

    @staticmethod
    def _border(tensors: typing.Sequence[Use]) -> Digest:
        contents = [use.content for use in tensors if use.content is not None]
        leaves = [(each.digest, dtypes.NUMBERS[each.dtype], each.shape) for each in contents]
        return of_border(leaves) or ZERO

    def returned(self, value: typing.Any, *, step: int = 0, rank: int = 0) -> int:
        """Records what a call returned: tensors, numbers, texts and None, in lists, tuples and mappings.
        repro-check compares it whatever became of the operators.
        """
        tensors, scalars = values.split_returned(value)
        results = list(scalars.values())
        number = self._add(Call(layout.RETURNED, tensors, tensors, scalars, results, step=step, rank=rank))
        self._returned += 1
        return number

    def _add_rows(
        self,
        tensors: list[Use],
        origins: list[Origin | None],
        rows: tuple[list[values.Encoded], list[values.Encoded]],
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
        given, content = use.given, use.content
        row: dict[str, typing.Any] = {"slot": use.slot, "role": use.role, "layout": "strided"}
        row.update(device=self._device, storage=-1, producer=-1, stats=-1)
        if given is None or content is None or origin is None:
            self._index.add("tensors", **row, state="undefined")
            return
        stored = self._level == "tensor" and self._keeps
        row.update(shape=content.shape, strides=content.strides, dtype=content.dtype)
        row.update(digest=content.digest, device=given.device or self._device, layout=given.layout)
        row.update(attributes=given.attributes, name=origin.name)
        row.update(storage=origin.storage, producer=origin.producer)
        row["flags"] = layout.STORED * stored | layout.REQUIRES_GRAD * given.requires_grad
        if self._level == "stats":
            stats = statistics.of_raw(content.raw, content.dtype)
            row["stats"] = self._index.add("stats", **stats._asdict())
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
        return self._index.add(
            "contents",
            digest=content.digest,
            shape=content.shape,
            bytes=data.nbytes,
            dtype=content.dtype,
            packed=place,
        )

    def _link(self, number: int, call: Call, tensors: list[Use]) -> None:
        frame = frame_of(call.source)
        shown = f"{frame[0]}:{frame[1]}" if frame else ""
        group = self._trace.link(number, call.full_name, call.module, shown)
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
        if trace["depth"] == layout.BLOCKS:
            trace["blocks"] = {"rows": count("blocks"), "parameters": count("parameters"), "every": 1}
        order = ("input", "parameter", "buffer")
        self.stated_digest = manifest.write(
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
