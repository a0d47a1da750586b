# SPDX-License-Identifier: Apache-2.0
"""Records a call of an ONNX model under ONNX Runtime, or under the reference evaluator of the package onnx.

The model is run as it is; what that returned is what a comparison judges. Its nodes are those that the optimiser has
made of it: the optimised graph is run once more, returning the output of each of its nodes, and it is said where that
gives other results. By the Python packages and not by the C API: they read and write models as well, and whoever runs
a model has them."""

from __future__ import annotations

import json
import os
import tempfile
import typing

import numpy as np
import onnx

from .. import digest, dtypes
from ..values import Opaque
from ..writer import DumpWriter, Given
from . import onnx_graph
from .onnx_engine import Engine, runtime, settings_of, told
from .recorder import Json, Refusal, Request, Status, matched, read_input, refuse

#: Keys of a configuration, with what means nothing.
_NOT_HERE: Json = {
    "dtype": None, "optimize_executor": False, "grad": "disabled",
    "model.weights_from": None, "model.weights": [], "model.method": "forward", "model.mode": "eval",
    "dump.depth": "top", "dump.slice": None, "dump.reference": None, "dump.max_bytes": None, "dump.include": [],
    "dump.exclude": [],
}


def _inputs(model: onnx_graph.Model) -> dict[str, typing.Any]:
    """Of the model, those that have no value in it."""
    known = {each.name for each in model.graph.initializer}
    return {each.name: each.type for each in model.graph.input if each.name not in known}


def _dtype_of(name: str, kind: typing.Any, where: str) -> np.dtype[typing.Any]:
    """Of an input, where it is one that can be given."""
    if kind.WhichOneof("value") != "tensor_type":
        raise Refusal(f"{where}: the input {name} is no tensor", "only models whose inputs are tensors are run")
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type))
    except KeyError:
        dtype = np.dtype("O")
    if dtype.kind == "O" or dtype.name not in dtypes.NUMBERS:
        raise Refusal(f"{where}: the input {name} holds {dtype.name}", "only numbers can be given")
    return typing.cast("np.dtype[typing.Any]", dtype)


def _given(types: dict[str, typing.Any], call: dict[str, Json]) -> dict[str, typing.Any]:
    found = {}
    for name, given in call.items():
        dtype = _dtype_of(name, types[name], given["pointer"])
        value = read_input(given)
        if not isinstance(value, np.ndarray):
            if not isinstance(value, (bool, int, float)):
                raise Refusal(f"{given['pointer']}: {name} is a tensor of {dtype}", "give a number, or a file")
            value = np.asarray(value, dtype)
        value = value.astype(value.dtype.newbyteorder("="), copy=False)
        if value.dtype != dtype:
            raise Refusal(f"{given['pointer']}: is {value.dtype}, and {name} is {dtype}", "give it in that dtype")
        found[name] = value
    return found


def _is_tensor(value: typing.Any) -> bool:
    return isinstance(value, (Given, np.ndarray))


def _leaves(value: typing.Any) -> list[typing.Any]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [value] if items is None else [leaf for item in items for leaf in _leaves(item)]


def _bits(value: typing.Any) -> typing.Any:
    """What two values have in common that are bit-equal."""
    data = value.data if isinstance(value, Given) else value
    return (data.dtype.str, data.shape, data.tobytes()) if isinstance(data, np.ndarray) else data


def _same(one: typing.Any, other: typing.Any) -> bool:
    return [_bits(each) for each in _leaves(one)] == [_bits(each) for each in _leaves(other)]


class _Recording:
    """Writes the records of calls."""

    def __init__(self, writer: DumpWriter, engine: Engine, request: Request, model: onnx_graph.Model,
                 weights: dict[str, typing.Any]) -> None:
        self._writer, self._engine, self._names = writer, engine, onnx_graph.Names(engine.graph)
        self._places = onnx_graph.Places(model)
        self._regions = engine.regions(model)
        self._weights = _weights(engine.graph) if self._regions is None else weights
        self._keep = request.dump.get("keep_ops")
        self.operators = self.tensors = self.unread = 0

    def call(self, values: dict[str, typing.Any], step: int) -> None:
        values = {**self._weights, **values}
        if self._regions is None:
            for node in self._engine.nodes:
                slots = dict(zip(self._names.inputs(node), node.input))
                slots.update({f"captured.{name}": name for name in onnx_graph.captured(node)})
                self._add(node, slots, list(node.output), values, onnx_graph.attributes(node), step)
            return
        for region in self._regions:
            inputs = {str(place): name for place, name in enumerate(region.inputs)}
            self._add(region.node, inputs, [region.output], values, {"with": region.nodes}, step)

    def _add(self, node: onnx_graph.Node, slots: dict[str, str], names: list[str], values: dict[str, typing.Any],
             arguments: dict[str, typing.Any], step: int) -> None:
        inputs = {slot: values[name] for slot, name in slots.items() if _is_tensor(values.get(name))}
        texts = {slot: values[name] for slot, name in slots.items() if isinstance(values.get(name), list)
                 and not any(_is_tensor(leaf) for leaf in _leaves(values[name]))}
        leaves = [leaf for name in names if name in values for leaf in _leaves(values[name])]
        outputs = [leaf for leaf in leaves if _is_tensor(leaf)]
        results = [leaf for leaf in leaves if leaf is not None and not _is_tensor(leaf)]
        self.unread += sum(isinstance(leaf, Opaque) for leaf in results)
        self._keep_or_not()
        module, source = self._places.of(node)
        self._writer.op(self._names.operator(node), inputs=inputs, outputs=outputs, results=results,
                        arguments={**arguments, **texts}, module=module, source=source, step=step,
                        seeded=onnx_graph.draws(node))
        self.operators += 1
        self.tensors += len(inputs) + len(outputs)

    def _keep_or_not(self) -> None:
        if self._keep is not None:
            self._writer.keep_contents(any(first <= self.operators <= last for first, last in self._keep))

    def returned(self, values: dict[str, typing.Any], step: int) -> None:
        self._writer.keep_contents(True)
        self._writer.returned(values, step=step)


def _warnings(engine: Engine, model: onnx_graph.Model, differing: list[str], unread: int) -> list[str]:
    found = []
    if differing:
        names = ", ".join(sorted(set(differing)))
        found.append(f"run node by node the model returns other values of {names}: its nodes are not recorded, but "
                     "what it returned is")
    hidden = onnx_graph.inside(engine.graph)
    if hidden:
        found.append(f"{hidden} nodes in branches and bodies of loops are not recorded by themselves")
    if unread:
        found.append(f"{unread} values could not be read, and are compared by their types alone")
    trained = sum(node.op_type == "Dropout" and len(node.input) > 2 for node in model.graph.node)
    if trained:
        found.append(f"{trained} Dropout nodes have an input for training, which stays as the model has it")
    return found


def _weights(model: onnx_graph.Model) -> dict[str, typing.Any]:
    return {name: told(value) for name, value in onnx_graph.weights(model).items()}


def _writer(request: Request, engine: Engine, settings: dict[str, str], files: list[str]) -> DumpWriter:
    """@param files  with values of the model that lie outside of it"""
    run, path = request.run, request.run["model"]["path"]
    facts = engine.facts()
    if files:
        facts["model.weights_digest"] = str(digest.of_bytes("".join(
            str(onnx_graph.digest_of_file(file)) for file in files).encode()))
        facts["model.weights_path"] = ", ".join(files)
    used = {**settings, "threads.intra_op": str(run["threads"] or "default"),
            "threads.inter_op": str(run["interop_threads"] or "default")}
    return DumpWriter(
        request.directory, run_name=run["name"], level=request.dump["level"], seed=run["seed"] or 0,
        device=run["device"], model_path=path, model_digest=onnx_graph.digest_of_file(path),
        determinism=run["determinism"], settings=used, environment=facts, configuration=json.dumps(run))


def record(request: Request, status: Status) -> None:
    run = request.run
    refuse(run, _NOT_HERE, "is not for ONNX models")
    settings = settings_of(run)
    status.phase("loading")
    model = onnx_graph.read(run["model"]["path"])
    types, returns = _inputs(model), [each.name for each in model.graph.output]
    optional = {each.name: each.type for each in model.graph.input if each.name not in types}
    calls = [_given({**types, **optional}, call) for call in matched(run["calls"], list(types), list(optional))]
    files = onnx_graph.files_of(model, run["model"]["path"])  # before their values are taken in
    with tempfile.TemporaryDirectory(prefix="repro-check-onnx-") as folder:
        engine = Engine(run, settings, folder)
        engine.prepare(model)
        status.phase("recording")
        results = [engine.call(returns, call) for call in calls]
        if request.bare:
            status.done(0, 0, 0, None)
        else:
            engine.observe(model)
            with _writer(request, engine, settings, files) as writer:
                made = _record(writer, request, engine, model, calls, results, status)
                status.phase("finishing")
            status.done(made.operators, made.tensors, writer.stored_bytes, writer.stated_digest)
    if request.report_outputs:
        for number, result in enumerate(results):
            _say_outputs(result, f"call {number} " if len(results) > 1 else "", status)


def _say_outputs(result: dict[str, typing.Any], prefix: str, status: Status) -> None:
    for name, value in result.items():
        for place, leaf in enumerate(leaves := _leaves(value)):
            shown = prefix + (name if len(leaves) == 1 else f"{name}[{place}]")
            if not _is_tensor(leaf):
                stated = str(digest.of_bytes(repr(leaf).encode()))
                status.say("output", name=shown, what=type(leaf).__name__, digest=stated)
                continue
            array = np.asarray(leaf.data if isinstance(leaf, Given) else leaf, order="C")
            what = f"{leaf.dtype} {list(array.shape)}"
            status.say("output", name=shown, what=what, digest=str(digest.of_bytes(array.reshape(-1).view("u1"))))


def _record(writer: DumpWriter, request: Request, engine: Engine, model: onnx_graph.Model,
            calls: list[dict[str, typing.Any]], results: list[dict[str, typing.Any]], status: Status) -> _Recording:
    weights = _weights(onnx_graph.take_in(model, os.path.dirname(request.run["model"]["path"])))
    for name, value in weights.items():
        if _is_tensor(value):
            writer.parameter(name, value)
    recording, differing = _Recording(writer, engine, request, model, weights), []
    names = [each.name for each in engine.graph.graph.output]
    for step, (call, result) in enumerate(zip(calls, results)):
        for name, value in call.items():
            writer.input(name if len(calls) == 1 else f"{name}#{step}", value)
        values = engine.call(names, call)
        other = [name for name in result if not _same(result[name], values[name])]
        differing += other
        if not other:  # else they are not what the model has computed
            recording.call({**call, **values}, step)
        recording.returned(result, step)
        status.say("progress", operators=recording.operators, bytes=writer.stored_bytes)
    writer.warnings += _warnings(engine, model, differing, recording.unread)
    return recording


def _described(path: str, name: str, kind: typing.Any, model: onnx_graph.Model) -> Json:
    """An argument, as the recorder of TorchScript describes it."""
    described: Json = {"name": name, "type": "Tensor", "has_default": False, "default_value": "", "layer": ""}
    described["dtype"] = _dtype_of(name, kind, path).name
    tensor = kind.tensor_type
    if tensor.HasField("shape"):  # else it is asked for
        described["shape"] = [each.dim_value if each.HasField("dim_value") else -1 for each in tensor.shape.dim]
        described["layer"] = "the model"
    tables = {each.name: each.dims[0] for each in model.graph.initializer if each.dims}
    for node in model.graph.node:
        if node.op_type == "Gather" and len(node.input) > 1 and node.input[1] == name and node.input[0] in tables:
            described.update(rows=tables[node.input[0]], layer=node.input[0])
    return described


def describe(path: str, *_options: str) -> Json:
    model = onnx_graph.read(path)
    types = _inputs(model)
    return {"method": "forward", "methods": ["forward"], "dtype": "float32",
            "arguments": [_described(path, name, kind, model) for name, kind in types.items()]}


def version() -> Json:
    return {"onnx": onnx.__version__, "onnxruntime": runtime().__version__}


VERBS: dict[str, typing.Callable[..., typing.Any]] = {"record": record, "describe": describe, "version": version}
