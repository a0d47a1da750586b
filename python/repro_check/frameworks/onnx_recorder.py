# SPDX-License-Identifier: Apache-2.0
"""Records a call of an ONNX model under ONNX Runtime, or under the reference evaluator of the package onnx.

The model is run as it is; what that returned is what a comparison judges. Its nodes are those that the optimiser has
made of it: the optimised graph is run once more, returning the output of each of its nodes, and it is said where that
gives other results. By the Python packages and not by the C API: they read and write models as well, and whoever runs
a model has them."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import tempfile
import typing

import numpy as np
import onnx

from .. import digest, dtypes
from ..writer import DumpWriter, Given
from . import onnx_graph
from .onnx_regions import Region, regions
from .recorder import Failure, Json, Refusal, Request, Status, matched, read_input, refuse

_LEVELS = ("disabled", "basic", "extended", "all")
_ENGINES = ("onnxruntime", "reference")
#: Settings of a configuration, with their defaults.
_SETTINGS = {"onnx.engine": _ENGINES, "onnx.optimization": ("all", *_LEVELS[:-1]), "onnx.provider": (),
             "onnx.records": ("nodes", *_LEVELS[1:])}
_NOT_HERE: Json = {"dtype": None, "optimize_executor": False, "model.weights_from": None, "model.weights": [],
             "dump.slice": None, "dump.reference": None, "dump.max_bytes": None, "dump.include": [],
             "dump.exclude": [], "grad": "disabled"}
_NUMPY = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(float16)": "f2", "tensor(bool)": "?",
          **{f"tensor({sign}int{bits})": f"{sign or 'i'}{bits // 8}" for sign in ("", "u") for bits in (8, 16, 32, 64)}}


def _runtime() -> typing.Any:
    import onnxruntime  # of which the reference evaluator has no need

    onnxruntime.set_default_logger_severity(3)
    return onnxruntime


def _settings(run: Json) -> dict[str, str]:
    found = {name: words[0] if words else "" for name, words in _SETTINGS.items()}
    for name, value in run["settings"].items():
        if name not in _SETTINGS:
            raise Refusal(f"/settings/{name}: of an ONNX model there is no such setting",
                          f"there are {', '.join(_SETTINGS)}")
        if _SETTINGS[name] and value not in _SETTINGS[name]:
            raise Refusal(f"/settings/{name}: {value} is none of {', '.join(_SETTINGS[name])}", "")
        found[name] = value
    if found["onnx.engine"] == "reference":  # which optimises nothing
        found["onnx.optimization"] = "disabled"
    return found


def _provider(run: Json, named: str) -> tuple[str, dict[str, typing.Any]]:
    kind, _, number = run["device"].partition(":")
    wanted = named or {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}.get(kind, "")
    there = _runtime().get_available_providers()
    if wanted not in there:
        what = f'/settings/onnx.provider: "{named}"' if named else f'/device: "{run["device"]}"'
        raise Refusal(f"{what} is not of this ONNX Runtime", f"it has {', '.join(there)}")
    return wanted, {"device_id": int(number)} if number else {}


def _reason(error: Exception) -> str:
    """Without codes and paths that say nothing to a person."""
    text = (str(error).splitlines() or [type(error).__name__])[0]
    return text.rpartition(" failed:")[2] if text.startswith("[ONNXRuntimeError]") else text


class Engine:
    """Calls a model."""

    def __init__(self, run: Json, settings: dict[str, str], folder: str) -> None:
        self._run, self._settings, self._folder = run, settings, folder
        self._model_folder = os.path.dirname(run["model"]["path"])
        self.is_reference = settings["onnx.engine"] == "reference"
        self._providers = [] if self.is_reference else [_provider(run, settings["onnx.provider"])]

    def _options(self, level: str) -> typing.Any:
        ort, run = _runtime(), self._run
        options = ort.SessionOptions()
        options.graph_optimization_level = getattr(
            ort.GraphOptimizationLevel, f"ORT_{'DISABLE' if level == 'disabled' else 'ENABLE'}_"
                                        f"{'ALL' if level in ('disabled', 'all') else level.upper()}")
        options.use_deterministic_compute = run["determinism"] != "off"
        if run["threads"]:
            options.intra_op_num_threads = run["threads"]
        if run["interop_threads"]:
            options.inter_op_num_threads = run["interop_threads"]
            options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        for library in run.get("extensions", []):
            options.register_custom_ops_library(library)
        return options

    def _session(self, model: typing.Any, options: typing.Any) -> typing.Any:
        try:
            return _runtime().InferenceSession(model, options, providers=self._providers)
        except Exception as error:
            raise Refusal(f"{self._run['model']['path']}: ONNX Runtime cannot load it: {_reason(error)}",
                          "export it for an opset that this release knows; operators of your own come from a library "
                          'in "extensions"') from None

    def prepare(self, model: onnx_graph.Model) -> None:
        """Makes ready what is called, and what is observed."""
        self._plain: typing.Any
        path = self._run["model"]["path"]
        if self.is_reference:
            from onnx.reference import ReferenceEvaluator

            self.graph = onnx_graph.take_in(model, self._model_folder)
            try:
                self._plain = ReferenceEvaluator(self.graph)
            except Exception as error:
                raise Refusal(f"{path}: the reference evaluator cannot load it: {_reason(error)}",
                              "it knows the operators of the standard alone") from None
            return
        _runtime().set_seed(self._run["seed"] or 0)
        self._plain, made = self._optimised(self._settings["onnx.optimization"])
        self.graph = onnx_graph.take_in(made, self._model_folder)

    def _optimised(self, level: str) -> tuple[typing.Any, onnx_graph.Model]:
        """A session, and what its optimiser has made of the model."""
        options = self._options(level)
        options.optimized_model_filepath = os.path.join(self._folder, f"{level}.onnx")
        session = self._session(self._run["model"]["path"], options)
        return session, onnx.load(options.optimized_model_filepath, load_external_data=False)

    def regions(self, written: onnx_graph.Model) -> list[Region] | None:
        """Those of the model that are recorded in place of nodes; None = nodes are."""
        level = self._settings["onnx.records"]
        return None if level == "nodes" else regions(written, self._optimised(level)[1])

    def observe(self) -> None:
        """From now on every node is returned."""
        observed = onnx_graph.observed(self.graph)
        if self.is_reference:
            from onnx.reference import ReferenceEvaluator

            self._plain = ReferenceEvaluator(observed)
            return
        _runtime().set_seed(self._run["seed"] or 0)
        model = onnx_graph.as_session_takes_it(observed, self._folder)
        self._plain = self._session(model, self._options("disabled"))

    def call(self, names: list[str], given: dict[str, typing.Any]) -> dict[str, typing.Any]:
        try:
            if self.is_reference:
                return {name: np.array(value, order="C") if isinstance(value, np.ndarray) else value
                        for name, value in zip(names, self._plain.run(names, given))}
            return {name: _values(value) for name, value in zip(names, self._plain.run_with_ort_values(names, {
                name: _runtime().OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value))
                for name, value in given.items()}))}
        except Exception as error:
            what = "the reference evaluator failed" if self.is_reference else "the model failed"
            raise Failure(f"{what}: {_reason(error)}", "check the shapes and values of its inputs") from None

    def facts(self) -> dict[str, str]:
        found = {"onnx.version": onnx.__version__, "numpy.version": np.__version__,
                 "python.version": platform.python_version(), "cpu.machine": platform.machine()}
        if not self.is_reference:
            found["onnxruntime.version"] = _runtime().__version__
            found["onnxruntime.provider"] = self._providers[0][0]
        return found


def _values(value: typing.Any) -> typing.Any:
    """Of an output the array, with the bytes of what NumPy has no type for; None of what is no tensor."""
    if not value.has_value() or not value.is_tensor():
        return None
    name = onnx_graph.raw_name(value.element_type())
    if name is None:
        return value.numpy()
    raw = dtypes.raw_dtype(name)
    size = int(np.prod(value.shape())) * raw.itemsize
    return Given(np.frombuffer(ctypes.string_at(value.data_ptr(), size), raw).reshape(value.shape()), dtype=name)


def _inputs(model: onnx_graph.Model) -> dict[str, typing.Any]:
    """Of the model, those that have no value in it."""
    known = {each.name for each in model.graph.initializer}
    return {each.name: each.type for each in model.graph.input if each.name not in known}


def _given(types: dict[str, typing.Any], call: dict[str, Json]) -> dict[str, typing.Any]:
    found = {}
    for name, given in call.items():
        if types[name].WhichOneof("value") != "tensor_type":
            raise Refusal(f"{given['pointer']}: {name} is no tensor", "only models whose inputs are tensors are run")
        dtype = onnx.helper.tensor_dtype_to_np_dtype(types[name].tensor_type.elem_type)
        value = read_input(given)
        array = value if isinstance(value, np.ndarray) else np.asarray(value, dtype)
        if array.dtype != dtype:
            raise Refusal(f"{given['pointer']}: is {array.dtype}, and {name} is {dtype}", "give it in that dtype")
        found[name] = array
    return found


def _is_told(value: typing.Any) -> bool:
    return isinstance(value, Given) or (isinstance(value, np.ndarray) and value.dtype.kind in "biufc")


def _same(one: typing.Any, other: typing.Any) -> bool:
    one, other = (each.data if isinstance(each, Given) else each for each in (one, other))
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return True
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


class _Recording:
    """Writes the records of calls."""

    def __init__(self, writer: DumpWriter, engine: Engine, request: Request, model: onnx_graph.Model) -> None:
        self._writer, self._engine, self._names = writer, engine, onnx_graph.Names(engine.graph)
        self._places = onnx_graph.Places(model)
        self._regions = engine.regions(model)
        self._weights = onnx_graph.weights(engine.graph if self._regions is None else model)
        self._keep = request.dump.get("keep_ops")
        self.operators = self.tensors = self.unread = 0

    def call(self, values: dict[str, typing.Any], step: int) -> None:
        values = {**self._weights, **values}
        if self._regions is None:
            for node in self._engine.graph.graph.node:
                slots = dict(zip(self._names.inputs(node), node.input))
                self._add(node, slots, list(node.output), values, onnx_graph.attributes(node), step)
            return
        for region in self._regions:
            inputs = {str(place): name for place, name in enumerate(region.inputs)}
            self._add(region.node, inputs, [region.output], values, {"with": region.nodes}, step)

    def _add(self, node: onnx_graph.Node, slots: dict[str, str], names: list[str], values: dict[str, typing.Any],
             arguments: dict[str, typing.Any], step: int) -> None:
        inputs = {slot: values[name] for slot, name in slots.items() if _is_told(values.get(name))}
        outputs = [values.get(name) for name in names if name]
        self.unread += sum(value is not None and not _is_told(value) for value in outputs)
        told = [value for value in outputs if _is_told(value)]
        self._keep_or_not()
        module, source = self._places.of(node)
        self._writer.op(self._names.operator(node), inputs=inputs, outputs=told, arguments=arguments, module=module,
                        source=source, step=step, seeded=onnx_graph.draws(node))
        self.operators += 1
        self.tensors += len(inputs) + len(told)

    def _keep_or_not(self) -> None:
        if self._keep is not None:
            self._writer.keep_contents(any(first <= self.operators <= last for first, last in self._keep))

    def returned(self, values: dict[str, typing.Any], step: int) -> None:
        self._writer.keep_contents(True)
        self._writer.returned({name: value for name, value in values.items() if _is_told(value)}, step=step)


def _warnings(engine: Engine, model: onnx_graph.Model, differing: list[str], unread: int) -> list[str]:
    found = []
    if differing:
        found.append(f"run node by node the model returns other values of {', '.join(sorted(set(differing)))}: what is "
                     "recorded of its nodes is not all that the model computed")
    hidden = onnx_graph.inside(engine.graph)
    if hidden:
        found.append(f"{hidden} nodes in branches and bodies of loops are not recorded by themselves")
    if unread:
        found.append(f"{unread} outputs that are no tensors of numbers were not read")
    trained = sum(node.op_type == "Dropout" and len(node.input) > 2 for node in model.graph.node)
    if trained:
        found.append(f"{trained} Dropout nodes have an input for training, which stays as the model has it")
    return found


def _writer(request: Request, engine: Engine, settings: dict[str, str], model: onnx_graph.Model) -> DumpWriter:
    run, path = request.run, request.run["model"]["path"]
    facts = engine.facts()
    files = onnx_graph.files_of(onnx.load(path, load_external_data=False), path)
    if files:
        facts["model.weights_digest"] = str(digest.of_bytes("".join(
            str(onnx_graph.digest_of_file(file)) for file in files).encode()))
        facts["model.weights_path"] = ", ".join(files)
    used = {**settings, "threads": str(run["threads"] or "default"),
            "interop_threads": str(run["interop_threads"] or "default")}
    writer = DumpWriter(
        request.directory, run_name=run["name"], level=request.dump["level"], seed=run["seed"] or 0,
        device=run["device"], model_path=path, model_digest=onnx_graph.digest_of_file(path),
        determinism=run["determinism"], settings=used, environment=facts, configuration=json.dumps(run))
    for name, value in onnx_graph.weights(onnx_graph.take_in(model, os.path.dirname(path))).items():
        if _is_told(value):
            writer.parameter(name, value)
    return writer


def record(request: Request, status: Status) -> None:
    run = request.run
    refuse(run, _NOT_HERE, "is not for ONNX models")
    settings = _settings(run)
    status.phase("loading")
    model = onnx_graph.read(run["model"]["path"])
    types, returns = _inputs(model), [each.name for each in model.graph.output]
    calls = [_given(types, call) for call in matched(run["calls"], list(types))]
    with tempfile.TemporaryDirectory(prefix="repro-check-onnx-") as folder:
        engine = Engine(run, settings, folder)
        engine.prepare(model)
        status.phase("recording")
        results = [engine.call(returns, call) for call in calls]
        if request.bare:
            status.done(0, 0, 0, None)
        else:
            _record(request, engine, settings, model, calls, results, status)
    if request.report_outputs:
        for number, result in enumerate(results):
            _say_outputs(result, f"call {number} " if len(results) > 1 else "", status)


def _say_outputs(result: dict[str, typing.Any], prefix: str, status: Status) -> None:
    for name, value in result.items():
        if _is_told(value):
            array = value.data if isinstance(value, Given) else value
            what = f"{value.dtype} {list(array.shape)}"
            raw = np.ascontiguousarray(array).reshape(-1).view("u1")
            status.say("output", name=prefix + name, what=what, digest=str(digest.of_bytes(raw)))


def _record(request: Request, engine: Engine, settings: dict[str, str], model: onnx_graph.Model,
            calls: list[dict[str, typing.Any]], results: list[dict[str, typing.Any]], status: Status) -> None:
    engine.observe()
    with _writer(request, engine, settings, model) as writer:
        recording, differing = _Recording(writer, engine, request, model), []
        names = [each.name for each in engine.graph.graph.output]
        for step, (call, result) in enumerate(zip(calls, results)):
            for name, value in call.items():
                writer.input(name if len(calls) == 1 else f"{name}#{step}", value)
            values = engine.call(names, call)
            differing += [name for name in result if not _same(result[name], values[name])]
            recording.call({**call, **values}, step)
            recording.returned(result, step)
            status.say("progress", operators=recording.operators, bytes=writer.stored_bytes)
        writer.warnings += _warnings(engine, model, differing, recording.unread)
        status.phase("finishing")
    status.done(recording.operators, recording.tensors, writer.stored_bytes, writer.stated_digest)


def _described(name: str, kind: typing.Any, model: onnx_graph.Model) -> Json:
    """An argument, as the recorder of TorchScript describes it."""
    described: Json = {"name": name, "type": "Tensor", "has_default": False, "default_value": "",
                       "layer": "the model"}
    tensor = kind.tensor_type
    described["dtype"] = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    described["shape"] = [each.dim_value if each.HasField("dim_value") else -1 for each in tensor.shape.dim]
    tables = {each.name: each.dims[0] for each in model.graph.initializer if each.dims}
    for node in model.graph.node:
        if node.op_type == "Gather" and len(node.input) > 1 and node.input[1] == name and node.input[0] in tables:
            described.update(rows=tables[node.input[0]], layer=node.input[0])
    return described


def describe(path: str, *_options: str) -> Json:
    model = onnx_graph.read(path)
    types = _inputs(model)
    odd = [name for name, kind in types.items() if kind.WhichOneof("value") != "tensor_type"]
    if odd:
        raise Refusal(f"{path}: the input {odd[0]} is no tensor", "only models whose inputs are tensors are run")
    return {"method": "forward", "methods": ["forward"], "dtype": "float32",
            "arguments": [_described(name, kind, model) for name, kind in types.items()]}


def version() -> Json:
    return {"onnx": onnx.__version__, "onnxruntime": _runtime().__version__}


VERBS: dict[str, typing.Callable[..., typing.Any]] = {"record": record, "describe": describe, "version": version}
