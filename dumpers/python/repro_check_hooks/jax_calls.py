# SPDX-License-Identifier: Apache-2.0
"""Calls that JAX compiles and runs: each function under `jit` that the program calls, and each operator outside of one.

All of them end in one function of JAX, which is given arrays and a program of its own, and returns arrays. Calls that
its library in C++ answers alone do not come by there, so that as long as it is recorded none is answered so. Nothing
is traced twice, and values stay on their device until the call has been made."""
import os
import sys
import time
import weakref

from . import hooks, processes
from .arrays import Arrays
from .hooks import Instead, guarded, watch

TYPE_CHECKING = False  # the module typing is not loaded into programs
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

    from .arrays import Call, Content, Named

_WHOLE_BYTES = ("bool", "int8", "uint8", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
                "float8_e8m0fnu")
_OWN = "jax", "jaxlib"
_MACHINERY = "flax", "optax", "equinox", "chex", "haiku", "jaxtyping", "orbax", "torchax", "torch"
# What of JAX's own settings can change numbers, or what is drawn.
_SETTINGS = ("jax_enable_x64", "jax_threefry_partitionable", "jax_default_prng_impl", "jax_default_matmul_precision",
             "jax_numpy_dtype_promotion", "jax_disable_jit", "jax_debug_nans", "jax_platforms",
             "jax_num_cpu_devices", "jax_cpu_enable_async_dispatch", "jax_exec_time_optimization_effort")


def on_pjit(module: "Any") -> None:
    """Of the module that runs what is compiled, before any function was."""
    if hooks.arrays is not None:
        return
    missing = [name for name in ("_pjit_call_impl_python", "_get_fastpath_data") if not hasattr(module, name)]
    refusal = "".join(f"this release of JAX has no {name}: it is recorded from 0.10 on" for name in missing[:1])
    hooks.arrays = arrays = Arrays("jax", _OWN, _MACHINERY, refusal)
    if refusal or hooks.plan.get("bare"):
        return
    calls = _Calls(arrays, sys.modules[module.__name__.partition(".")[0]])
    arrays.facts = calls.facts
    watch(module, "_pjit_call_impl_python", guarded(calls.before), guarded(calls.after), guarded(calls.left))
    watch(module, "_get_fastpath_data", None, guarded(calls.slowly))
    watch(sys.modules["jax._src.stages"].Compiled, "__call__", guarded(calls.before_compiled),
          guarded(calls.after_compiled), guarded(calls.left))
    processes.watch_ends(guarded(arrays.end))


class _Calls:
    def __init__(self, arrays: Arrays, jax: "Any") -> None:
        self._arrays, self._jax = arrays, jax
        self._core: Any = sys.modules["jax._src.core"]
        self._numpy: Any = sys.modules["numpy"]
        self._array: Any = sys.modules["jax._src.array"]  # which may be only partly there
        # By program of JAX: the operator, and names of what goes in and out.
        self._names: weakref.WeakKeyDictionary[Any, Tuple[str, Any, Any]] = weakref.WeakKeyDictionary()
        self._state: Dict[str, set[int]] = {}  # by function of the program: what its last call gave
        self._steps_by: Any = None  # the function whose calls count steps

    def slowly(self, _token: object, _result: object, *_args: object, **_kwargs: object) -> "Any":
        """The answer of a call is none that the library could give alone next time."""
        return Instead((None,)) if self._arrays.records() else None

    def facts(self) -> "Iterator[Tuple[str, str]]":
        for name in ("jax", "jaxlib", "numpy", "flax", "optax"):
            version = getattr(sys.modules.get(name), "__version__", None)
            if isinstance(version, str):
                yield f"{name}.version", version
        for name in _SETTINGS:
            value = getattr(self._jax.config, name, None)
            if value is not None:
                yield f"jax.config.{name}", str(value)
        yield "env.XLA_FLAGS", os.environ.get("XLA_FLAGS", "unset")
        yield "devices", " ".join(sorted({device.device_kind for device in self._jax.devices()}))

    def before(self, *args: "Any", jaxpr: "Any", name: str, **_others: object) -> "Optional[Call]":
        operator, names, _ = self._known(jaxpr, name)
        constants = [(f"constant.{position}", each) for position, each in enumerate(jaxpr.consts)]
        begun = self._begin(operator, [*_named(names, args, "args."), *constants])
        if begun is not None:
            self._count_step(jaxpr, begun)
        return begun

    def after(self, call: "Call", result: "Any", *args: object, jaxpr: "Any", name: str, **_others: object) -> None:
        _, names, paths = self._known(jaxpr, name)
        written = [(slot, each) for slot, each in _named(names, args, "args.") if self._is_reference(each)]
        outputs = self._end(call, [*_named(paths, result[0], ""), *written])
        code = _code(jaxpr)
        if code in self._state:
            self._state[code] = {number for _, number in outputs}
            if code == self._steps_by:
                self._arrays.step += 1

    def before_compiled(self, compiled: "Any", *args: object, **kwargs: object) -> "Optional[Call]":
        """Of what `.lower().compile()` gave."""
        name = str(compiled._executable.unsafe_call.name).removeprefix("jit(").removesuffix(")")
        return self._begin(f"jax::{name}", self._flat((args, kwargs), "args"))

    def after_compiled(self, call: "Call", result: object, *_args: object, **_kwargs: object) -> None:
        self._end(call, self._flat(result, "result"))

    def _flat(self, tree: object, root: str) -> "List[Tuple[str, Any]]":
        util = self._jax.tree_util
        return [(root + util.keystr(path), leaf) for path, leaf in util.tree_flatten_with_path(tree)[0]]

    def _begin(self, operator: str, given: "List[Tuple[str, Any]]") -> "Optional[Call]":
        arrays = self._arrays
        if not arrays.records() or any(isinstance(each, self._core.Tracer) for _, each in given):
            return None
        begun = arrays.enter(operator, any(_is_key(each) for _, each in given))
        if begun is None:
            return None
        try:
            begun.inputs = self._read(given, begun)
            begun.key = next((key for key in (_key_of(each) for _, each in given) if key is not None), None)
        except BaseException:
            self._leave(begun, [], 0)
            raise
        begun.began = time.perf_counter_ns()
        return begun

    def _end(self, call: "Call", returned: "List[Tuple[str, Any]]") -> "List[Named]":
        outputs: List[Named] = []
        wall_ns = 0
        try:
            for _, each in returned:
                getattr(each, "block_until_ready", bool)()
            wall_ns = time.perf_counter_ns() - call.began
            outputs = self._read(returned, call)
        finally:
            self._leave(call, outputs, wall_ns)
        return outputs

    def left(self, call: "Call", error: object) -> None:
        if error is not None:
            self._leave(call, [], time.perf_counter_ns() - call.began)

    def _leave(self, call: "Call", outputs: "List[Named]", wall_ns: int) -> None:
        self._arrays.leave(call, outputs, wall_ns)
        for number in call.passing:
            self._arrays.let_go(number)

    def _known(self, jaxpr: "Any", name: str) -> "Tuple[str, Any, Any]":
        known = self._names.get(jaxpr)
        if known is None:
            info = jaxpr.jaxpr.debug_info
            own = name[1:] if name.startswith("_") else name
            is_random = "-packages/jax/_src/random" in str(info.func_src_info)
            known = self._names[jaxpr] = (f"jax::random.{own}" if is_random else f"jax::{name}",
                                          info.arg_names or (), info.result_paths or ())
        return known

    def _count_step(self, jaxpr: "Any", call: "Call") -> None:
        """A function of the program that is given what it gave before makes a step of it in each call."""
        code = _code(jaxpr)
        if code is None or self._steps_by is not None:
            return
        given = self._state.setdefault(code, set())
        if any(number in given for _, number in call.inputs):
            self._steps_by, self._arrays.step = code, self._arrays.step + 1

    def _read(self, values: "Iterable[Tuple[str, Any]]", call: "Call") -> "List[Named]":
        """What each of them is recorded as. An array that nobody can write is read once, all others each time."""
        arrays = self._arrays
        leaves = [leaf for slot, value in values for leaf in self._leaves(slot or "value", value)]
        held = {id(holder): (holder, kind) for _, holder, kind in leaves}
        numbers = {key: arrays.known(holder) for key, (holder, _) in held.items()}
        contents = {key: self._content(*held[key]) for key in held if numbers[key] is None or call.keeps}
        unread = [key for key in contents if numbers[key] is None]
        for key, read in zip(unread, arrays.read([contents[key] for key in unread])):
            numbers[key] = read
            if contents[key][3] is None:
                call.passing.append(read)
        named = [(slot, numbers[id(holder)]) for slot, holder, _ in leaves]
        for key, content in contents.items():
            number = numbers[key]
            if call.keeps and number is not None:
                arrays.keep(number, content[0])
        return [(slot, number) for slot, number in named if number is not None and number >= 0]

    def _leaves(self, slot: str, value: "Any") -> "Iterator[Tuple[str, Any, str]]":
        """Slot, array of one device or number of the host, and which kind of key it is."""
        kind = ""
        if self._is_reference(value):
            value = value._refs._buf
        if _is_typed_key(value):
            kind, value = f"key<{value._impl.tag}>", value._base_array
        elif _is_raw_key(value):
            kind = "key"
        if not isinstance(value, self._array.ArrayImpl):
            if isinstance(value, (self._numpy.ndarray, self._numpy.generic, int, float, complex)):
                yield slot, self._numpy.asarray(value), kind
            else:
                self._arrays.not_read(f"{type(value).__module__}.{type(value).__qualname__}")
        elif len(value.sharding.device_set) > 1:
            for shard in value.addressable_shards:
                yield f"{slot}@{shard.device.id}", shard.data, kind
        else:
            yield slot, value, kind

    def _is_reference(self, value: "Any") -> bool:
        """To an array that calls put another one in the place of."""
        return isinstance(value, self._core.Ref) and hasattr(value._refs, "_buf")

    def _content(self, holder: "Any", kind: str) -> "Content":
        is_fixed = isinstance(holder, self._array.ArrayImpl)
        values = _values(holder) if is_fixed else holder
        if not values.flags.c_contiguous:
            values = values.copy(order="C")
        if values.dtype.itemsize == 1 and values.dtype.name not in _WHOLE_BYTES:  # a code of less than a byte in each
            values, kind = values.view("uint8"), f"{kind} {values.dtype.name}".strip()
        return values, _device_text(holder) if is_fixed else "cpu", kind, holder if is_fixed else None


def _code(jaxpr: "Any") -> "Any":
    """Which function of the program that is: None of one of JAX's."""
    info = str(jaxpr.jaxpr.debug_info.func_src_info)
    return None if "-packages/" in info else info


def _device_text(array: "Any") -> str:
    device = next(iter(array.devices()))
    return device.platform if device.platform == "cpu" and device.id == 0 else f"{device.platform}:{device.id}"


def _named(names: "Any", values: "Any", prefix: str) -> "Iterator[Tuple[str, Any]]":
    for position, value in enumerate(values):
        yield names[position] if position < len(names) else f"{prefix}{position}", value


def _values(array: "Any") -> "Any":
    """As NumPy has them: of a CPU where they are, and the array keeps nothing of it."""
    return array._single_device_array_to_np_array_did_copy()[0]


def _is_typed_key(value: "Any") -> bool:
    return hasattr(value, "_base_array") and hasattr(value, "_impl")


def _is_raw_key(value: "Any") -> bool:
    return getattr(value, "shape", None) == (2,) and str(getattr(value, "dtype", "")) == "uint32"


def _is_key(value: "Any") -> bool:
    return _is_typed_key(value) or _is_raw_key(value)


def _key_of(value: "Any") -> "Optional[Tuple[str, int, int]]":
    """A key is its own position: what it is made of."""
    if _is_typed_key(value):
        kind, words = f"key<{value._impl.tag}>", value._base_array
    elif _is_raw_key(value):
        kind, words = "key", value
    else:
        return None
    if words.shape != (2,):  # several, or of another kind
        return None
    shards = getattr(words, "addressable_shards", None)
    first, second = (words if shards is None else _values(shards[0].data)).tolist()
    return kind, first << 32 | second, 0
