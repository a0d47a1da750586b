# SPDX-License-Identifier: Apache-2.0
"""What computes an ONNX model: ONNX Runtime, or the reference evaluator of the package onnx."""

from __future__ import annotations

import ctypes
import os
import platform
import typing

import numpy as np
import onnx

from .. import digest, dtypes
from ..values import Opaque
from ..writer import Given
from . import onnx_graph
from .generated import generate
from .onnx_regions import Region, regions
from .recorder import Array, Failure, Json, Refusal

_LEVELS = ("disabled", "basic", "extended", "all")
_ENGINES = ("onnxruntime", "reference")
#: Settings of a configuration, with their defaults.
_SETTINGS = {"onnx.engine": _ENGINES, "onnx.optimization": ("all", *_LEVELS[:-1]), "onnx.provider": (),
             "onnx.records": ("nodes", *_LEVELS)}


def runtime() -> typing.Any:
    import onnxruntime  # of which the reference evaluator has no need

    onnxruntime.set_default_logger_severity(3)
    return onnxruntime


def settings_of(run: Json) -> dict[str, str]:
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
    there = runtime().get_available_providers()
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
        ort, run = runtime(), self._run
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
            try:
                options.register_custom_ops_library(library)
            except Exception as error:
                raise Refusal(f"/extensions: {library}: {_reason(error)}",
                              "name a library of custom operators of ONNX Runtime") from None
        return options

    def _session(self, model: typing.Any, options: typing.Any) -> typing.Any:
        try:
            return runtime().InferenceSession(model, options, providers=self._providers)
        except Exception as error:
            lacks = "No Op registered" in str(error) or "is not a registered" in str(error)
            mend = ("export it for an opset that this release knows; operators of your own come from a library in "
                    '"extensions"') if lacks else "onnx.checker.check_model() says more of a file that is not valid"
            path = self._run["model"]["path"]
            raise Refusal(f"{path}: ONNX Runtime cannot load it: {_reason(error)}", mend) from None

    def _evaluator(self, model: onnx_graph.Model) -> typing.Any:
        from onnx.reference import ReferenceEvaluator

        try:
            return ReferenceEvaluator(model)
        except Exception as error:
            path = self._run["model"]["path"]
            raise Refusal(f"{path}: the reference evaluator cannot load it: {_reason(error)}",
                          "it knows the operators of the standard alone") from None

    def prepare(self, model: onnx_graph.Model) -> None:
        """Makes ready what is called, and what is observed."""
        self._plain: typing.Any
        if self.is_reference:
            self.graph = onnx_graph.take_in(model, self._model_folder)
            self._plain = self._evaluator(self.graph)
            return
        runtime().set_seed(self._run["seed"] or 0)
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

    def observe(self, written: onnx_graph.Model) -> None:
        """From now on every node is returned."""
        self.nodes = list(self.graph.graph.node)
        observed = onnx_graph.observed(self.graph, self.graph if self.is_reference else written)
        if self.is_reference:
            self._plain = self._evaluator(observed)
            return
        runtime().set_seed(self._run["seed"] or 0)
        model = onnx_graph.as_session_takes_it(observed, self._folder)
        self._plain = self._session(model, self._options("disabled"))

    def call(self, names: list[str], given: dict[str, typing.Any]) -> dict[str, typing.Any]:
        try:
            if self.is_reference or self._has_only_numpy():
                values = self._plain.run(names, given)
            else:  # of which sequences and maps cannot be read
                values = [_values(value) for value in self._plain.run_with_ort_values(
                    names, {name: _ort_value(value) for name, value in given.items()})]
            return {name: told(value) for name, value in zip(names, values)}
        except Exception as error:
            what = "the reference evaluator failed" if self.is_reference else "the model failed"
            raise Failure(f"{what}: {_reason(error)}", "check the shapes and values of its inputs") from None

    def _has_only_numpy(self) -> bool:
        types = " ".join(each.type for each in (*self._plain.get_inputs(), *self._plain.get_outputs()))
        return not any(word in types for word in ("bfloat16", "float8", "float4", "int4", "int2"))

    def facts(self) -> dict[str, str]:
        found = {"onnx.version": onnx.__version__, "numpy.version": np.__version__, "os.machine": platform.machine(),
                 "python.version": platform.python_version(), "onnx.engine": self._settings["onnx.engine"],
                 **self._probes()}
        if not self.is_reference:
            found["onnxruntime.version"] = runtime().__version__
            found["onnxruntime.provider"] = self._providers[0][0]
        return found

    def _probes(self) -> dict[str, str]:
        """Digests of a few fixed computations, since machines of one description do not always agree."""
        found = {}
        for name, (node, *shapes) in _PROBES.items():
            inputs = {f"x{place}": generate({"generate": "normal", "shape": shape, "seed": place}, name)
                      for place, shape in enumerate(shapes)}
            kind = onnx.TensorProto.FLOAT
            graph = onnx.helper.make_graph(
                [onnx.helper.make_node(node, list(inputs), ["y"])], name,
                [onnx.helper.make_tensor_value_info(each, kind, value.shape) for each, value in inputs.items()],
                [onnx.helper.make_tensor_value_info("y", kind, None)])
            model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
            if self.is_reference:
                result = self._evaluator(model).run(None, inputs)
            else:
                result = self._session(model.SerializeToString(), self._options("all")).run(None, inputs)
            found[name] = str(digest.of_bytes(np.ascontiguousarray(result[0]).reshape(-1).view("u1")))
        return found


#: Operator and shapes of its inputs.
_PROBES: dict[str, tuple[typing.Any, ...]] = {
    "probe.convolution": ("Conv", [1, 16, 24, 24], [8, 16, 3, 3]), "probe.matmul": ("MatMul", [65, 130], [130, 67]),
    "probe.softmax": ("Softmax", [33, 257]), "probe.exp": ("Exp", [4097]), "probe.sum": ("ReduceSum", [16411])}


def _ort_value(array: Array) -> typing.Any:
    array = np.array(array, order="C")  # ascontiguousarray makes 0-d 1-d
    make = runtime().OrtValue.ortvalue_from_numpy
    if array.dtype.kind != "V":
        return make(array)
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return runtime().OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(f"u{array.dtype.itemsize}"), kind)


def _values(value: typing.Any) -> typing.Any:
    """The array of an output, with the bytes of what NumPy has no type for."""
    if not value.has_value():
        return None
    name = onnx_graph.raw_name(value.element_type()) if value.is_tensor() else None
    if name is None:
        return value.numpy() if value.is_tensor() and "int4" not in value.data_type() else Opaque(value.data_type())
    raw = dtypes.raw_dtype(name)
    size = int(np.prod(value.shape())) * raw.itemsize
    return Given(np.frombuffer(ctypes.string_at(value.data_ptr(), size), raw).reshape(value.shape()), dtype=name)


def told(value: typing.Any) -> typing.Any:
    """What a record says of a value: tensors, and texts and numbers in lists and dicts; an Opaque where it cannot."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O" and not all(isinstance(each, (str, bytes)) for each in value.reshape(-1)):
            return Opaque("object")  # elements of less than a byte
        if value.dtype.kind in "OUS":
            texts = value.reshape(-1)
            return [each.decode(errors="replace") if isinstance(each, bytes) else str(each) for each in texts]
        if value.dtype.kind == "V":
            return Given(value.view(f"u{value.dtype.itemsize}"), dtype=value.dtype.name) \
                if value.dtype.name in dtypes.NUMBERS else Opaque(str(value.dtype))
        return np.array(value, order="C")
    if isinstance(value, np.generic):
        return told(np.asarray(value))
    if isinstance(value, (list, tuple)):
        return [told(each) for each in value]
    if isinstance(value, dict):
        return {str(key): told(each) for key, each in value.items()}
    known = value is None or isinstance(value, (Given, Opaque, bool, int, float, str))
    return value if known else Opaque(type(value).__name__)
