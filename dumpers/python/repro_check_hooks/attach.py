# SPDX-License-Identifier: Apache-2.0
"""The Python side of `repro-check exec`: waits for the program to import torch, loads the probe, and
tells it of modules, optimizers, steps, batches and threads. Nothing here may change what the program
computes, print, or raise: what goes wrong is noted in the process's file and read by `exec`.

Imports nothing that the interpreter has not got by itself, before the program does."""
import _thread
import os
import sys
import time

# The library takes objects of Python to be as an interpreter with a global lock has them.
if "t" in getattr(sys, "abiflags", ""):
    raise ImportError("a Python without a global interpreter lock is not recorded")

from . import calls, kit, ownership

PLAN_VARIABLE = "REPRO_CHECK_EXEC"

# As the probe numbers phases.
_BACKWARD, _OPTIMIZER = 1, 2

plan = None
_notes = {}  # by hook of ours that failed, and with what: how often
_hooks = {}
_pending = set()  # names of hooks that were not called yet


def start():
    """Called at the start of every Python process below `exec`."""
    global plan
    path = os.environ.get(PLAN_VARIABLE)
    if not path or plan is not None:
        return
    why = ownership.refusal(path)
    if why:
        raise PermissionError(why)
    with open(path, encoding="utf-8") as file:
        plan = _from_json(file.read())
    guarded(calls.defer_signals)()
    import atexit

    from . import seeds

    # The first that is registered is the last that is called.
    atexit.register(guarded(_end))
    _hook_imports(seeds.watched())


def _end():
    if recording is not None:
        recording.end()


def _from_json(text):
    """The module `json` costs as much as all else here, and the program may have another one of that name: this is the
    part of it that is built in."""
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)

    class Rules:
        strict, memo, parse_float, parse_int, parse_constant = True, {}, float, int, float
        object_hook = object_pairs_hook = array_hook = None

    return make_scanner(Rules)(text, 0)[0]


def begin_here(settings):
    """For a process that records a part of itself: the recording, whose end() ends it."""
    global plan
    if os.environ.get(PLAN_VARIABLE) or (recording is not None and not recording.ended):
        raise RuntimeError("this process is being recorded already")
    plan = settings
    guarded(calls.defer_signals)()
    if recording is not None:
        if recording.attached:
            recording.seeds.take_facts()  # of what was not recorded
        recording.begin()
    else:
        import torch  # noqa: F401 (its hook makes the recording)

        _hook_imports()
    if recording.failure is None:
        recording.stop_counting = guarded(recording.seeds.count_here)() or bool
    return recording


def _hook_imports(more=None):
    _hooks.update({"torch": _on_torch, **{name: _late(*place) for name, place in _WATCHED.items()}, **(more or {})})
    _pending.update(_hooks)
    for name in [name for name in _hooks if name in sys.modules]:
        _call_hook(name, sys.modules[name])
    sys.meta_path.insert(0, _Finder())


# Modules of others, and by which function of ours each is watched once it has been imported.
_WATCHED = {
    "torch.utils.data.dataloader": ("loaders", "on_dataloader"),
    "concurrent.futures.thread": ("lanes", "on_executor"),
    "multiprocessing.pool": ("lanes", "on_pool"),
    "torch.distributed.distributed_c10d": ("ranks", "on_distributed"),
    "torch.nn.parallel.distributed": ("ranks", "on_wrapper"),
    "torch.distributed.tensor._api": ("ranks", "on_dtensor"),
    "torch.distributed._tensor.api": ("ranks", "on_dtensor"),
    "torch.distributed.fsdp.fully_sharded_data_parallel": ("ranks", "on_fsdp"),
    "torch.distributed.checkpoint.state_dict_saver": ("checkpoints", "on_saver"),
    "torch.distributed.pipelining.stage": ("ranks", "on_pipeline"),
    "torch.distributed.algorithms.join": ("ranks", "on_join"),
    "torch.distributed.algorithms.model_averaging.averagers": ("ranks", "on_averagers"),
    "multiprocessing.process": ("ends", "on_process"),
    "triton.runtime.jit": ("kernels", "on_triton"),
    "triton.runtime.autotuner": ("kernels", "on_autotuner"),
    "torch._inductor.runtime.triton_heuristics": ("kernels", "on_heuristics"),
    "safetensors.torch": ("kernels", "on_safetensors"),
    "torch._dynamo.callback": ("compiled", "on_compiler"),
    "torch._dynamo.guards": ("compiled", "on_guards"),
    "torch._dynamo.output_graph": ("compiled", "on_compiled_graph"),
}


def _late(room, function):
    """That function, whose file is read when it is called."""
    return lambda module: getattr(__import__(f"{__package__}.{room}", fromlist=[function]), function)(module)


class _Nothing:
    def __enter__(self):
        pass

    def __exit__(self, *_error):
        pass


_untold = _Nothing  # until torch is there


def _note(where, error):
    """That a hook of ours failed: what it would have told is missing."""
    failure = where, f"{type(error).__name__}: {error}"
    if failure in _notes or len(_notes) < 20:
        _notes[failure] = _notes.get(failure, 0) + 1


def guarded(function):
    """`function`, whose failure becomes a note. What it asks of tensors no `__torch_function__` of the program's
    is told of, and the program's signal handlers wait until it is through."""

    def call(*args, **kwargs):
        calls.hold()
        try:
            with _untold():
                return function(*args, **kwargs)
        except Exception as error:
            if _is_of_program(error):
                raise
            _note(getattr(function, "__name__", "hook"), error)
            return None
        finally:
            calls.release()

    call._torchdynamo_disable = True  # no compiler looks into it, nor says that it cannot
    return call


_FOLDER = os.path.dirname(os.path.dirname(__file__)) + "/"


def _is_of_program(error):
    """Whether another thread has had it raised in this one: it comes out of a line of ours, and is of a class that no
    line of ours raises."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    raises = type(error).__module__.partition(".")[0]
    return trace.tb_frame.f_code.co_filename.startswith(_FOLDER) and raises not in ("builtins", "torch", "ctypes")


def calling_frame():
    """Of the program, or of a library that it calls: the innermost that is none of ours."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_FOLDER):
        frame = frame.f_back
    return frame


_compiling = bool  # which says no, until PyTorch's own is in its place


def attached():
    """The recording; None before PyTorch is there, which may import what is watched itself, and in a worker."""
    return recording if recording is not None and recording.attached else None


class Instead(tuple):
    """What a hook puts in the place of something: before a call `(args, kwargs, token)`, behind it `(result,)`."""


calls.given_by(Instead)
watched = []  # each function of the program that is watched: its owner, and its name there


def watch(owner, name, before=None, after=None, leave=None):
    """Has hooks told of calls of a function of a module or a class, which stays the object that it is: see watch() of
    calls.c. Of a method that is bound to an object, its calls for that one."""
    function = getattr(owner, name)
    bound = getattr(function, "__self__", None) if hasattr(function, "__func__") else None
    function = getattr(function, "__func__", function)
    if bound is not None:
        before, after = _for(bound, before, after)
    calls.watch(function, before, after, leave)
    if type(function) is not type(watch) and type(function) is calls.function_type():
        import copyreg

        copyreg.pickle(type(function), _name_of)  # by its name, as functions are
    watched.append((owner, name))


def _name_of(function):
    return function.__qualname__


def _for(bound, before, after):
    """Hooks that are told of calls with `bound` alone."""

    def begin(given, *args, **kwargs):
        if given is bound:
            return before(given, *args, **kwargs) if before else True

    def end(token, result, *args, **kwargs):
        return after(token, result, *args, **kwargs)

    return begin, after and end


def tell(owner, name, after=None, before=None):
    """Has the recording told of calls of a function: `before` is given what it is given, `after` what it returned as
    well. No compiler knows of that."""
    before, after = before and guarded(before), after and guarded(after)

    def begin(*args, **kwargs):
        if _compiling() or attached() is None:
            return None
        if before:
            before(*args, **kwargs)
        return True

    def end(_token, result, *args, **kwargs):
        after(result, *args, **kwargs)

    watch(owner, name, begin, after and end)


def unread(owner, name, unless=None):
    """Has operators of a function recorded without contents, of calls for which `unless` does not hold."""

    def begin(*args, **_kwargs):
        if attached() is None or (unless is not None and unless(*args)):
            return None
        recording.probe.repro_check_unread(1)
        thread = recording.thread
        before, thread.unread = recording.is_unread(), True
        return (before,)

    def leave(token, _error):
        recording.thread.unread = token[0]
        recording.probe.repro_check_unread(0)

    watch(owner, name, begin, None, leave)


def within(owner, name, make):
    """Has calls of a function made inside of the context that `make` returns for what it is given; None = of none."""

    def begin(*args, **kwargs):
        context = make(*args, **kwargs)
        if context is not None:
            context.__enter__()
        return context

    def leave(context, _error):
        context.__exit__()

    watch(owner, name, begin, None, leave)


class _Finder:
    """Finds a watched module as the finders behind it do, and has its hook called each time it has been executed."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        _call_late_hooks()
        if name not in _hooks:
            return None
        for finder in sys.meta_path:
            if isinstance(finder, _Finder) or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _watch_loader(spec.loader)
                return spec
        return None


def _watch_loader(loader):
    """The loader itself stays the one that the program gets: it may ask for it without an import, or wrap it. A class
    that keeps its attributes elsewhere wraps a loader that is watched already."""
    if (isinstance(loader, type) or type(loader).__setattr__ is not object.__setattr__
            or "exec_module" in getattr(loader, "__dict__", "exec_module")):
        return
    execute = getattr(loader, "exec_module", None)
    if execute is not None:
        loader.exec_module = _watching(execute)


def _watching(execute):
    def exec_module(module):
        name = module.__name__
        execute(module)
        _call_hook(name, module)

    # Python leaves this frame out of the tracebacks of failed imports, as its own.
    exec_module.__code__ = exec_module.__code__.replace(co_filename="<frozen importlib._bootstrap>")
    return exec_module


def _call_hook(name, module):
    if name in _hooks:
        _pending.discard(name)
        guarded(_hooks[name])(module)


def _call_late_hooks():
    """For modules that were loaded past the finders of Python, or by a loader that cannot be watched."""
    for name in list(_pending):
        module = sys.modules.get(name)
        # A module that is loaded when it is first used is not loaded here.
        if (type(module).__getattribute__ is type(sys).__getattribute__ and not _is_executing(module)
                and name in _pending):
            _call_hook(name, module)


def _is_executing(module):
    for frame in sys._current_frames().values():
        while frame is not None:
            if frame.f_globals is module.__dict__ and frame.f_code.co_name == "<module>":
                return True
            frame = frame.f_back
    return False


recording = None


def _on_torch(torch):
    global recording, _untold
    if not hasattr(torch, "__version__"):  # another module of that name
        _pending.add("torch")
        return
    if recording is not None:
        return
    _untold = getattr(getattr(torch, "_C", None), "DisableTorchFunction", _Nothing)
    recording = _Recording(torch)


def leaves(name, value):
    """Tensors and numbers inside of `value`, each with its path."""
    return inside(name, value, leaf)


def leaf(name, value, _depth):
    if is_tensor(value):
        return [(name, value)]
    return [(name, float(value))] if isinstance(value, (bool, int, float)) else None


def is_tensor(value):
    return hasattr(value, "_cdata") and hasattr(value, "is_floating_point")


def inside(name, value, leaf, depth=0):
    """What `leaf` finds in `value`, or in its items where it returns None, each with its path."""
    found = leaf(name, value, depth)
    if found is not None:
        return found
    if depth > 8:
        return []
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return []
    return [each for key, part in items for each in inside(f"{name}[{key!r}]", part, leaf, depth + 1)]


def _parts(name, value):
    """The tensors that a class of tensors keeps its values in, as far as it tells them to compilers."""
    if not hasattr(type(value), "__tensor_flatten__"):
        return [(name, value)]
    return [part for inner in value.__tensor_flatten__()[0] for part in _parts(f"{name}.{inner}", getattr(value, inner))]


def _unwrapped(path):
    """Of a module or a parameter, without what compiling and sharding put in between."""
    return path.replace("_orig_mod.", "").replace("_fsdp_wrapped_module.", "")


_MAIN_LANE = "main"


def _place_of_lane(lane):
    """In the order in which lanes were made, each behind the one that made it: `main.2` is before `main.10`."""
    parts = lane.split(".")
    return parts[0] != _MAIN_LANE, [int(part) if part.isdigit() else -1 for part in parts], lane


_ENGINE_KEY = "TESTING_ONLY_GenericMode"


def unseen():
    """While it is entered, operators of the calling thread are not recorded."""
    return Excluded(True)


class Excluded:
    """While it is entered, the engine's key is excluded on the calling thread, or is not."""

    def __init__(self, excluded):
        self._probe = None if recording is None else recording.probe
        self._excluded = excluded

    def __enter__(self):
        if self._probe is not None:
            self._before = self._probe.repro_check_exclude(int(self._excluded))

    def __exit__(self, *_error):
        if self._probe is not None:
            self._probe.repro_check_exclude(self._before)


def tell_failure(why):
    """What a function of the probe returned, if it failed."""
    if why:
        raise RuntimeError(why.decode(errors="replace"))


class _Phase:
    """While it is entered, what the calling thread does is of one phase."""

    def __init__(self, probe, phase, following):
        self._probe, self._phase, self._following = probe, phase, following

    def __enter__(self):
        self._probe.repro_check_enter_phase(self._phase)

    def __exit__(self, *_error):
        self._probe.repro_check_leave_phase(self._following)


class _Recording:
    def __init__(self, torch):
        import array
        import ctypes

        self.process = os.getpid()
        self.probe = None
        self.attached = False
        self.checkpoints = None
        self.torch = torch
        self.ctypes = ctypes
        self.array = array.array

        from .optimizers import Optimizers
        from .ranks import Ranks

        self.ranks, self.optimizers = Ranks(self), Optimizers(self)
        self.how = None  # this process was made, where it was forked
        self.begin()

    def begin_forked(self):
        """In a child of a process that records itself."""
        self.process = os.getpid()
        self.checkpoints = None
        _notes.clear()  # which are the other's
        self.ends.begin()
        self.begin(is_forked=True)

    def begin(self, is_forked=False):
        first = self.directory = os.path.join(plan["directory"], str(self.process))
        images = 0  # of programs that this one has replaced (os.execv), or that had its number before
        while os.path.exists(self.directory) or os.path.exists(self.directory + ".json"):
            images += 1
            self.directory = f"{first}{images:03}"
        self.failure = None
        self.began = time.time()
        self.ended = False
        self.stop_counting = bool  # which does nothing; begin_here() counts for a part of the process alone
        self.ranks.begin()
        self.optimizers.begin()
        self.numbers = {}  # id of a module -> its number
        self.kept = {}  # id -> weak reference, which says when the id is free again
        self.roots = {}  # class name of root modules, and their lane -> how many it called
        self.shared = {}  # number of a root module that another thread called first -> lane -> its name there
        self.naming = _thread.RLock()
        self.names = {}  # id of a parameter -> name
        self.thread = _thread._local()  # what is so on one thread: is_unread()
        self.worker = False  # of a data loader
        self.workers = 0  # that were started
        self.sends = False  # in a worker: a batch, for which there is a thread that is not the program's
        try:
            if self.probe is None:
                self._load()
            self._begin(is_forked)
        except Exception as error:
            self.failure = str(error)
        self.write_state()
        if self.failure is None and not self.attached:
            self._attach()

    def _load(self):
        path = self._probe_file()
        probe = self.ctypes.PyDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW)
        # The interpreter's lock is let go in these: other threads may have to go on meanwhile.
        self.unlocked = self.ctypes.CDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW)
        for function in (self.unlocked.repro_check_begin, self.unlocked.repro_check_end,
                         probe.repro_check_begin_worker, probe.repro_check_end_batch,
                         probe.repro_check_take_batch):
            function.restype = self.ctypes.c_char_p
        probe.repro_check_operators.restype = self.ctypes.c_uint64
        probe.repro_check_fork_thread.restype = self.ctypes.c_uint32
        probe.repro_check_norms.restype = None
        probe.repro_check_lane.restype = self.ctypes.c_char_p
        probe.repro_check_place.restype = self.ctypes.c_void_p
        probe.repro_check_order.restype = None
        probe.repro_check_let_be.restype = None

        class Epoch(self.ctypes.Structure):  # repro_check_epoch of the probe
            _fields_ = [("sampler", self.ctypes.c_char_p), ("place", self.ctypes.c_void_p),
                        *((name, self.ctypes.c_int64) for name in ("loader", "epoch", "workers"))]

        class Worker(self.ctypes.Structure):  # repro_check_worker of the probe
            _fields_ = [("number", self.ctypes.c_uint32), ("process", self.ctypes.c_uint64),
                        ("missing", self.ctypes.c_char_p)]

        self.Epoch, self.Worker = Epoch, Worker
        self.probe = probe

    def _probe_file(self):
        torch = kit.Torch(self.torch.__version__, os.path.dirname(self.torch.__file__))
        # What failed once for a process of this recording is not tried again by each of the others.
        known = os.path.join(plan["directory"], f"refused-{torch.version}")
        if os.path.exists(known):
            with open(known, encoding="utf-8") as file:
                raise RuntimeError(file.read())
        try:
            return kit.probe_for(torch, plan["probes"], plan["private"])
        except kit.Refused as refused:
            with open(known, "w", encoding="utf-8") as file:
                file.write(str(refused))
            raise

    def _begin(self, is_forked):
        import json

        settings = {**plan, "argv": sys.argv}
        if is_forked:  # it goes on with the generators and settings of its parent
            settings["seed"] = None
        else:
            self._pin()
        tell_failure(self.unlocked.repro_check_begin(os.fsencode(self.directory), json.dumps(settings).encode()))
        from . import seeds

        seeds.watch_generators(self.probe)

    def _pin(self):
        mode = plan["determinism"]
        if mode == "off":
            return
        self.torch.use_deterministic_algorithms(True, warn_only=mode == "warn")
        cudnn = getattr(self.torch.backends, "cudnn", None)
        if cudnn is not None:
            cudnn.deterministic = True
            cudnn.benchmark = False

    def write_state(self):
        """Whole or not at all: written beside, then renamed."""
        import json

        from . import processes

        rank, ranks = self.ranks.rank or (None, None)
        notes = [f"{where}: {error}" for where, error in _notes]
        state = {"process": self.process, "parent": os.getppid(), "started": processes.started(),
                 "how": processes.how(self), "command": processes.command(), "failure": self.failure,
                 "ended": self.ended, "notes": notes, "joins": self.ranks.joins, "worker": self.worker,
                 "attempt": self.ranks.attempt, "began": self.began,
                 "rank": rank, "ranks": ranks,
                 "operators": 0 if self.failure else self.probe.repro_check_operators()}
        path = self.directory + ".json"
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(state, file)
        os.replace(path + ".new", path)

    def end(self):
        """The program ends; a child that was forked has nothing to end."""
        if self.ended or os.getpid() != self.process:
            return
        if self.checkpoints is not None:
            guarded(self.checkpoints.at_end)()
        self.stop_counting()
        self.ended = True
        if self.failure is None:
            guarded(self._settle_roots)()
            guarded(self.optimizers.tell_untrained)()
            for name, text in guarded(self.seeds.take_facts)() or ():
                self.probe.repro_check_fact(name.encode(), text.encode(errors="replace"))
            guarded(self._tell_end)()
            why = self.unlocked.repro_check_end()
            if why:
                self.failure = why.decode(errors="replace")
        self.write_state()

    def _tell_end(self):
        """By which exception, where one is known, and which hooks of ours have failed."""
        raised = self.ends.raised() if os.environ.get(PLAN_VARIABLE) else None  # else only a part of it ends
        if raised is not None:
            kind, file, line, text, thread = (
                each if isinstance(each, int) else each.encode(errors="replace") for each in raised)
            first_line = next(iter(text.strip().splitlines()), b"")[:500] if self.ranks.rank and not thread else b""
            self.probe.repro_check_raised(kind, file, self.ctypes.c_uint64(line), text, first_line, thread)
        for (where, error), count in _notes.items():
            self.probe.repro_check_failed_hook(
                where.encode(errors="replace"), error.encode(errors="replace"), self.ctypes.c_uint64(count))

    def begin_worker(self):
        """Of a data loader, which this process is from now on, whether it was forked or began by itself.
        @return whether it can be recorded"""
        self.worker = True
        self.end()  # of one that began by itself
        self.process = None  # there is nothing more to end
        if self.failure is not None:
            return False
        self.ended = False
        self.attached = False  # loaders of its own are not told of
        self.checkpoints = None
        self.numbers, self.kept, self.roots, self.shared, self.names = {}, {}, {}, {}, {}
        return True

    def _attach(self):
        global _compiling
        import atexit
        import weakref

        if "processes" not in plan:  # a part of the process alone
            atexit.register(guarded(self.end))
        os.register_at_fork(after_in_child=self._let_go)
        end = guarded(self.end)
        watch(os, "_exit", lambda *_args, **_kwargs: end())

        def replace(path, *_args, **_kwargs):
            if not isinstance(path, int) and os.access(path, os.X_OK):  # else the program goes on, as far as we know
                end()

        for name in ("execv", "execve"):  # which the others call
            watch(os, name, guarded(replace))
        self.weakref = weakref
        self.plain = {float, self.torch.Tensor, self.torch.nn.Parameter}
        _compiling = getattr(getattr(self.torch, "compiler", None), "is_compiling", bool)
        self.compiling = _compiling
        for attach in (self._watch_modules, self.optimizers.watch, self._watch_backward, self._watch_threads,
                       self._watch_seeds, self._watch_storages, self._pass_higher_order, self._watch_kernels,
                       self._watch_processes):
            guarded(attach)()
        if plan.get("checkpoints"):
            guarded(self._watch_checkpoints)()
        self.attached = True

    def _let_go(self):
        self.naming = _thread.RLock()  # another thread may have held it, which a forked child has not

    def _watch_storages(self):
        """FSDP frees the memory of a storage and gives it other memory later, by no operator."""
        new_memory, pointer = self.probe.repro_check_new_memory, self.ctypes.c_void_p

        def size(storage, *_args, **_kwargs):
            return None if self.ended or self.compiling() else (storage.nbytes(),)

        def grown(before, _result, storage, *_args, **_kwargs):
            if storage.nbytes() > before[0] and storage.device.type != "meta":
                new_memory(pointer(storage._cdata))

        watch(self.torch.UntypedStorage, "resize_", guarded(size), guarded(grown))

    def _pass_higher_order(self):
        """Operators that take functions are Python's alone: they would ask for a kernel of their own for the
        engine's key, and find none."""
        operators = self.torch._ops
        if not hasattr(operators, "_higher_order_ops"):
            return
        key = self.torch._C._parse_dispatch_key(_ENGINE_KEY)
        getattr(operators, "_HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS", []).append(key)
        for operator in operators._higher_order_ops.values():
            operator.fallthrough(key)

    def _watch_threads(self):
        from . import lanes

        lanes.watch_threads(self)
        import threading

        from . import ends

        self.ends = repro_check_ends
        ends.on_threads(threading)

    def _watch_seeds(self):
        from . import seeds

        self.seeds = repro_check_seeds
        seeds.watch_program(self)

    def _watch_kernels(self):
        from . import kernels

        self.kernels = kernels.Kernels(self)
        kernels.watch_graphs(self)
        kernels.watch_memory(self)

    def _watch_processes(self):
        from . import processes

        processes.watch(self)

    def _watch_checkpoints(self):
        from .checkpoints import Checkpoints

        self.checkpoints = Checkpoints(self)

    # Modules.

    def _watch_modules(self):
        enter, leave = self.probe.repro_check_enter_module, self.probe.repro_check_leave_module
        enter.restype = leave.restype = None
        compiling, ranks = self.compiling, self.ranks

        def before(module, *args, **_kwargs):
            if self.ended or compiling():
                return None
            number = self.numbers.get(id(module))
            if number is None:
                number = self._number(module)
                ranks.expects()
            elif number in self.shared:
                guarded(self._call_root)(number, module)
            if self.checkpoints is not None:
                guarded(self.checkpoints.at_forward)(module)
            if ranks.enters and not self.is_unread():
                guarded(ranks.enter_replica)(module, args)
            enter(number or 0)
            return True

        def after(_token, _error):
            if not self.ended:
                leave()

        watch(self.torch.nn.Module, "__call__", before, None, after)

    def is_plain(self, tensor):
        """No shape alone, and of no class that does something else."""
        return type(tensor) in (self.torch.Tensor, self.torch.nn.Parameter) and tensor.device.type != "meta"

    def _number(self, module):
        with self.naming:  # a thread that calls it meanwhile, or what is below it
            if id(module) not in self.numbers:
                guarded(self._name_root)(module)
        return self.numbers.get(id(module))

    def _name_root(self, called):
        """Names a module that nobody knows yet, and all that are below it: of the first one of the main thread the
        names are those of named_modules(), of others its class stands before them, and the lane where that is another.
        Which of several lanes is the first to call it is decided by their race: in the end it is named by the first of
        them in order."""
        root, wrapped = called, self.ranks.is_wrapper(called)
        if wrapped:
            self.ranks.wraps(called)
            self.probe.repro_check_expect_reductions()
            root = called.module
        lane = self._lane()
        prefix = self._root_name(root, lane)
        guarded(self._name_tensors)(root, prefix)
        # What is called is the last: a thread that finds its number finds all others, and whether it is shared.
        for name, module in reversed(list(root.named_modules())):
            if module is not called:
                self._define(module, ".".join(part for part in (prefix, name) if part))
        if lane != _MAIN_LANE:
            self.shared[len(self.kept) + 1] = {lane: prefix}
        self._define(called, prefix)

    def _name_tensors(self, root, prefix):
        for kind_number, tensors in ((1, root.named_parameters()), (2, root.named_buffers())):
            for name, tensor in tensors:
                full = _unwrapped(f"{prefix}.{name}" if prefix else name)
                self.names.setdefault(id(tensor), full)
                self.name(tensor, full, kind_number)
                self.ranks.tell_place(full, tensor)

    def _lane(self):
        return self.probe.repro_check_lane().decode()

    def _root_name(self, root, lane):
        """By the order in which the lane calls roots."""
        kind = type(root).__name__ + ("" if lane == _MAIN_LANE else "@" + lane.replace(".", ":"))
        count = self.roots[kind] = self.roots.get(kind, 0) + 1
        if lane == _MAIN_LANE and sum(self.roots[other] for other in self.roots if "@" not in other) == 1:
            return ""
        return kind if count == 1 else f"{kind}#{count}"

    def _call_root(self, number, called):
        lanes = self.shared[number]
        lane = self._lane()
        if lane not in lanes:
            with self.naming:
                lanes[lane] = self._root_name(called.module if self.ranks.is_wrapper(called) else called, lane)

    def _settle_roots(self):
        for lanes in self.shared.values():
            until_now, name = next(iter(lanes.values())), lanes[min(lanes, key=_place_of_lane)]
            if name != until_now:
                self.probe.repro_check_name_root(until_now.encode(), name.encode())

    def _define(self, module, path):
        key = id(module)
        if key in self.numbers:
            return
        path = _unwrapped(path)
        number = len(self.kept) + 1

        numbers = self.numbers

        def forget(_reference, key=key):
            numbers.pop(key, None)

        # Numbers are never used twice, so the reference stays as their count.
        self.kept[number] = self.weakref.ref(module, forget)
        self.numbers[key] = number
        self.probe.repro_check_define_module(
            self.ctypes.c_uint32(number), path.encode(), type(module).__name__.encode())

    def name(self, tensor, name, kind):
        self.probe.repro_check_name(self.ctypes.c_void_p(tensor._cdata), name.encode(), kind)

    # Losses.

    def _watch_backward(self):
        def begin(tensors, *_args, **_kwargs):
            if not self.compiling():
                if self.checkpoints is not None:
                    guarded(self.checkpoints.at_backward)()
                self.record("repro_check::loss", guarded(leaves)("loss", tensors) or [])
            # After it, and until the step, gradients are what is worked on.
            return self.phase(_BACKWARD, _OPTIMIZER)

        within(self.torch.autograd, "backward", guarded(begin))

    # Records.

    def is_unread(self):
        """Whether what the calling thread does is recorded without contents."""
        return getattr(self.thread, "unread", False)

    def phase(self, phase, following):
        return _Phase(self.probe, phase, following)

    def record(self, kind, values):
        if values and not self.ended and not self.is_unread():
            guarded(self._record)(kind, values)

    def _record(self, kind, values):
        if "torch.distributed.tensor" in sys.modules:
            from .ranks import held_here

            values = [held_here(name, value) for name, value in values]
        if any(type(value) not in self.plain for _, value in values):
            values = [part for name, value in values for part in _parts(name, value)]
        names = "\0".join([name for name, _ in values])
        if names.count("\0") >= len(values):
            raise ValueError("a name has a null in it")
        # Faster to make than arrays of ctypes, and a step of an optimizer has thousands.
        tensors = self.array("Q", [0 if isinstance(value, float) else value._cdata for _, value in values])
        numbers = self.array("d", [value if isinstance(value, float) else 0.0 for _, value in values])
        c = self.ctypes
        self.probe.repro_check_values(kind.encode(), c.c_size_t(len(values)), names.encode(),
                                      *[c.c_void_p(each.buffer_info()[0]) for each in (tensors, numbers)])
