# SPDX-License-Identifier: Apache-2.0
"""Calls that JAX compiles and runs: each function under `jit` that the program calls, and each operator outside of one.

All of them end in one function of JAX, which is given arrays and a program of its own, and returns arrays. Calls that
its library in C++ answers alone do not come by there, so that as long as it is recorded none is answered so. Nothing
is traced twice, and values stay on their device until the call has been made."""
import ctypes
import os
import sys
import time
import weakref

import numpy  # which JAX has loaded

from . import hooks, processes, record_names
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


class _Compiled:
    """What is known of a program of JAX."""

    def __init__(self, operator: str, code: str, arguments: "Any", results: "Any", keys: "List[int]") -> None:
        self.operator, self.arguments, self.results = operator, arguments, results
        self.code = code  # the function of the program that it was made of; empty of one of a library
        self.keys = keys  # positions of those that it uses, among its arguments, and behind them its constants


class _Entered:
    """A call that is told of; None in it: the plan leaves it out, or it has been left."""

    def __init__(self, call: "Optional[Call]") -> None:
        self.call = call


class _Calls:
    def __init__(self, arrays: Arrays, jax: "Any") -> None:
        self._arrays, self._jax = arrays, jax
        self._core: Any = sys.modules["jax._src.core"]
        self._array: Any = sys.modules["jax._src.array"]  # which may be only partly there
        self._names: weakref.WeakKeyDictionary[Any, _Compiled] = weakref.WeakKeyDictionary()
        self._state: Dict[str, Dict[int, Any]] = {}  # by function of the program: what its last call gave, by id
        self._devices: set[str] = set()  # kinds of those that arrays lie on: at the end JAX may have let go of them
        self._steps_by = ""  # the function whose calls count steps

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
        yield "devices", " ".join(sorted(self._devices))

    def before(self, *args: "Any", jaxpr: "Any", name: str, **_others: object) -> "Optional[_Entered]":
        if not self._is_told_of(args):
            return None
        known = self._known(jaxpr, name)
        self._count_step(known.code, args)
        constants = [(f"constant.{position}", each) for position, each in enumerate(jaxpr.consts)]
        key = _first_key(args, known.keys, "") or _first_key(
            jaxpr.consts, [position - len(args) for position in known.keys], record_names.CONSTANT_KEY)
        return _Entered(self._begin(known.operator, [*_named(known.arguments, args, "args."), *constants], key))

    def after(self, entered: "_Entered", result: "Any", *args: object, jaxpr: "Any", name: str,
              **_others: object) -> None:
        known = self._known(jaxpr, name)
        given = [*_named(known.arguments, args, "args."), *_named((), jaxpr.consts, "constant.")]
        self._end(entered, _named(known.results, result[0], ""), given)
        if known.code in self._state:
            self._state[known.code] = {id(each): weakref.ref(each) for each in result[0]}
            if known.code == self._steps_by:
                self._arrays.step += 1

    def before_compiled(self, compiled: "Any", *args: object, **kwargs: object) -> "Optional[_Entered]":
        """Of what `.lower().compile()` gave."""
        given = self._flat((args, kwargs), "args")
        if not self._is_told_of([each for _, each in given]):
            return None
        name = str(compiled._executable.unsafe_call.name).removeprefix("jit(").removesuffix(")")
        constants = list(_named((), compiled._params.const_args, "constant."))
        key = _first_key([each for _, each in given], None, "") or _first_key(
            [each for _, each in constants], None, record_names.CONSTANT_KEY)
        return _Entered(self._begin(f"jax::{name}", [*given, *constants], key))

    def after_compiled(self, entered: "_Entered", result: object, _compiled: object, *args: object,
                       **kwargs: object) -> None:
        self._end(entered, self._flat(result, "result"), self._flat((args, kwargs), "args"))

    def _flat(self, tree: object, root: str) -> "List[Tuple[str, Any]]":
        util = self._jax.tree_util
        return [(root + util.keystr(path), leaf) for path, leaf in util.tree_flatten_with_path(tree)[0]]

    def _is_told_of(self, given: "Iterable[Any]") -> bool:
        return self._arrays.records() and not any(isinstance(each, self._core.Tracer) for each in given)

    def _begin(self, operator: str, given: "List[Tuple[str, Any]]", key: "Any") -> "Optional[Call]":
        """key: kind and words of the one that it draws from, or None."""
        begun = self._arrays.enter(operator, key is not None)
        if begun is None:
            return None
        try:
            begun.inputs = self._read(given, begun)
            begun.key = key and _position_of(*key)
        except BaseException:
            self._leave(begun, [], 0)
            raise
        begun.began = time.perf_counter_ns()
        return begun

    def _end(self, entered: "_Entered", returned: "Iterable[Tuple[str, Any]]",
             given: "Iterable[Tuple[str, Any]]") -> None:
        call, entered.call = entered.call, None
        if call is None:
            return
        returned = list(returned)
        outputs: List[Named] = []
        wall_ns = 0
        try:
            for _, each in returned:
                getattr(each, "block_until_ready", bool)()
            wall_ns = time.perf_counter_ns() - call.began
            written = [(slot, each) for slot, each in given if self._is_reference(each)]
            outputs = self._read([*returned, *written], call)
        finally:
            self._leave(call, outputs, wall_ns)

    def left(self, entered: "_Entered", error: object) -> None:
        if error is not None and entered.call is not None:
            self._leave(entered.call, [], time.perf_counter_ns() - entered.call.began)

    def _leave(self, call: "Call", outputs: "List[Named]", wall_ns: int) -> None:
        self._arrays.leave(call, outputs, wall_ns)
        for number in call.passing:
            self._arrays.let_go(number)

    def _known(self, jaxpr: "Any", name: str) -> "_Compiled":
        known = self._names.get(jaxpr)
        if known is None:
            info = jaxpr.jaxpr.debug_info
            own = name[1:] if name.startswith("_") else name
            source = str(info.func_src_info)
            is_random = "-packages/jax/_src/random" in source
            inner = jaxpr.jaxpr
            roots = {var: {position} for position, var in enumerate([*inner.invars, *inner.constvars])}
            known = self._names[jaxpr] = _Compiled(
                f"jax::random.{own}" if is_random else f"jax::{name}",
                "" if "-packages/" in source else source, info.arg_names or (), info.result_paths or (),
                sorted(_keys_among(inner, roots)))
        return known

    def _count_step(self, code: str, given: "Iterable[Any]") -> None:
        """A function of the program that is given what it gave before makes a step of it in each call."""
        if not code or self._steps_by:
            return
        last = self._state.setdefault(code, {})
        if any(id(each) in last and last[id(each)]() is each for each in given):
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
        if self._is_reference(value):  # its array stays, and is written
            value = _values(value._refs._buf)
        if _is_typed_key(value):
            kind, value = f"key<{value._impl.tag}>", value._base_array
        if not isinstance(value, self._array.ArrayImpl):
            if isinstance(value, (numpy.ndarray, numpy.generic, int, float, complex)):
                yield slot, numpy.asarray(value), kind
            else:
                self._arrays.not_read(f"{type(value).__module__}.{type(value).__qualname__}")
        elif len(value.sharding.device_set) > 1:
            for shard in value.addressable_shards:
                yield f"{slot}@{shard.device.id}", shard.data, kind
        else:
            yield slot, value, kind

    def _is_reference(self, value: "Any") -> bool:
        """To an array that calls write."""
        return isinstance(value, self._core.Ref) and hasattr(value._refs, "_buf")

    def _content(self, holder: "Any", kind: str) -> "Content":
        is_fixed = isinstance(holder, self._array.ArrayImpl)
        values = _values(holder) if is_fixed else holder
        if not values.flags.c_contiguous:
            values = values.copy(order="C")
        if values.dtype.itemsize == 1 and values.dtype.name not in _WHOLE_BYTES:  # a code of less than a byte in each
            values, kind = values.view("uint8"), f"{kind} {values.dtype.name}".strip()
        if not is_fixed:
            return values, "cpu", kind, None
        device = next(iter(holder.devices()))
        self._devices.add(device.device_kind)
        return values, _device_text(device), kind, holder


def _device_text(device: "Any") -> str:
    return device.platform if device.platform == "cpu" and device.id == 0 else f"{device.platform}:{device.id}"


def _named(names: "Any", values: "Any", prefix: str) -> "Iterator[Tuple[str, Any]]":
    for position, value in enumerate(values):
        yield names[position] if position < len(names) else f"{prefix}{position}", value


def _values(array: "Any") -> "Any":
    """As NumPy has them: of a CPU where they lie, so that neither array nor JAX know of it."""
    in_order = tuple(range(array.ndim))
    has_bytes = array.nbytes and (array.dtype.itemsize > 1 or array.dtype.name in _WHOLE_BYTES)
    if has_bytes and next(iter(array.devices())).platform == "cpu" and array.format.layout.major_to_minor == in_order:
        array.block_until_ready()
        memory = (ctypes.c_char * array.nbytes).from_address(array.unsafe_buffer_pointer())
        return numpy.frombuffer(memory, array.dtype).reshape(array.shape)
    return array._single_device_array_to_np_array_did_copy()[0]


def _is_typed_key(value: "Any") -> bool:
    return hasattr(value, "_base_array") and hasattr(value, "_impl")


def _first_key(values: "Any", used: "Optional[List[int]]", prefix: str) -> "Optional[Tuple[str, Any]]":
    """Kind and words of the first key among values; used: positions of those that are used as one; None: not known."""
    for position, value in enumerate(values):
        if used is not None and position not in used:
            continue
        if _is_typed_key(value):
            return f"{prefix}key<{value._impl.tag}>", value._base_array
        if used is not None and getattr(value, "shape", None) == (2,):
            return f"{prefix}key", value
    return None


def _position_of(kind: str, words: "Any") -> "Optional[Tuple[str, int, int]]":
    """A key is its own position: what it is made of."""
    if words.shape != (2,):  # several, or of another kind
        return None
    shards = getattr(words, "addressable_shards", None) if hasattr(words, "sharding") else None
    first, second = (words if shards is None else _values(
        words if len(shards) == 1 else shards[0].data)).tolist()
    return kind, first << 32 | second, 0


# What takes a key, and what hands one on as it is.
_TAKES_KEY = {"random_wrap": 1, "random_bits": 1, "random_split": 1, "random_fold_in": 1, "random_clone": 1,
              "threefry2x32": 2, "rng_bit_generator": 1}
_HANDS_ON = {"slice", "squeeze", "reshape", "dynamic_slice", "broadcast_in_dim", "convert_element_type", "copy",
             "gather", "copy_p", "random_unwrap", "transpose"}


def _keys_among(jaxpr: "Any", roots: "Dict[Any, set[int]]") -> "set[int]":
    """Positions, of those that variables stand for, that a program of JAX uses as a key; roots: what they stand for."""
    found: set[int] = set()
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        given = [roots.get(each, set()) if not hasattr(each, "val") else set() for each in equation.invars]
        if not any(given):
            continue
        found.update(*given[:_TAKES_KEY.get(name, 0)])
        if name in _HANDS_ON:
            for each in equation.outvars:
                roots[each] = set().union(*given)
        for value in equation.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                inner: Any = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    # Behind what chooses a branch, or counts, its arguments are the last ones.
                    count = min(len(inner.invars), len(given))
                    pairs = zip(inner.invars[len(inner.invars) - count:], given[len(given) - count:])
                    found |= _keys_among(inner, {var: root for var, root in pairs if root})
    return found
