# SPDX-License-Identifier: Apache-2.0
"""Compiling in steps: another backend in the place of Inductor's, and what a region is given, what each of its
operators gives, what it returns, and the gradients at its borders."""
import hashlib
import re
import weakref

from . import hooks, record_names
from .hooks import guarded
from .values import is_tensor, leaves

TYPE_CHECKING = False  # the module typing is not loaded into programs
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

    Compiler = Callable[..., Any]

_INDUCTOR = "inductor"
_UNTOUCHED = "untouched"


def backend_of(rung: str, given: "Any") -> "Optional[Compiler]":
    """What compiles on a rung in the place of `given`; None where that stays."""
    if not _is_inductor(given):
        return None
    return {"eager": _eager, "aot_eager": _autograd, "aot_eager_decomp_partition": _decomposed,
            _INDUCTOR: _of_eager_numbers(given)}.get(rung)


def _is_inductor(backend: "Any") -> bool:
    while backend is not None:
        if getattr(backend, "compiler_name", None) == _INDUCTOR:
            return True
        backend = getattr(backend, "_torchdynamo_orig_backend", None)
    return False


def _of_eager_numbers(inductor: "Compiler") -> "Compiler":
    """The program's own compiler, with the random numbers of eager PyTorch."""

    def compile_region(graph: "Any", inputs: object) -> "Any":
        _fall_back(hooks.plan.get("compile_fallback") or "")
        return inductor(graph, inputs, config_patches={"fallback_random": True})

    return compile_region


def _fall_back(operator: str) -> None:
    """Has eager PyTorch compute all overloads of an operator."""
    space, _, name = operator.partition("::")
    if not name:
        return
    import torch
    from torch._inductor import lowering

    packet = getattr(getattr(torch.ops, space), name)
    for overload in packet.overloads():
        operation = getattr(packet, overload)
        if operation not in lowering.fallbacks:
            lowering.lowerings.pop(operation, None)
            lowering.make_fallback(operation, warn=False)


def _eager(graph: "Any", _inputs: object) -> "Callable[..., Any]":
    made = {node.name: node for node in graph.graph.nodes if node.op.startswith("call_")}
    walk = _Walk(graph, graph_digest(graph), made)
    return lambda *args: walk(list(args))


def _autograd(graph: "Any", inputs: object) -> "Any":
    from torch._dynamo.backends.debugging import aot_eager

    return aot_eager(graph, inputs, fw_compiler=_forward(graph_digest(graph)))


def _decomposed(graph: "Any", inputs: object) -> "Any":
    import functools

    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor import config
    from torch._inductor.compile_fx import select_decomp_table

    partition = functools.partial(min_cut_rematerialization_partition, compiler=_INDUCTOR)
    of_eager_numbers = config.patch(fallback_random=True)(select_decomp_table)
    compiler = aot_autograd(fw_compiler=_forward(graph_digest(graph)), bw_compiler=boxed_nop,
                            decompositions=of_eager_numbers, partition_fn=partition)
    return compiler(graph, inputs)


def _forward(digest: str) -> "Compiler":
    """Compiles a forward pass: its operators are called one by one."""

    def compile_forward(graph: "Any", _inputs: object) -> "Callable[..., Any]":
        walk = _Walk(graph, digest, _made_of(graph))

        def run(args: "List[Any]") -> "Any":
            return walk(args)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    return compile_forward


def _made_of(graph: "Any") -> "Dict[str, Any]":
    """What gives the result of an operator of the region, by its name there, where the compiler took it to pieces: the
    only piece that another operator takes. Those with several are not known."""

    def origin(node: "Any") -> "Optional[str]":
        sources = node.meta.get("from_node") or ()
        return sources[0].name if sources else None

    handed: Dict[str, List[Any]] = {}
    for node in graph.graph.nodes:
        name = origin(node) if node.op.startswith("call_") else None
        if name is not None and any(origin(user) not in (None, name) for user in node.users):
            handed.setdefault(name, []).append(node)
    return {name: nodes[0] for name, nodes in handed.items() if len(nodes) == 1}


class _Walk:
    """Calls the operators of a graph, with a record of what those give that are known by a name in the region."""

    def __init__(self, graph: "Any", digest: str, made: "Dict[str, Any]"):
        import torch.fx

        told = {node: [(record_names.REGION_GRAPH, digest), *_place(node, name)] for name, node in made.items()}

        class Walk(torch.fx.Interpreter):  # type: ignore[misc]
            def run_node(self, node: "Any") -> "Any":
                value = super().run_node(node)
                if node in told and hooks.recording is not None:
                    hooks.recording.record(record_names.REGION_NODE_RECORD,
                                           [*(guarded(leaves)(record_names.NODE_VALUES, value) or []), *told[node]])
                return value

        self._walk = Walk(graph)

    def __call__(self, args: "List[Any]") -> "Any":
        return self._walk.boxed_run(args)


def _place(node: "Any", name: str) -> "List[Tuple[str, str]]":
    """What an operator is called, the module that calls it and the line, as far as the compiler kept them."""
    target = node.target
    told = [(record_names.REGION_NODE, name),
            (record_names.REGION_OPERATOR, target if isinstance(target, str) else getattr(target, "__name__", ""))]
    modules = list((node.meta.get("nn_module_stack") or {}).values())
    if modules:
        told.append((record_names.REGION_MODULE, str(modules[-1][0]).partition("]")[2].lstrip(".")))
    line = _line_of(node)
    if line:
        told.append((record_names.REGION_LINE, line))
    return [each for each in told if each[1]]


def _line_of(node: "Any") -> str:
    """Of the program or its libraries, `model.py:40`: the innermost that is not PyTorch's."""
    frames = [line.strip().split('"')[1:] for line in (node.meta.get("stack_trace") or "").splitlines()
              if line.strip().startswith('File "')]
    places = [(file, rest.partition("line ")[2].partition(",")[0]) for file, rest in frames]
    own = [place for place in places if "-packages/torch/" not in place[0]] or places
    return ":".join(own[-1]) if own else ""


def graph_digest(graph: "Any") -> str:
    """Of what a region computes, as the compiler's front end has written it, but for the names of sizes, which differ
    from run to run."""
    lines = [f"{node.op} {node.name} {getattr(node.target, '__name__', node.target)} {node.args}"
             for node in graph.graph.nodes]
    return hashlib.sha256(_without_sizes("\n".join(lines)).encode()).hexdigest()[:16]


def _without_sizes(text: str) -> str:
    """With one name for all sizes that the compiler has made names for."""
    return re.sub(r"\bs\d+\b", "s", text)


_watched: "List[Any]" = []  # parameters whose gradients are recorded, weak


class Region:
    """What `compiled` is given and returns, and the gradients of both."""

    def __init__(self, recording: "Any", graph: "Any", code: "Any"):
        self._recording = recording
        nodes = list(graph.graph.nodes)
        self._inputs = [_without_sizes(str(node.target)) for node in nodes if node.op == "placeholder"]
        first = next((line for line in map(_line_of, nodes) if line), "")
        where = first or f"{code.co_filename}:{code.co_firstlineno}"
        digest = graph_digest(graph)
        self._told = [(record_names.REGION_GRAPH, digest), (record_names.REGION_LINE, where),
                      (record_names.REGION_FUNCTION, code.co_name)]
        results = next((node.args[0] for node in nodes if node.op == "output"), ())
        makers = [(f"{record_names.OUTPUT_VALUES}[{index}]", node) for index, node in enumerate(results)
                  if hasattr(node, "name")]
        self._makers = [(record_names.REGION_MAKER + name, node.name) for name, node in makers]
        # What the region itself goes on with has another gradient where its operators are called one by one.
        self._ends = {name for name, node in makers if len(node.users) == 1 and node.op.startswith("call_")}

    def before(self, args: "Tuple[Any, ...]") -> None:
        named = [(f"{record_names.INPUT_VALUES}[{name}]", value) for name, value in zip(self._inputs, args)]
        found = [leaf for name, value in named for leaf in leaves(name, value)]
        for name, value in found:
            self._watch(name, value)
        self._recording.record(record_names.REGION_INPUTS_RECORD, [*found, *self._told])

    def behind(self, result: object, told: "List[Tuple[str, float]]") -> None:
        found = leaves(record_names.OUTPUT_VALUES, result)
        for name, value in found:
            if name in self._ends:
                self._watch(name, value)
        self._recording.record(record_names.REGION_RECORD, [*told, *found, *self._told, *self._makers])

    def _watch(self, name: str, value: "Any") -> None:
        """Has the gradient of a tensor recorded. A parameter, which stays, is told of once."""
        if not is_tensor(value) or not value.requires_grad:
            return
        if value.is_leaf:
            if any(value is each() for each in _watched):
                return
            _watched.append(weakref.ref(value))
        value.register_hook(lambda gradient: self._gradient(name, gradient))

    def _gradient(self, name: str, gradient: "Any") -> None:
        if gradient is not None:
            self._recording.record(record_names.REGION_GRADIENT_RECORD,
                                   [(record_names.GRADIENT_VALUES, gradient), *self._told[:2],
                                    (record_names.REGION_OF, name)])


def is_asked() -> bool:
    return bool(hooks.plan.get("compile", _UNTOUCHED) != _UNTOUCHED)


def generates() -> bool:
    """Whether code is generated: else each operator of a region is called by itself."""
    return bool(hooks.plan["compile"] in (_INDUCTOR, "as_written"))


def compiler_in_place_of(given: "Compiler") -> "Compiler":
    """That of the rung; `given` itself where that is not Inductor's, which is noted."""
    if not _is_inductor(given):
        hooks.note("rungs", RuntimeError(f"code for {getattr(given, '__name__', given)}, which is not Inductor, is "
                                         "compiled as written"))
    return backend_of(hooks.plan["compile"], given) or given
