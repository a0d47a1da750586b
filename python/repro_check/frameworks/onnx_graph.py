# SPDX-License-Identifier: Apache-2.0
"""What is read of an ONNX model without running it: its parts, and of each node what a record says."""

from __future__ import annotations

import heapq
import os
import typing

import numpy as np
import onnx
import onnx.external_data_helper as external
import onnx.numpy_helper

from ..digest import of_bytes
from .recorder import Refusal

Model = typing.Any  #: onnx.ModelProto
Node = typing.Any  #: onnx.NodeProto

#: Names in the format of the element types that NumPy has not.
_RAW = {
    onnx.TensorProto.BFLOAT16: "bfloat16",
    onnx.TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    onnx.TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    onnx.TensorProto.FLOAT8E5M2: "float8_e5m2",
    onnx.TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
}
#: Operators that draw random numbers: of one call of a session to the next they move on.
_DRAW = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
_LARGE = 1 << 30  #: bytes beyond which a model is not held in one message


def read(path: str) -> Model:
    """
    Raises:
        Refusal: the file, or one that it names, is missing, damaged, or invalid
    """
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:
        raise Refusal(f"{path}: no whole ONNX model: {error}", "copy or export it again") from None
    folder = os.path.dirname(os.path.abspath(path))
    for tensor in tensors_outside(model):
        place = external.ExternalDataInfo(tensor).location
        if not os.path.isfile(os.path.join(folder, place)):
            raise Refusal(f"{path}: the values of {tensor.name} are in {place}, which is not there",
                          f"put {place} beside the model, or export it into one file")
    return model


def tensors_outside(model: Model) -> list[typing.Any]:
    """Tensors whose values are in another file."""
    return [each for each in external._get_all_tensors(model) if external.uses_external_data(each)]


def files_of(model: Model, path: str) -> list[str]:
    """Of the values outside of it, in order."""
    folder = os.path.dirname(os.path.abspath(path))
    return sorted({os.path.join(folder, external.ExternalDataInfo(each).location) for each in tensors_outside(model)})


def digest_of_file(path: str) -> typing.Any:
    return of_bytes(np.memmap(path, "u1", "r") if os.path.getsize(path) else b"")


def take_in(model: Model, folder: str) -> Model:
    """Has the values that lie in other files in the model itself."""
    try:
        external.load_external_data_for_model(model, folder)
    except Exception as error:
        raise Refusal(f"values outside of the model cannot be read: {error}",
                      "they lie in the folder of the model, or below it") from None
    return model


def observed(model: Model, written: Model) -> Model:
    """The model, which returns the output of every node as well, behind its own. A node that draws has the number that
    it has in the model as it was written: of that, and of the seed, ONNX Runtime makes what it draws."""
    known = {each.name for each in model.graph.output}
    nodes = list(model.graph.node)
    for node in nodes:
        for name in node.output:
            if name and name not in known:
                known.add(name)
                model.graph.output.append(onnx.ValueInfoProto(name=name))
    # A Constant is none of its nodes.
    numbered = [node for node in written.graph.node if node.op_type != "Constant"]
    numbers = {name: number for number, node in enumerate(numbered) for name in node.output[:1]}
    if any(draws(node) for node in nodes):
        del model.graph.node[:]
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(1, "f4"), "repro_check_nothing"))
        count = 0
        for node in _in_order(nodes, numbers):
            number = numbers.get(node.output[0], 0) if draws(node) else 0
            while count < number:
                spare = onnx.helper.make_node("Identity", ["repro_check_nothing"], [f"repro_check_nothing_{count}"])
                model.graph.node.append(spare)
                count += 1
            model.graph.node.append(node)
            count += node.op_type != "Constant"
    return model


def _in_order(nodes: list[Node], numbers: dict[str, int]) -> list[Node]:
    """By their numbers, as far as none comes before what it reads."""
    makers = {name: place for place, node in enumerate(nodes) for name in node.output}
    waits = [{makers[name] for name in (*node.input, *captured(node)) if name in makers} for node in nodes]
    readers: dict[int, list[int]] = {}
    for place, awaited in enumerate(waits):
        for other in awaited:
            readers.setdefault(other, []).append(place)

    def ranked(place: int) -> tuple[int, int]:
        return numbers.get(nodes[place].output[0], len(nodes)), place

    ready = [ranked(place) for place, awaited in enumerate(waits) if not awaited]
    heapq.heapify(ready)
    found = []
    while ready:
        place = heapq.heappop(ready)[1]
        found.append(nodes[place])
        for reader in readers.get(place, ()):
            waits[reader].discard(place)
            if not waits[reader]:
                heapq.heappush(ready, ranked(reader))
    return found


def as_session_takes_it(model: Model, folder: str) -> bytes | str:
    """Its bytes; of a large one the path of a file in `folder`, with its values beside it."""
    if model.ByteSize() < _LARGE:
        return typing.cast(bytes, model.SerializeToString())
    path = os.path.join(folder, "observed.onnx")
    onnx.save_model(model, path, save_as_external_data=True, location="observed.bin")
    return path


def weights(model: Model) -> dict[str, typing.Any]:
    """Initialisers by name."""
    return {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}


def raw_name(element_type: int) -> str | None:
    return _RAW.get(element_type)


def _graphs_of(node: Node) -> list[typing.Any]:
    """Its branches, or its body."""
    return [graph for each in node.attribute for graph in ([each.g] if each.HasField("g") else []) + list(each.graphs)]


def inside(model: Model) -> int:
    """Nodes that are in a branch or a body of another: of them nothing is returned."""
    count, open_graphs = 0, [model.graph]
    while open_graphs:
        for node in open_graphs.pop().node:
            graphs = _graphs_of(node)
            count += sum(len(graph.node) for graph in graphs)
            open_graphs += graphs
    return count


def captured(node: Node) -> list[str]:
    """Tensors of the graph that a branch or a body in it takes by name."""
    found: list[str] = []
    for graph in _graphs_of(node):
        known = {each.name for each in (*graph.input, *graph.initializer)}
        known |= {name for inner in graph.node for name in inner.output}
        taken = [name for inner in graph.node for name in (*inner.input, *captured(inner))]
        taken += [each.name for each in graph.output]
        found += [name for name in taken if name and name not in known and name not in found]
    return found


class Names:
    """How operators and their arguments are called."""

    def __init__(self, model: Model) -> None:
        self._versions = {each.domain: each.version for each in model.opset_import}

    def operator(self, node: Node) -> str:
        return f"{node.domain or 'onnx'}::{node.op_type}"

    def inputs(self, node: Node) -> list[str]:
        return self._slots(node, node.input, "inputs")

    def _slots(self, node: Node, given: typing.Sequence[str], kind: str) -> list[str]:
        """By the schema of the operator, the last of which may stand for several."""
        try:
            schema = onnx.defs.get_schema(node.op_type, self._versions.get(node.domain, 1), node.domain)
            known = [each.name for each in getattr(schema, kind)]
        except Exception:  # of a domain that this package does not know
            known = []
        names = known[: len(given)]
        last = known[-1] if known else ""
        if len(names) < len(given) and names:
            names[-1] = f"{last}.0"
        names += [f"{last}.{i}" if last else str(i) for i in range(1 if names else 0, len(given) - len(names) + 1)]
        return names[: len(given)]


def attributes(node: Node) -> dict[str, typing.Any]:
    """Numbers, texts and lists of them; of tensors and graphs, that there is one."""
    found: dict[str, typing.Any] = {}
    for each in node.attribute:
        value = onnx.helper.get_attribute_value(each)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        elif isinstance(value, (list, tuple)) or hasattr(value, "__len__"):
            value = [part.decode(errors="replace") if isinstance(part, bytes) else part for part in value]
        if isinstance(value, onnx.TensorProto):
            value = str(of_bytes(np.ascontiguousarray(onnx.numpy_helper.to_array(value)).reshape(-1).view("u1")))
        plain = isinstance(value, (bool, int, float, str)) or (
            isinstance(value, list) and all(isinstance(part, (bool, int, float, str)) for part in value)
        )
        found[each.name] = value if plain else onnx.AttributeProto.AttributeType.Name(each.type).lower()
    return found


def draws(node: Node) -> bool:
    trains = node.op_type == "Dropout" and len(node.input) > 2 and bool(node.input[2])
    return node.domain in ("", "ai.onnx") and (node.op_type in _DRAW or trains)


def _metadata(node: Node) -> dict[str, str]:
    return {each.key: each.value for each in node.metadata_props}


class Places:
    """Where nodes come from: the module that the exporter saw, and the line of Python. What the optimiser has put in
    the place of others says nothing: then as the node of the model that makes the same tensor."""

    def __init__(self, written: Model) -> None:
        self._makers = {name: node for node in written.graph.node for name in node.output if name}

    def of(self, node: Node) -> tuple[str, tuple[str, int] | None]:
        if not _metadata(node):
            names = [*node.output, node.name.removesuffix("_nchwc")]  # as a blocked layout is called
            node = next((self._makers[name] for name in names if name in self._makers), node)
        return _module(node), _source(node)


def _module(node: Node) -> str:
    """The path of the module that the exporter saw, or what stands before the name of the node."""
    scopes = _metadata(node).get("pkg.torch.onnx.name_scopes", "")
    if scopes:  # a list as Python writes it, the last of which is the node's own
        parts = [part.strip(" '\"") for part in scopes.strip("[]").split(",")]
        return next((part for part in reversed(parts[:-1]) if part), "")
    return str(node.name).strip("/").rpartition("/")[0].replace("/", ".")


def _source(node: Node) -> tuple[str, int] | None:
    """The innermost line of Python outside of the libraries, as the exporter of PyTorch has noted it."""
    lines = []
    for line in _metadata(node).get("pkg.torch.onnx.stack_trace", "").splitlines():
        words = line.strip()
        if words.startswith('File "') and '", line ' in words:
            file, _, rest = words[6:].partition('", line ')
            number = rest.split(",")[0]
            if number.isdigit():
                lines.append((file, int(number)))
    own = [each for each in lines if "site-packages" not in each[0]] or lines
    return own[-1] if own else None
