# SPDX-License-Identifier: Apache-2.0
"""What computes or writes without an operator: kernels of Triton, which are made operators here, CUDA graphs, of
which only what they leave can be seen, and whoever is handed the memory of a tensor."""
import functools

from .hooks import Excluded, attached, guarded, tell, unseen, watch
from .values import is_tensor

_GRAPH_MADE = b"a CUDA graph was made of operators that are not recorded"
_GRAPH_RUN = b"CUDA graphs were run: operators inside are not recorded, what they left is compared where it is read"
_TUNED = b"kernels were tuned by timing them: which variant is taken may differ from run to run"
_UNDEFINED = b"a kernel of Triton was not recorded: no operator could be made for its arguments"

# What as_tensor() and asarray() make a tensor of that nobody else has, or hand back.
_COPIED = (bool, int, float, complex, list, tuple)


class Kernels:
    """Of Triton, as operators: `triton::NAME`, with all that the kernel was given as arguments. What it writes is
    found out by what is in the tensors afterwards."""

    def __init__(self, recording):
        self._recording = recording
        self._torch = recording.torch
        self._library = None
        self._operators = {}  # by name and schema; None where there can be none

    def launch(self, run, kernel, args, kwargs):
        """Runs the kernel, inside of its operator."""
        recording, torch = self._recording, self._torch
        if recording.ended or kwargs.get("warmup") or recording.compiling():
            return run(kernel, *args, **kwargs)
        operator, values = guarded(self._call_of)(kernel, args, kwargs) or (None, ())
        if operator is None:
            recording.probe.repro_check_unseen_writes(_UNDEFINED)
            return run(kernel, *args, **kwargs)
        result = []
        outer, recording.thread.launch = getattr(recording.thread, "launch", None), (
            lambda: result.append(run(kernel, *args, **kwargs)))
        try:
            # As a launch, it is no part of a graph of autograd, and no mode of the program is told of it.
            with torch._C._AutoDispatchBelowAutograd(), torch._C._DisableTorchDispatch():
                operator(*values)
        finally:
            recording.thread.launch = outer
        return result[0]

    def _call_of(self, kernel, args, kwargs):
        """The operator for arguments of these types, made when it is new, and the arguments as it takes them."""
        named = [*zip(kernel.arg_names, args),
                 *((name, value) for name, value in kwargs.items() if name not in ("warmup", "grid"))]
        grid = kwargs.get("grid")
        if not callable(grid):
            named.append(("grid", str(grid)))
        typed = [(name, *_as_argument(value)) for name, value in named]
        arguments = [f"{kind} {argument}" for argument, kind, _ in typed]
        tensors = [argument for argument in arguments if argument.startswith("Tensor ")]
        name, schema = kernel.fn.__name__, f"({', '.join(arguments)}) -> ({', '.join(tensors)})"
        if (name, schema) not in self._operators:
            self._operators[name, schema] = None
            self._operators[name, schema] = self._define(name, "".join(kind[0].lower() for _, kind, _ in typed), schema)
        return self._operators[name, schema], [value for _, _, value in typed]

    def _define(self, name, overload, schema):
        if self._library is None:
            self._library = self._torch.library.Library("triton", "FRAGMENT")
        while hasattr(self._torch.ops.triton, name) and overload in getattr(self._torch.ops.triton, name).overloads():
            overload += "_"  # another kernel of that name
        self._library.define(f"{name}.{overload}{schema}")
        thread = self._recording.thread

        def launch(*given):
            thread.launch()
            tensors = [value for value in given if is_tensor(value)]
            return tensors[0] if len(tensors) == 1 else tuple(tensors) or None

        self._library.impl(f"{name}.{overload}", launch, "CompositeExplicitAutograd")
        return getattr(getattr(self._torch.ops.triton, name), overload)


def _as_argument(value):
    """Its type in a schema, and what an operator takes for it."""
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if is_tensor(value):
        return "Tensor", value
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, int) and -2**63 <= value < 2**63:
        return "int", value
    if isinstance(value, float):
        return "float", value
    text = getattr(value, "__name__", None) or str(value)
    return "str", type(value).__name__ if " at 0x" in text else text


def on_triton(module):
    cls = module.JITFunction
    original = cls.run

    @functools.wraps(original)
    def run(kernel, *args, **kwargs):
        recording = attached()
        if recording is None:
            return original(kernel, *args, **kwargs)
        return recording.kernels.launch(original, kernel, args, kwargs)

    cls.run = run


def on_autotuner(module):
    _watch_tuning(module.Autotuner, "_bench")


def on_heuristics(module):
    _watch_tuning(module.CachingAutotuner, "benchmark_all_configs", "coordinate_descent_tuning")


def _watch_tuning(cls, *names):
    """Methods that try kernels out, as often as that takes: none of it is the program's computation."""
    for name in names:
        if hasattr(cls, name):
            watch(cls, name, _enter_tuning, _after_tuning, _leave_tuning)


def _enter_tuning(*_args, **_kwargs):
    if attached() is None:
        return None
    held = Excluded(True)
    held.__enter__()
    return held


def _after_tuning(*_args, **_kwargs):
    attached().probe.repro_check_unseen_writes(_TUNED)


def _leave_tuning(held, _error):
    held.__exit__()


def watch_graphs(recording):
    """While a CUDA graph is made nothing is computed, and nothing may be read; when it is run no operator is called."""
    cls = getattr(getattr(recording.torch.cuda, "graphs", None), "CUDAGraph", None)
    if cls is None:
        return
    thread = recording.thread

    def leave():
        held = thread.__dict__.pop("making_graph", None)
        if held is not None:
            held.__exit__()
            thread.unread = False
            recording.probe.repro_check_unseen_writes(_GRAPH_MADE)

    def begin(*_args, **_kwargs):
        if recording.attached and not recording.is_unread():
            held = Excluded(True)
            held.__enter__()
            thread.making_graph, thread.unread = held, True
        return True

    def begun(_token, error):
        if error is not None:
            leave()

    watch(cls, "capture_begin", guarded(begin), None, begun)
    watch(cls, "capture_end", None, None, lambda _token, _error: leave())
    tell(cls, "replay", lambda *_args: recording.probe.repro_check_unseen_writes(_GRAPH_RUN))


def on_safetensors(module):
    def saves(tensors, *_args, **_kwargs):
        for tensor in tensors.values():
            attached().read(tensor)
        if attached().checkpoints is not None:
            attached().checkpoints.on_save(dict(sorted(tensors.items())))

    def loads(tensors, *_args, **_kwargs):
        if attached().checkpoints is not None:
            attached().checkpoints.on_load(dict(sorted(tensors.items())))

    for name in ("save", "save_file"):
        tell(module, name, before=saves)
    for name in ("load", "load_file"):
        tell(module, name, loads)


def watch_memory(recording):
    """Who has the memory of a tensor may write it at any time."""
    torch = recording.torch

    def share(tensor):
        if not recording.ended and is_tensor(tensor):
            recording.probe.repro_check_shared(recording.ctypes.c_void_p(tensor._cdata))

    def given(_result, tensor, *_args, **_kwargs):
        share(tensor)

    def taken(made, *args, **_kwargs):
        if not args or type(args[0]) not in _COPIED:
            share(made)

    def read(tensor, *_args, **_kwargs):
        if not recording.ended and not recording.is_unread() and is_tensor(tensor):
            recording.probe.repro_check_read(recording.ctypes.c_void_p(tensor._cdata))

    def written(tensor):
        if not recording.ended and not recording.is_unread() and is_tensor(tensor):
            recording.probe.repro_check_written(recording.ctypes.c_void_p(tensor._cdata))

    def written_storage(_result, storage, *_args, **_kwargs):
        if not recording.ended:
            with unseen():
                view = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
            written(view)

    for name in ("tolist", "__reduce_ex__"):
        tell(torch.Tensor, name, before=read)
    recording.read = read
    # Loops over elements, with no operator.
    for name in ("apply_", "map_", "map2_"):
        tell(torch.Tensor, name, lambda _result, tensor, *_args, **_kwargs: written(tensor))
    if hasattr(torch.UntypedStorage, "byteswap"):
        tell(torch.UntypedStorage, "byteswap", written_storage)
    dlpack, reductions = torch.utils.dlpack, torch.multiprocessing.reductions
    for owner, after, names in ((torch.Tensor, given, ("numpy", "share_memory_", "__dlpack__")),
                                (torch, taken, ("from_numpy", "frombuffer", "from_file", "as_tensor", "asarray")),
                                (reductions, taken, ("rebuild_tensor",)),
                                (dlpack, given, ("to_dlpack",)), (dlpack, taken, ("from_dlpack",))):
        for name in names:
            if hasattr(owner, name):
                tell(owner, name, after)
    tell(torch.Tensor.__cuda_array_interface__, "fget", given)


def watch_storages(recording):
    """FSDP frees the memory of a storage and gives it other memory later, by no operator."""
    new_memory, pointer = recording.probe.repro_check_new_memory, recording.ctypes.c_void_p

    def size(storage, *_args, **_kwargs):
        return None if recording.ended or recording.compiling() else (storage.nbytes(),)

    def grown(before, _result, storage, *_args, **_kwargs):
        if storage.nbytes() > before[0] and storage.device.type != "meta":
            new_memory(pointer(storage._cdata))

    watch(recording.torch.UntypedStorage, "resize_", guarded(size), guarded(grown))
