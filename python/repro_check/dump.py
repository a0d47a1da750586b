# SPDX-License-Identifier: Apache-2.0
"""An open dump: checked as in docs/DUMP_FORMAT.md, read on demand."""

from __future__ import annotations

import difflib
import html
import os
import typing

from . import digest, dtypes, layout, manifest, statistics, values
from .contents import ContentStore
from .digest import Digest
from .errors import DamagedDump, IncompleteDump, ReproCheckError, UnknownFormat
from .index import Index
from .records import Array, Block, Frame, GeneratorUse, NonFinite, Operator, Parameter, Stats, Substitution, Tensor
from .trace import TraceFile, plain_file

if typing.TYPE_CHECKING:
    import pandas

_PathLike = typing.Union[str, "os.PathLike[str]"]
_SHOWN = 50  # operators of a dump in a notebook


class NamedTensor(typing.NamedTuple):
    """An input, parameter or buffer of the model, before the first operator."""

    kind: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    digest: Digest


def _read_manifest(directory: str) -> manifest.Json:
    if not os.path.isdir(directory):
        if os.path.isfile(directory):
            raise UnknownFormat(
                f"{directory}: is a file, and a dump is a directory",
                "a pack is made a directory with: repro-check unpack",
            )
        raise IncompleteDump(f"{directory}: is not there")
    path = os.path.join(directory, "manifest.json")
    if not os.path.lexists(path):
        ranks = sorted(name for name in os.listdir(directory) if name.startswith("rank-"))
        if ranks:
            raise UnknownFormat(
                f"{directory}: holds the dumps of {len(ranks)} ranks", f"open one of them: {directory}/{ranks[0]}"
            )
        raise IncompleteDump(
            f"{directory}: has no manifest.json: the recording never finished, or this is no dump",
            f"what there is of it is made a partial dump with: repro-check recover {directory}",
        )
    with plain_file(path) as file:
        return manifest.parse(file.read(), path)


def _full_name(row: typing.Any) -> str:
    return f"{row['name']}.{row['overload']}" if row["overload"] else str(row["name"])


class Dump:
    """`dump[41]` is an operator by its op index, `dump[40:50]` ten of them, `dump["aten::addmm", 3]` the fourth of that
    name, `dump["aten::addmm"]` the first."""

    def __init__(
        self, directory: _PathLike, *, reference: _PathLike | None = None, partial: bool = False
    ) -> None:
        self.directory = os.fspath(directory)
        self.manifest = _read_manifest(self.directory)
        summary = self.manifest["trace"]
        if "partial" in summary and not partial:
            raise IncompleteDump(
                f"{self.directory}: is partial: {summary['partial'].get('reason', 'cut short')}",
                "open it with partial=True to look at what there is",
            )
        self._trace = TraceFile(os.path.join(self.directory, "trace.h5"))
        try:
            self._check_identity()
            self._index = Index(self._trace, digest.parse(summary["index_digest"]))
            for name, table in (("operators", "ops"), ("tensors", "tensors"), ("contents", "contents")):
                self._check_count(name, summary[name], self._index.count(table))
            self._check_count("slices", summary.get("slices", 0), self._index.count("slices"))
            blocks = summary.get("blocks", {})
            self._check_count("blocks", blocks.get("rows", 0), self._index.count("blocks"))
            self._check_count("parameters", blocks.get("parameters", 0), self._index.count("parameters"))
            self._contents = ContentStore(
                self.directory, summary["digest_algorithm"], self._trace, self._index
            )
            self.reference = self._open_reference(summary.get("reference"), reference)
        except BaseException:
            self._trace.close()
            raise

    def _check_identity(self) -> None:
        if self._trace.text_attribute("format") != layout.FORMAT:
            self._trace.fail("is not the trace of a dump")
        if not self._trace.text_attribute("version").startswith(f"{layout.MAJOR}."):
            self._trace.fail("is of another format version than its manifest")

    def _check_count(self, what: str, announced: int, found: int) -> None:
        if announced != found:
            self._trace.fail(f"/index holds {found} {what}, the manifest says {announced}")

    def _open_reference(self, named: manifest.Json | None, path: _PathLike | None) -> Dump | None:
        """The dump that this one refers to, if it was given."""
        self._check_count(
            "contents of another dump", (named or {}).get("contents", 0), self._contents.referred()
        )
        self._contents.reference_name = (named or {}).get("run_name", "")
        if named is None or path is None:
            if path is not None:
                raise ReproCheckError(f"{self.directory}: refers to no other dump")
            return None
        reference = Dump(path)
        if reference.manifest["trace"]["index_digest"] != named.get("index_digest"):
            reference.close()
            raise DamagedDump(
                f"{self.directory}: refers to another dump than {os.fspath(path)}",
                f'give the dump of the run "{named.get("run_name", "")}" as reference',
            )
        self._contents.reference = reference._contents
        return reference

    def close(self) -> None:
        self._trace.close()
        if self.reference is not None:
            self.reference.close()

    def __enter__(self) -> Dump:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Operators

    def __len__(self) -> int:
        return self._index.count("ops")

    def __iter__(self) -> typing.Iterator[Operator]:
        """Operators in trace order, made as they are asked for. (Not keys, as of a dict: a dump is
        read as the sequence that it is.)"""
        return (self._operator(number) for number in range(len(self)))

    def operators(self) -> typing.Iterator[Operator]:
        return iter(self)

    def __contains__(self, key: object) -> bool:
        try:
            self[key]
        except (KeyError, IndexError, TypeError):
            return False
        return True

    @typing.overload
    def __getitem__(self, key: slice) -> list[Operator]: ...
    @typing.overload
    def __getitem__(self, key: typing.Any) -> Operator: ...
    def __getitem__(self, key: typing.Any) -> Operator | list[Operator]:
        """
        Raises:
            IndexError, KeyError: there is no such operator
        """
        if isinstance(key, slice):
            return [self._operator(number) for number in range(*key.indices(len(self)))]
        if isinstance(key, tuple):
            name, occurrence = key
            if occurrence < 0:
                raise KeyError("occurrences are counted from 0")
            number = -1
            for number, operator in enumerate(self.find(name)):
                if number == occurrence:
                    return operator
            if number < 0:
                raise KeyError(f"{name} is never called in {self.directory}{self._near(name)}")
            raise KeyError(f"{name} is called {number + 1}, not {occurrence + 1} times in {self.directory}")
        if isinstance(key, str):
            return self[key, 0]
        number = key.__index__()
        number += len(self) if number < 0 else 0
        if not 0 <= number < len(self):
            raise IndexError(f"op {key} is not one of the {len(self)} of {self.directory}")
        return self._operator(number)

    def _near(self, name: str) -> str:
        """A known name that is similar."""
        names = [row["name"] for row in self._index.records("operators")]
        near = [known for known in names if name in known] or difflib.get_close_matches(name, names)
        return f" (there is {', '.join(near[:3])})" if near else ""

    def find(
        self,
        operator: str | None = None,
        *,
        module: str | None = None,
        phase: str | None = None,
        step: int | None = None,
        rank: int | None = None,
    ) -> typing.Iterator[Operator]:
        """Operators of that name (with or without overload), and of that module or one inside it."""
        names = [(row["name"], _full_name(row)) for row in self._index.records("operators")]
        wanted = {i for i, known in enumerate(names) if operator in (None, *known)}
        for number, row in enumerate(self._index.each("ops")):
            if row["op"] not in wanted and row["op"] < len(names):
                continue
            if step is not None and row["step"] != step or rank is not None and row["rank"] != rank:
                continue
            if phase is not None and row["phase"] != layout.PHASES.index(phase):
                continue
            if module is not None:
                path = self._site(row["site"])["module"]
                if path != module and not path.startswith(module + ".") and module != "":
                    continue
            yield self._operator(number)

    def module(self, path: str) -> list[Operator]:
        """Operators of a module and of all inside it; `""` is the whole model."""
        return list(self.find(module=path))

    # Blocks

    def blocks(self) -> typing.Iterator[Block]:
        """Calls of blocks, in order of their end; none where operators were recorded."""

        def read(high: typing.Any, low: typing.Any) -> Digest | None:
            found = Digest(high, low)
            return None if found == digest.ZERO else found

        for row in self._index.records("blocks"):
            yield Block(
                row["step"],
                row["path"],
                row["call"],
                row["phase"],
                bool(row["flags"] & layout.BLOCK_TRAINING),
                read(row["in_high"], row["in_low"]),
                read(row["out_high"], row["out_low"]),
                row["unopened"],
            )

    def parameters(self) -> typing.Iterator[Parameter]:
        """Of a recording of blocks: parameters that were read behind steps of an optimizer."""
        for row in self._index.records("parameters"):
            yield Parameter(row["step"], row["name"], None if row["digest"] == digest.ZERO else row["digest"])

    def verify(self) -> int:
        """Reads every content that is stored here or in the given reference, and returns how many.

        Raises:
            DamagedDump: a content does not match its digest
        """
        return self._contents.verify()

    # The run

    @property
    def named_tensors(self) -> list[NamedTensor]:
        """Inputs, parameters and buffers, before the first operator."""
        found = []
        for entry in self.manifest["named_tensors"]:
            stated = digest.parse(entry.get("digest"))
            if stated is None or entry.get("dtype") not in dtypes.NUMBERS:
                raise DamagedDump(f"{self.directory}: the manifest has a named tensor without a digest")
            shape = tuple(entry["shape"])
            found.append(NamedTensor(entry["kind"], entry["name"], entry["dtype"], shape, stated))
        return found

    def named(self, name: str) -> Array:
        """The values of an input, parameter or buffer.

        Raises:
            KeyError, NotStored
        """
        for tensor in self.named_tensors:
            if tensor.name == name:
                raw = self._contents.content(tensor.dtype, tensor.shape, tensor.digest)
                return dtypes.convert(raw, tensor.dtype)
        raise KeyError(f"{name} is no input, parameter or buffer of {self.directory}")

    def frame(self, *, compute: bool = False, values: bool = False) -> pandas.DataFrame:
        """One row a tensor: where it stands, its digest, its statistics.

        compute: makes statistics that were not recorded from the stored bytes.
        values: a column of arrays, where they are stored.

        Raises:
            ReproCheckError: pandas is not installed
        """
        try:
            import pandas
        except ImportError:
            raise ReproCheckError("a frame needs pandas", "pip install pandas") from None
        of_operator = "module phase step".split()
        of_tensor = "role slot dtype shape state stored digest name".split()

        def row(operator: Operator, tensor: Tensor) -> dict[str, typing.Any]:
            stats = tensor.stats
            if stats is None and compute and tensor.stored:
                stats = statistics.of_raw(tensor.raw(), tensor.dtype)
            return {
                "op": operator.index,
                "operator": operator.full_name,
                **{name: getattr(operator, name) for name in of_operator},
                **{name: getattr(tensor, name) for name in of_tensor},
                "digest": str(tensor.digest) if tensor.digest else None,
                **dict(zip(Stats._fields, stats or [None] * len(Stats._fields))),
                **({"values": tensor.numpy() if tensor.stored else None} if values else {}),
            }

        columns = ["op", "operator", *of_operator, *of_tensor, *Stats._fields, *(["values"] if values else [])]
        rows = [row(operator, tensor) for operator in self for tensor in operator.tensors]
        return pandas.DataFrame(rows, columns=columns)

    # Rows of /index as `Operator` and `Tensor`

    def _site(self, number: int) -> dict[str, typing.Any]:
        """The members of an operator that give its place in the trace."""
        if number == layout.NONE:
            return {"module": "", "module_type": "", "frames": ()}
        row = self._index.record("sites", number)
        frames = self._index.records("frames", row["frames_begin"], row["frame_count"])
        return {
            "module": row["module_path"],
            "module_type": row["module_type"],
            "frames": tuple(Frame(**frame) for frame in frames),
        }

    def _operator(self, number: int) -> Operator:
        index, row = self._index, self._index.record("ops", number)
        if not -1 <= row["parent"] < number:
            self._trace.fail(f"row {number} has an impossible parent", "/index/ops")
        info = index.record("operators", row["op"])
        middle = row["argument_rows"]
        rows = index.rows("values", row["values_begin"], middle + row["result_rows"])
        changes = index.records("substitutions", row["substitutions_begin"], row["substitution_count"])
        tensors = index.records("tensors", row["tensors_begin"], row["tensor_count"])
        return Operator(
            index=number,
            name=info["name"],
            overload=info["overload"],
            seeded=bool(info["seeded"]),
            **self._site(row["site"]),
            **{name: row[name] for name in ("phase", "step", "rank", "lane", "modes", "depth")},
            parent=row["parent"] if row["parent"] >= 0 else None,
            seconds=row["wall_ns"] / 1e9,
            arguments=tuple(self._values(rows[:middle])),
            results=tuple(value for _, value in self._values(rows[middle:])),
            tensors=tuple(
                self._tensor(tensor, number, row["tensors_begin"] + i) for i, tensor in enumerate(tensors)
            ),
            substitutions=tuple(Substitution(*change.values()) for change in changes),
            generator=self._generator(row["generator"]),
        )

    def _values(self, rows: typing.Any) -> list[tuple[str, typing.Any]]:
        return values.decode(
            rows, self._index.text, lambda what: self._trace.fail(what, "/index/values")
        )

    def _generator(self, number: int) -> GeneratorUse | None:
        if number < 0:
            return None
        row = self._index.record("generators", number)
        return GeneratorUse(*(row[name] for name in GeneratorUse._fields))

    def _non_finite(self, row: typing.Any, place: int, stats: typing.Any) -> NonFinite | None:
        """@param place  of the tensor's row in its table"""
        if stats is not None:
            return NonFinite(*(stats[name] for name in NonFinite._fields))
        if not row["flags"] & layout.COUNTED:
            return None
        found = self._index.find("non_finite", "tensor", place)
        return NonFinite(*(found[name] if found else 0 for name in NonFinite._fields))

    def _tensor(self, row: typing.Any, op: int, place: int) -> Tensor:
        if not -1 <= row["producer"] < len(self):
            self._trace.fail(f"a tensor of op {op} has an impossible producer", "/index/tensors")
        plain = "role slot dtype shape strides device layout attributes name state storage storage_offset"
        flags = row["flags"]
        stats = self._index.row("stats", row["stats"]) if row["stats"] >= 0 else None
        tensor = Tensor(
            **{name: row[name] for name in plain.split()},
            digest=row["digest"] if row["state"] == "hashed" else None,
            stored=bool(flags & layout.STORED),
            requires_grad=bool(flags & layout.REQUIRES_GRAD),
            moved=bool(flags & layout.MOVED) if flags & layout.WATCHED else None,
            producer=row["producer"] if row["producer"] >= 0 else None,
            stats=None if stats is None else Stats(**stats),
            non_finite=self._non_finite(row, place, stats),
            _contents=self._contents,
            _where=f"{self.directory}: op {op} {row['role']} {row['slot']}",
        )
        if tensor.stored and (tensor.dtype, tensor.shape, tensor.digest) not in self._contents:
            self._trace.fail(f"op {op} refers to a content that the index does not list")
        return tensor

    def _repr_html_(self) -> str:
        """The first operators as a table, for notebooks."""

        def row(cells: typing.Iterable[object], kind: str = "td") -> str:
            return "<tr>" + "".join(f"<{kind}>{html.escape(str(cell))}</{kind}>" for cell in cells) + "</tr>"

        rows = [row(("op", "operator", "module", "line", "outputs"), "th")]
        for number in range(min(len(self), _SHOWN)):
            operator = self[number]
            line = str(operator.frames[0]) if operator.frames else ""
            outputs = ", ".join(f"{tensor.dtype} {list(tensor.shape)}" for tensor in operator.outputs.records)
            rows.append(row((number, operator.full_name, operator.module, line, outputs)))
        more = f"<p>and {len(self) - _SHOWN} more</p>" if len(self) > _SHOWN else ""
        return f"<p>{html.escape(repr(self))}</p><table>{''.join(rows)}</table>{more}"

    def __repr__(self) -> str:
        return f'<Dump {self.directory} "{self.manifest["run_name"]}" of {len(self)} operators>'
