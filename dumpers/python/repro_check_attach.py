# SPDX-License-Identifier: Apache-2.0
"""The Python side of `repro-check exec`: waits for the program to import torch, loads the probe, and
tells it of modules, optimizers, steps, batches and threads. Nothing here may change what the program
computes, print, or raise: what goes wrong is noted in the process's file and read by `exec`.

Imports nothing that the interpreter has not got by itself, before the program does."""
import _thread
import os
import sys

import repro_check_kit

PLAN_VARIABLE = "REPRO_CHECK_EXEC"

# As the probe numbers them.
_FORWARD, _BACKWARD, _OPTIMIZER, _DATA = 0, 1, 2, 4

_plan = None
_notes = []
_hooks = {}


def start():
    """Called at the start of every Python process below `exec`."""
    global _plan
    path = os.environ.get(PLAN_VARIABLE)
    if not path or _plan is not None:
        return
    # JSON is Python but for three words. The module costs as much as all else here, and the program may have another
    # one of that name.
    with open(path, encoding="utf-8") as file:
        _plan = eval(file.read(), {"null": None, "true": True, "false": False})
    for name in _UNPINNED:
        if name in sys.modules:
            _count_unpinned(sys.modules[name])
        else:
            _hooks[name] = _count_unpinned
    _hook_imports(random=_on_random, **{"numpy.random": _on_numpy})


def begin_here(plan):
    """For a process that records a part of itself: the recording, whose end() ends it."""
    global _plan
    if os.environ.get(PLAN_VARIABLE) or (_recording is not None and not _recording.ended):
        raise RuntimeError("this process is being recorded already")
    _plan = plan
    if _recording is not None:
        _recording.begin()
    else:
        import torch  # noqa: F401 (its hook makes the recording)

        _hook_imports()
    return _recording


def _hook_imports(**more):
    _hooks["torch"] = _on_torch
    _hooks["torch.utils.data.dataloader"] = _on_dataloader
    _hooks["concurrent.futures.thread"] = _on_executor
    _hooks["multiprocessing.pool"] = _on_pool
    _hooks["torch.distributed.distributed_c10d"] = _on_distributed
    _hooks["torch.nn.parallel.distributed"] = _on_wrapper
    _hooks["torch.distributed.tensor._api"] = _hooks["torch.distributed._tensor.api"] = _on_dtensor
    _hooks["torch.distributed.fsdp.fully_sharded_data_parallel"] = _on_fsdp
    _hooks["torch.distributed.pipelining.stage"] = _on_pipeline
    _hooks["triton.runtime.jit"] = _on_triton
    _hooks["triton.runtime.autotuner"] = _on_autotuner
    _hooks["torch._inductor.runtime.triton_heuristics"] = _on_heuristics
    _hooks["torch._dynamo.callback"] = _on_compiler
    _hooks["torch._dynamo.guards"] = _on_guards
    _hooks["torch._dynamo.output_graph"] = _on_compiled_graph
    _hooks.update(more)
    for name in [name for name in _hooks if name in sys.modules]:
        _guarded(_hooks.pop(name))(sys.modules[name])
    sys.meta_path.insert(0, _Finder())


# What no seed pins, by module. What these ask each other for is theirs.
_UNPINNED = {
    "os": ("urandom", "listdir", "scandir"),
    "time": ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns"),
    "uuid": ("uuid1",),
}
_ASK_FOR_OTHERS = {"random.py": "random.SystemRandom", "secrets.py": "secrets", "uuid.py": "uuid",
                   "glob.py": "glob", "pathlib.py": "pathlib", "os.py": "os.walk"}

_OWN_GENERATOR = "random.Random"  # which random.py asks for no others

# By what no seed pins, and by what was given one: how often the program itself asked for it, and where first.
_asked = {}
# In a process that was forked: the file in which it tells what it asked for, since it may end at any time.
_told_in = None
# By function that sets a seed or what is deterministic: the calls of the program.
_set_by_program = {}
_callers = {}  # by file: see _caller()
_LIBRARIES = os.path.dirname(os.__file__), os.path.dirname(__file__), "<"


def _caller(frame):
    """The name of its file, empty of a library's; and of a module that asks for others what it asks for."""
    path = frame.f_code.co_filename
    known = _callers.get(path)
    if known is None:
        folder, file = os.path.split(path)
        library = path.startswith(_LIBRARIES) or "-packages" in path
        asks = _ASK_FOR_OTHERS.get(file) if folder == _LIBRARIES[0] else None
        known = _callers[path] = ("" if library else file, asks)
    return known


def _line_of_program(name):
    """Of the caller of what is counted, behind the modules that ask for others, and what it is then
    called; without a line where the caller is a library, which asks for reasons of its own."""
    frame = sys._getframe(3)
    while frame is not None:
        file, asks = _caller(frame)
        if asks is None:
            return name, f"{file}:{frame.f_lineno}" if file else ""
        name, frame = name if name == _OWN_GENERATOR else asks, frame.f_back
    return name, ""


def _note_asked(name, _args=(), _kwargs=None, kind="unpinned"):
    name, line = _line_of_program(name)
    if line:
        _count_asked(f"{kind}.{name}", line)


def _count_asked(fact, line):
    if fact in _asked:
        _asked[fact][0] += 1
        return
    _asked[fact] = [1, line]
    if _told_in is not None:
        _guarded(_tell_parent)(f"{fact}\t{line}\n")


def _tell_parent(text):
    file = os.open(_told_in, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(file, text.encode(errors="replace"))
    finally:
        os.close(file)


def _forked():
    global _told_in
    if attached() is not None and not _recording.ended:
        _asked.clear()
        _told_in = _told_by_forked(_recording)


def _told_by_forked(recording):
    return recording.directory + ".asked"


def _asked_by_forked():
    """By fact: a line for each process that asked for it."""
    path, lines = _told_by_forked(_recording), {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for told in file:
                fact, line = told.rstrip("\n").split("\t")
                lines.setdefault(fact, []).append(line)
        os.unlink(path)
    return lines


def _noting(module, name, note):
    """A function of `module`, or of a class, each call of which is noted first: by its full name, with its arguments."""
    original, full = getattr(module, name), f"{module.__name__}.{name}"

    def call(*args, **kwargs):
        note(full, args, kwargs)
        return original(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__module__, call.__doc__ = getattr(module, "__module__", module.__name__), original.__doc__
    return call


def _count_unpinned(module):
    for name in _UNPINNED[module.__name__]:
        setattr(module, name, _noting(module, name, _note_asked))


def _note_settings(module, *names):
    """Has calls of functions of `module` that set something noted, with the line of the program."""
    for name in names:
        setattr(module, name, _noting(module, name, _guarded(_note_setting)))


def _note_setting(name, args, kwargs):
    frame = sys._getframe(3)
    if "-packages/torch/" in frame.f_code.co_filename:  # a compiler has what it found set again
        return
    while frame is not None and not _caller(frame)[0]:
        frame = frame.f_back
    if frame is None:
        return
    _keep_setting(name, args, kwargs, f"{_caller(frame)[0]}:{frame.f_lineno}")


def _keep_setting(name, args, kwargs, line):
    given = ", ".join([repr(arg) for arg in args] + [f"{key}={arg!r}" for key, arg in kwargs.items()])
    text = f"({given[:40]}) at {line}"
    calls = _set_by_program.setdefault(name, [0, text, text])
    calls[0] += 1
    calls[2] = text


def _note_own_generator(_name, args, kwargs):
    """That the program made a random.Random, or seeded one; what libraries make is theirs."""
    given = [arg for arg in (*args[1:], *kwargs.values()) if arg is not None]
    name, line = _line_of_program(_OWN_GENERATOR)
    if line and given:
        _guarded(_keep_setting)(f"{name}.seed", given, {}, line)
    elif line:
        _count_asked(f"unpinned.{name}", line)


def _facts():
    """What is to be known of the program, by name."""
    forked = _asked_by_forked()
    for fact in sorted({*_asked, *forked}):
        texts = []
        if fact in _asked:
            count, line = _asked[fact]
            texts.append(f"{count} call{'s' if count > 1 else ''}, first at {line}")
        if fact in forked:
            count = len(forked[fact])
            texts.append(f"in {count} forked process{'es' if count > 1 else ''}, first at {min(forked[fact])}")
        yield fact, ", ".join(texts)
    if sys.flags.hash_randomization and os.environ.get("PYTHONHASHSEED", "random") == "random":
        yield "unpinned.hash", "of strings, and with it the order of sets: PYTHONHASHSEED is not set"
    for name, (count, first, last) in _set_by_program.items():
        yield f"set.{name}", first if count == 1 else f"{first}, {count} calls, the last {last}"
    cuda = _recording.torch.cuda
    if cuda.is_initialized():
        yield "gpu.names", ", ".join(cuda.get_device_name(number) for number in range(cuda.device_count()))


class _Nothing:
    def __enter__(self):
        pass

    def __exit__(self, *_error):
        pass


_untold = _Nothing  # until torch is there


def _guarded(function):
    """`function`, whose failure becomes a note. What it asks of tensors no `__torch_function__` of the program's
    is told of."""

    def call(*args, **kwargs):
        try:
            with _untold():
                return function(*args, **kwargs)
        except Exception as error:
            note = f"{getattr(function, '__name__', 'hook')}: {type(error).__name__}: {error}"
            if len(_notes) < 20 and note not in _notes:
                _notes.append(note)
            return None

    return call


_compiling = bool  # which says no, until PyTorch's own is in its place


def attached():
    """The recording; None before PyTorch is there, which may import what is watched itself, and in a worker."""
    return _recording if _recording is not None and _recording.attached else None


def put(places, name, function):
    """In the place of what the first of `places` has under that name, and of what others have that is the same."""
    original = getattr(places[0], name)
    for place in places:
        if getattr(place, name, None) is original:
            setattr(place, name, function)


def telling(original, after=None, before=None):
    """`original`, which tells the recording of its calls, and no compiler of that: `before` is given what it is given,
    `after` what it returned as well."""
    import functools

    before, after = before and _guarded(before), after and _guarded(after)

    @functools.wraps(original)
    def call(*args, **kwargs):
        if _compiling() or attached() is None:
            return original(*args, **kwargs)
        if before:
            before(*args, **kwargs)
        result = original(*args, **kwargs)
        if after:
            after(result, *args, **kwargs)
        return result

    return call


def tell(places, name, after=None, before=None):
    """Has calls of a function told, wherever `places` have it."""
    put(places, name, telling(getattr(places[0], name), after, before))


class _Finder:
    """Finds what the finders behind it find, and calls a hook when it has been imported."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in _hooks:
            return None
        for finder in sys.meta_path:
            if isinstance(finder, _Finder) or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, _hooks.pop(name))
                return spec
        return None


class _Loader:
    def __init__(self, loader, hook):
        self._loader = loader
        self._hook = hook

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _guarded(self._hook)(module)


def _on_random(module):
    if hasattr(module, "_urandom"):
        module._urandom = os.urandom
    if _plan["seed"] is not None:
        module.seed(_plan["seed"])
    _note_settings(module, "seed")
    module.Random.seed = _noting(module.Random, "seed", _note_own_generator)


def _pin_entropy(module, seed):
    """What a generator of NumPy that is given no seed is made of, in the order in which such are made. One that is
    given a seed the old way, `RandomState(7)`, asks for it too, and uses none of it."""
    import itertools
    import random

    calls = itertools.count()
    if hasattr(module, "randbits"):
        module.randbits = lambda bits: random.Random(f"{seed} {next(calls)}").getrandbits(bits)


def _on_numpy(module):
    seed = _plan["seed"]
    if seed is not None:
        module.seed(seed)
        _pin_entropy(sys.modules.get(f"{module.__name__}.bit_generator"), seed)
    original = module.default_rng

    def default_rng(given=None):
        if given is None:
            _note_asked("numpy.random.default_rng", kind="unpinned" if seed is None else "pinned")
        return original(seed if given is None else given)

    default_rng.__doc__ = original.__doc__
    module.default_rng = default_rng
    _note_settings(module, "seed")
    if _recording is not None and _recording.checkpoints is not None:
        _recording.checkpoints.watch_numpy(module)


_recording = None


def _on_torch(torch):
    global _recording, _untold
    _untold = getattr(getattr(torch, "_C", None), "DisableTorchFunction", _Nothing)
    _recording = _Recording(torch)


def _on_executor(module):
    """Each piece of work that a pool of threads is given is a lane, by the order in which its creator gives them:
    which thread takes it, and how many there are, is chance."""
    cls = module._WorkItem
    run = cls.run

    def fork(_made, item, *_args, **_kwargs):
        item._repro_check_lane = _recording.fork_lane()

    def run_in_lane(item, *args, **kwargs):
        lane = getattr(item, "_repro_check_lane", None)
        return (run if lane is None else _in_lane(lane, run))(item, *args, **kwargs)

    tell((cls,), "__init__", fork)
    cls.run = run_in_lane


def _on_pool(module):
    """The same of `ThreadPool`, whose pieces of work are what it puts before its threads."""
    cls = module.ThreadPool
    original = cls._setup_queues

    @_guarded
    def with_lane(task):
        if task is None or attached() is None:
            return task
        job, number, function, args, kwargs = task
        return job, number, _in_lane(_recording.fork_lane(), function), args, kwargs

    def _setup_queues(pool):
        original(pool)
        put = pool._quick_put
        pool._quick_put = lambda task: put(with_lane(task) or task)

    cls._setup_queues = _setup_queues


def _in_lane(lane, function):
    """`function`, in a lane of its own, whichever thread calls it."""

    def call(*args, **kwargs):
        _recording.probe.repro_check_end_thread()
        _recording.probe.repro_check_begin_thread(lane)
        return function(*args, **kwargs)

    return call


# What threads run that do nothing but what a pool is given; and those that pin batches, in whatever order workers send
# them, before a loader hands them out in one.
_OF_POOLS = ("concurrent.futures.thread", "_worker"), ("multiprocessing.pool", "worker")
_OF_LOADERS = (("torch.utils.data._utils.pin_memory", "_pin_memory_loop"),)


def _is_one_of(loops, function):
    """Whether a thread that is about to start runs one of them."""
    target = getattr(getattr(function, "__self__", None), "_target", None)
    return target is not None and any(
        target is getattr(sys.modules.get(module), name, None) for module, name in loops)


def _on_dataloader(module):
    """Records what a loader hands out, in the process that asks for it."""
    cls = module._BaseDataLoaderIter
    original = cls.__next__

    def __next__(self):
        if attached() is None or _recording.ended:
            return original(self)
        with _recording.phase(_DATA, _FORWARD):
            batch = original(self)
            _guarded(_record_order_of_workers)(self)
            _guarded(_take_from_worker)(self)
            _recording.record("repro_check::batch", _guarded(_leaves)("batch", batch) or [])
            if _recording.checkpoints is not None:
                _guarded(_recording.checkpoints.at_batch)(self)
        return batch

    cls.__next__ = __next__
    # Workers send batches in whatever order they have them; they are handed out in one.
    several = module._MultiProcessingDataLoaderIter
    receive = several._try_get_data

    def _try_get_data(self, *args, **kwargs):
        with _unseen():
            return receive(self, *args, **kwargs)

    several._try_get_data = _try_get_data
    _watch_loaders(module)
    if _plan.get("workers") and not _plan["bare"]:
        _watch_workers(several, module._utils.worker)


def _watch_workers(several, module):
    """What a worker does for a batch is recorded where that is made, and told by its number in the pass; it
    becomes part of the recording where the batch is handed out."""
    import functools

    loop, reset, put_index = module._worker_loop, several._reset, several._try_put_index

    # Found by its name in a process that is spawned.
    @functools.wraps(loop)
    def _worker_loop(kind, dataset, indices, batches, *args, **kwargs):
        recorded = None if _recording is None else _guarded(_recording.become_worker)(batches)
        return loop(kind, dataset, indices, recorded or batches, *args, **kwargs)

    def _reset(iterator, loader, first_iter=False):
        if first_iter:
            iterator._repro_check_pass, iterator._repro_check_makers = 0, {}
            iterator._repro_check_first = _recording.workers if _recording else 0
            if _recording:
                _recording.workers += iterator._num_workers
        else:
            iterator._repro_check_pass += 1
        return reset(iterator, loader, first_iter)

    def _try_put_index(iterator):
        number = iterator._send_idx
        put_index(iterator)
        if iterator._send_idx > number:
            iterator._repro_check_makers[number] = iterator._task_info[number][0]

    module._worker_loop, several._reset, several._try_put_index = _worker_loop, _reset, _try_put_index


def _take_from_worker(iterator):
    makers = getattr(iterator, "_repro_check_makers", None)
    if makers is None:
        return
    if getattr(iterator, "_in_order", True):
        number = iterator._rcvd_idx - 1
        _recording.take_from_worker(iterator, number, makers.pop(number), b"it could not be attached to")
    else:
        _recording.take_from_worker(iterator, -1, 0, b"its batches come in any order")


class _Sent:
    """The queue in which a worker sends batches: what comes before one made it."""

    def __init__(self, queue, recording):
        self._queue, self._recording, self._pass = queue, recording, 0

    def __getattr__(self, name):
        return getattr(self._queue, name)

    def put(self, batch, *args, **kwargs):
        if isinstance(batch[0], int):
            _guarded(self._recording.end_batch)(f"{self._pass}.{batch[0]}")
        else:  # that a further pass begins
            self._pass += 1
        self._recording.sends = True
        try:
            self._queue.put(batch, *args, **kwargs)
        finally:
            self._recording.sends = False


def _watch_loaders(module):
    """Which samples a batch is made of is recorded before they are read, at the line where the loader
    was made: where they are others, nothing that reads them is to blame."""
    import weakref

    places = weakref.WeakKeyDictionary()
    passes = _Passes()
    cls, several = module._BaseDataLoaderIter, module._MultiProcessingDataLoaderIter

    def note_place(loader, *_args, **_kwargs):
        places[loader] = _recording.probe.repro_check_place()

    def note_loader(iterator, loader, *_args, **_kwargs):
        if _recording.checkpoints is not None:
            _recording.checkpoints.before_iterator(iterator, loader)

    def note_epoch(iterator, loader):
        place = places.get(loader)
        number, epoch = passes.begin(loader, place)
        iterator._repro_check_epoch = _recording.Epoch(
            _sampler_of(loader).encode(), place, number, epoch, iterator._num_workers)

    def see_order(samples, iterator):
        if _recording.ended:
            return
        if isinstance(iterator, several):
            # Workers are asked ahead: by number of the batch.
            vars(iterator).setdefault("_repro_check_orders", {})[iterator._send_idx] = samples
        else:
            _record_order(iterator, samples)

    tell((module.DataLoader,), "__init__", before=note_place)
    tell((module.DataLoader,), "__iter__", note_epoch)
    tell((cls,), "__init__", before=note_loader)
    tell((cls,), "_next_index", see_order)


class _Passes:
    """Numbers loaders as they are first iterated, and the passes of each."""

    def __init__(self):
        self._made_at = {}  # place -> [weak reference to a loader, its number, passes begun]
        self._count = 0

    def begin(self, loader, place):
        import weakref

        known = self._made_at.setdefault(place, [])
        found = next((each for each in known if each[0]() is loader), None)
        if found is None:
            # One that is made for every epoch goes on where the one before it ended.
            found = next((each for each in known if each[0]() is None), None)
            if found is None:
                found = [None, self._count, 0]
                self._count += 1
                known.append(found)
            found[0] = weakref.ref(loader)
        found[2] += 1
        return found[1], found[2] - 1


def _sampler_of(loader):
    if isinstance(loader.dataset, sys.modules["torch.utils.data"].IterableDataset):
        return "IterableDataset"
    batches = loader.batch_sampler
    return type(loader.sampler if batches is None else getattr(batches, "sampler", batches)).__name__


def _record_order_of_workers(iterator):
    orders = getattr(iterator, "_repro_check_orders", None)
    if orders:
        _record_order(iterator, orders.pop(iterator._rcvd_idx - 1, None))


def _record_order(iterator, samples):
    epoch = getattr(iterator, "_repro_check_epoch", None)
    if epoch is None:  # of a loader that was there before the recording
        return
    samples = list(samples) if isinstance(samples, (list, tuple)) else [samples]
    c = _recording.ctypes
    told = all(type(sample) is int for sample in samples)
    numbers = (c.c_int64 * len(samples))(*samples) if told else None
    _recording.probe.repro_check_order(c.byref(epoch), c.c_size_t(len(samples)), numbers)


# By launchers: the variables that hold a process's rank, and how many there are.
_LAUNCHED = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"),
             ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))


def _launched_as():
    """Rank and number of ranks that a launcher gave this process; None where it is no one of several."""
    for names in _LAUNCHED:
        rank, size = (os.environ.get(name, "") for name in names)
        if rank.isdigit() and size.isdigit() and int(size) > 1:
            return int(rank), int(size)
    return None


def _on_distributed(module):
    places = module, sys.modules[module.__package__]
    tell(places, "init_process_group", lambda *_args, **_kwargs: _recording.joined(module))
    for name in ("new_group", "_new_group_with_tag", "split_group"):
        if hasattr(module, name):  # what ranks exchange is of a group: which there are is told when they have been made
            tell(places, name, lambda *_args, **_kwargs: _recording.tell_groups(module))
    for name in ("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
                 "send_object_list", "recv_object_list"):
        # They travel pickled, in memory of which nobody writes the end: bytes that say nothing of what is computed.
        if hasattr(module, name):
            put(places, name, _unread(getattr(module, name)))


def _unread(original):
    """`original`, whose operators are recorded without contents."""
    import functools

    @functools.wraps(original)
    def call(*args, **kwargs):
        if attached() is None:
            return original(*args, **kwargs)
        _recording.probe.repro_check_unread(1)
        thread = _recording.thread
        before, thread.unread = _recording.is_unread(), True
        try:
            return original(*args, **kwargs)
        finally:
            thread.unread = before
            _recording.probe.repro_check_unread(0)

    return call


def _on_pipeline(module):
    """A stage finds out shapes by passes over memory that nobody has written."""
    for cls in (module._PipelineStageBase, module.PipelineStage):
        for name in ("_shape_inference", "_forward_metadata_inference", "_backward_metadata_inference"):
            if name in vars(cls):
                setattr(cls, name, _unread(getattr(cls, name)))


def _on_wrapper(module):
    """That there are replicas is known where the wrapper is made: it may be that nobody calls it."""
    tell((module.DistributedDataParallel,), "__init__", lambda _, wrapper, *_args, **_kwargs: _recording.wraps(wrapper))


def _on_dtensor(module):
    """Where tensors become parts of one that lies on several ranks, and where they are plain ones again."""
    cls = module.DTensor
    if getattr(cls.from_local, "is_watched", False):  # under the module's other name
        return
    tell((cls,), "to_local", lambda _, tensor, *_args, **_kwargs: _recording.crosses("leaves", tensor))
    tell((cls,), "from_local", lambda made, *_args, **_kwargs: _recording.crosses("enters", made))
    cls.from_local.is_watched = True
    cls.from_local = staticmethod(cls.from_local)


def _on_fsdp(module):
    """Its own way to clip: by a norm that is put together of what the ranks hold."""

    def clipped(norm, _wrapper, max_norm, norm_type=2.0):
        _recording.record_clipping(norm, max_norm, norm_type, [("all_ranks", 1.0)])

    tell((module.FullyShardedDataParallel,), "clip_grad_norm_", clipped)


def _on_triton(module):
    import repro_check_kernels

    repro_check_kernels.watch_triton(module)


def _on_autotuner(module):
    import repro_check_kernels

    repro_check_kernels.watch_tuning(module.Autotuner, "_bench")


def _on_heuristics(module):
    import repro_check_kernels

    repro_check_kernels.watch_tuning(module.CachingAutotuner, "benchmark_all_configs", "coordinate_descent_tuning")


def _on_compiler(module):
    """What a compiler runs to compile is none of the program's computation."""
    import contextlib
    import warnings

    # Said because of our hooks, which do nothing there.
    warnings.filterwarnings("ignore", r"Using `torch\.compile\(module\)` when there are global hooks")
    cls = module.CompilationCallbackHandler
    original = cls.install_callbacks

    @contextlib.contextmanager
    def install_callbacks(handler, *args, **kwargs):
        if _recording is not None:
            _recording.probe.repro_check_keep_key()
        with _unseen(), original(handler, *args, **kwargs):
            yield

    cls.install_callbacks = install_callbacks


def _on_guards(module):
    """The conditions under which compiled code is used again hold the dispatch keys of its inputs, ours
    among them: they are made as they will be checked, or each call would compile anew."""
    cls = module.CheckFunctionManager
    original = cls.__init__

    def __init__(manager, *args, **kwargs):
        with _Excluded(False):
            original(manager, *args, **kwargs)

    cls.__init__ = __init__


def _on_compiled_graph(module):
    cls = module.OutputGraph
    original = cls.call_user_compiler

    def call_user_compiler(graph, traced, *args, **kwargs):
        compiled = original(graph, traced, *args, **kwargs)
        if _recording is None:
            return compiled
        return _guarded(_recording.region)(compiled, traced) or compiled

    cls.call_user_compiler = call_user_compiler


def _leaves(name, value):
    """Tensors and numbers inside of `value`, each with its path."""
    return _inside(name, value, _leaf)


def _leaf(name, value, _depth):
    if is_tensor(value):
        return [(name, value)]
    return [(name, float(value))] if isinstance(value, (bool, int, float)) else None


def is_tensor(value):
    return hasattr(value, "_cdata") and hasattr(value, "is_floating_point")


def _inside(name, value, leaf, depth=0):
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
    return [each for key, part in items for each in _inside(f"{name}[{key!r}]", part, leaf, depth + 1)]


def _spec_of(tensor):
    """How a DTensor lies on its ranks; None of another tensor."""
    return getattr(tensor, "_spec", None) if hasattr(tensor, "_local_tensor") else None


def _held_here(name, tensor):
    """Of a DTensor what this rank holds, its name with the part that it is: `weight@0:1/2` is the second
    half along dimension 0. Equal names on several ranks are replicas of one another."""
    spec = _spec_of(tensor)
    if spec is None:
        return name, tensor
    place = spec.mesh.get_coordinate()
    parts = []
    for axis, placement in enumerate(spec.placements):
        if placement.is_replicate() or place is None:
            continue
        dimension = placement.dim if hasattr(placement, "dim") else "partial"
        parts.append(f"{dimension}:{place[axis]}/{spec.mesh.size(axis)}")
    return name + ("@" + ",".join(parts) if parts else ""), tensor._local_tensor


def _place_of(tensor):
    """Where in the whole lies what this rank holds of a DTensor, as JSON; None of another tensor, or where it holds
    nothing."""
    import json

    spec = _spec_of(tensor)
    if spec is None or spec.mesh.get_coordinate() is None:
        return None
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    _, offset = compute_local_shape_and_global_offset(tensor.shape, spec.mesh, spec.placements)
    axes = spec.mesh.mesh_dim_names or range(spec.mesh.ndim)
    return json.dumps({"shape": list(tensor.shape), "offset": list(offset), "placements": [
        f"{axis} of {spec.mesh.size(number)}: {placement}"
        for number, (axis, placement) in enumerate(zip(axes, spec.placements))]})


def _unwrapped(path):
    """Of a module or a parameter, without what compiling and sharding put in between."""
    return path.replace("_orig_mod.", "").replace("_fsdp_wrapped_module.", "")


def _holders_of(spec):
    """The ranks that hold the same of a DTensor: those along the axes of its mesh that it is replicated over."""
    place = spec.mesh.get_coordinate()
    with _unseen():
        ranks = spec.mesh.mesh[tuple(slice(None) if placement.is_replicate() else place[axis]
                                     for axis, placement in enumerate(spec.placements))]
        return ",".join(map(str, ranks.flatten().tolist()))


def _axes_of(tensor):
    """Along which axes of its mesh a DTensor is in parts: `|dp,tp`."""
    spec = _spec_of(tensor)
    if spec is None:
        return ""
    axes = spec.mesh.mesh_dim_names or range(spec.mesh.ndim)
    parted = [str(axis) for axis, placement in zip(axes, spec.placements) if not placement.is_replicate()]
    return "|" + ",".join(parted) if parted else ""


def _read_again(parameters):
    """What a function may be given in place of `parameters`, and what holds the same: an iterator can be read
    once. One that was a generator is one again, since functions tell them apart."""
    if not hasattr(parameters, "__next__"):
        return parameters, parameters
    read = list(parameters)
    return (each for each in read), read


def grad_scaler(torch):
    """Its class, of automatic mixed precision."""
    return getattr(getattr(torch, "amp", None), "GradScaler", None) or torch.cuda.amp.GradScaler


_ENGINE_KEY = "TESTING_ONLY_GenericMode"
_NO_LANE = 0xFFFFFFFF  # as the probe has it

# What replicates a module over ranks, and reduces its gradients.
_WRAPPERS = ("DistributedDataParallel",)
# Optimizers of which each rank keeps the state of other parameters.
_SHARDING = ("ZeroRedundancyOptimizer",)


def _between(call, before, after):
    """`call` of a module, for releases whose hooks are not told of a call that raises."""

    def between(module, *args, **kwargs):
        before(module, args)
        try:
            return call(module, *args, **kwargs)
        finally:
            after(module, args, None)

    return between


def _unseen():
    """While it is entered, operators of the calling thread are not recorded."""
    return _Excluded(True)


class _Excluded:
    """While it is entered, the engine's key is excluded on the calling thread, or is not."""

    def __init__(self, excluded):
        self._probe = None if _recording is None else _recording.probe
        self._excluded = excluded

    def __enter__(self):
        if self._probe is not None:
            self._before = self._probe.repro_check_exclude(int(self._excluded))

    def __exit__(self, *_error):
        if self._probe is not None:
            self._probe.repro_check_exclude(self._before)


def _worker_directory(process):
    return os.path.join(_plan["directory"], f"worker-{process}")


def _tell(why):
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
        self.begin()

    def begin(self):
        self.directory = os.path.join(_plan["directory"], str(self.process))
        self.failure = None
        self.ended = False
        self.rank = _launched_as()
        self.joins = False  # a process group, not just launched as one of several
        self.groups = {}  # of ranks: address -> name
        self.holders = {}  # of a DTensor: mesh, placements -> ranks that hold the same
        self.wrapped = []  # weak references to modules that are replicated
        self.replicas = None  # the ranks on which they are, where all wrappers have the same
        self.through = False  # the forward pass that begins came through its wrapper
        self.enters = False  # the first forward pass of a step, or of a model, is to come, of one of several replicas
        self.numbers = {}  # id of a module -> its number
        self.kept = {}  # id -> weak reference, which says when the id is free again
        self.roots = {}  # class name of root modules, and their lane -> how many there were
        self.names = {}  # id of a parameter -> name
        self.thread = _thread._local()  # what is so on one thread: is_unread()
        self.stepping = set()  # ids of optimizers that make a step
        self.inner_state = {}  # id of an optimizer -> what the step of another one inside of its own left
        self.worker = False  # of a data loader
        self.workers = 0  # that were started
        self.sends = False  # in a worker: a batch, for which there is a thread that is not the program's
        self.leaders = {}  # by lane: the optimizer that has the most parameters there (weak), and how many
        try:
            if self.probe is None:
                self._load()
            self._begin()
        except Exception as error:
            self.failure = str(error)
        self._write_state()
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

        class Epoch(self.ctypes.Structure):  # repro_check_epoch of the probe
            _fields_ = [("sampler", self.ctypes.c_char_p), ("place", self.ctypes.c_void_p),
                        *((name, self.ctypes.c_int64) for name in ("loader", "epoch", "workers"))]

        class Worker(self.ctypes.Structure):  # repro_check_worker of the probe
            _fields_ = [("number", self.ctypes.c_uint32), ("process", self.ctypes.c_uint64),
                        ("missing", self.ctypes.c_char_p)]

        self.Epoch, self.Worker = Epoch, Worker
        self.probe = probe

    def _probe_file(self):
        torch = repro_check_kit.Torch(self.torch.__version__, os.path.dirname(self.torch.__file__))
        # What failed once for a process of this recording is not tried again by each of the others.
        known = os.path.join(_plan["directory"], f"refused-{torch.version}")
        if os.path.exists(known):
            with open(known, encoding="utf-8") as file:
                raise RuntimeError(file.read())
        try:
            return repro_check_kit.probe_for(torch, _plan["probes"])
        except repro_check_kit.Refused as refused:
            with open(known, "w", encoding="utf-8") as file:
                file.write(str(refused))
            raise

    def _begin(self):
        import json

        self._pin()

        _tell(self.unlocked.repro_check_begin(
            os.fsencode(self.directory), json.dumps({**_plan, "argv": sys.argv}).encode()))

    def _pin(self):
        mode = _plan["determinism"]
        if mode == "off":
            return
        self.torch.use_deterministic_algorithms(True, warn_only=mode == "warn")
        cudnn = getattr(self.torch.backends, "cudnn", None)
        if cudnn is not None:
            cudnn.deterministic = True
            cudnn.benchmark = False

    def _write_state(self):
        """Whole or not at all: written beside, then renamed."""
        import json

        state = {"process": self.process, "parent": os.getppid(), "failure": self.failure,
                 "ended": self.ended, "notes": _notes, "joins": self.joins, "worker": self.worker,
                 "rank": self.rank and self.rank[0], "ranks": self.rank and self.rank[1],
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
            _guarded(self.checkpoints.at_end)()
        self.ended = True
        if self.failure is None:
            for name, text in _guarded(lambda: list(_facts()))() or ():
                self.probe.repro_check_fact(name.encode(), text.encode(errors="replace"))
            _asked.clear()
            _set_by_program.clear()
            why = self.unlocked.repro_check_end()
            if why:
                self.failure = why.decode(errors="replace")
        self._write_state()

    # Workers of data loaders.

    def become_worker(self, batches):
        """Of this process, whether it was forked or began by itself: the queue of its batches."""
        import json

        self.worker = True
        self.end()  # of one that began by itself
        self.process = None  # there is nothing more to end
        if self.failure is not None:
            return None
        self.ended = False
        self.attached = False  # loaders of its own are not told of
        self.checkpoints = None
        self.numbers, self.kept, self.roots, self.names = {}, {}, {}, {}
        _tell(self.probe.repro_check_begin_worker(
            os.fsencode(_worker_directory(os.getpid())), json.dumps({**_plan, "seed": None}).encode()))
        return _Sent(batches, self)

    def end_batch(self, name):
        _tell(self.probe.repro_check_end_batch(name.encode()))

    def take_from_worker(self, iterator, number, maker, missing):
        directory = os.path.join(_worker_directory(iterator._workers[maker].pid),
                                 f"{iterator._repro_check_pass}.{number}")
        worker = self.Worker(maker, iterator._repro_check_first + maker, missing)
        _tell(self.probe.repro_check_take_batch(os.fsencode(directory), self.ctypes.byref(worker)))

    def _attach(self):
        global _compiling
        import atexit
        import weakref

        atexit.register(_guarded(self.end))
        os.register_at_fork(after_in_child=_guarded(_forked))
        self._exit = os._exit
        os._exit = self._leave
        self.weakref = weakref
        _compiling = getattr(getattr(self.torch, "compiler", None), "is_compiling", bool)
        self.compiling = _compiling
        for attach in (self._watch_modules, self._watch_optimizers, self._watch_backward,
                       self._watch_clipping, self._watch_scaler, self._watch_threads,
                       self._watch_settings, self._watch_storages, self._pass_higher_order):
            _guarded(attach)()
        _guarded(self._watch_kernels)()
        if _plan.get("checkpoints"):
            _guarded(self._watch_checkpoints)()
        self.attached = True

    def _watch_storages(self):
        """FSDP frees the memory of a storage and gives it other memory later, by no operator."""
        import functools

        cls = self.torch.UntypedStorage
        original = cls.resize_
        tell, pointer = self.probe.repro_check_new_memory, self.ctypes.c_void_p

        def grown(storage, before):
            if storage.nbytes() > before and storage.device.type != "meta":
                tell(pointer(storage._cdata))

        @functools.wraps(original)
        def resize_(storage, *args, **kwargs):
            if self.ended or self.compiling():
                return original(storage, *args, **kwargs)
            before = storage.nbytes()
            result = original(storage, *args, **kwargs)
            _guarded(grown)(storage, before)
            return result

        cls.resize_ = resize_

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

    def joined(self, distributed):
        """The process is one of several: which, is told at once, since it may be killed."""
        ranks = distributed.get_world_size()
        if ranks < 2 or self.failure is not None:
            return
        self.rank = distributed.get_rank(), ranks
        self.joins = self.enters = True
        for name, value in (("rank", self.rank[0]), ("ranks", ranks), ("backend", distributed.get_backend())):
            self.probe.repro_check_fact(f"distributed.{name}".encode(), str(value).encode())
        self._write_state()
        self.tell_groups(distributed)

    def tell_groups(self, distributed):
        """Those that are not known yet, by name and ranks."""
        if not self.joins or self.ended:
            return
        c = self.ctypes
        world = getattr(distributed, "_world", None)  # in 1.13 a variable each
        names = distributed._pg_names if world is None else world.pg_names
        members = distributed._pg_group_ranks if world is None else world.pg_group_ranks
        for group, name in list(names.items()):
            # The first that pybind11 keeps of an object is where that is. It is held against what operators are
            # given, and never followed.
            address = c.c_void_p.from_address(id(group) + object.__basicsize__).value
            if self.groups.get(address) == name or group not in members:
                continue
            self.groups[address] = name
            ranks = sorted(members[group], key=members[group].get)
            self.probe.repro_check_group(
                c.c_void_p(address), name.encode(), c.c_size_t(len(ranks)), (c.c_int64 * len(ranks))(*ranks))

    def _watch_kernels(self):
        import repro_check_kernels

        self.kernels = repro_check_kernels.Kernels(self)
        repro_check_kernels.watch_graphs(self)
        repro_check_kernels.watch_memory(self)

    def _watch_checkpoints(self):
        from repro_check_checkpoints import Checkpoints

        self.checkpoints = Checkpoints(self)

    def _leave(self, status):
        _guarded(self.end)()
        self._exit(status)

    # Modules.

    def _watch_modules(self):
        from torch.nn.modules import module as modules

        enter, leave = self.probe.repro_check_enter_module, self.probe.repro_check_leave_module
        enter.restype = leave.restype = None
        compiling = self.compiling

        def before(module, _args):
            if self.ended or compiling():
                return
            number = self.numbers.get(id(module))
            if number is None:
                number = self._number(module)
                self.enters = self.joins  # one more model, of which nobody knows how it begins
            if self.checkpoints is not None:
                _guarded(self.checkpoints.at_forward)(module)
            if self.enters and not self.is_unread():
                _guarded(self._enter_replica)(module, _args)
            enter(number or 0)

        def after(_module, _args, _result):
            if not (self.ended or compiling()):
                leave()

        import inspect

        register = modules.register_module_forward_hook
        if "always_call" in inspect.signature(register).parameters:
            modules.register_module_forward_pre_hook(before)
            register(after, always_call=True)
        else:
            modules.Module.__call__ = _between(modules.Module.__call__, before, after)

    def _enter_replica(self, module, args):
        """What a replica has when its forward pass begins: behind the wrapper, which may hand out buffers."""
        if type(module).__name__ in _WRAPPERS:
            self.through = True
            return
        self.enters = False
        values = _leaves("input", args)
        for prefix, tensors in (("param", module.named_parameters()), ("buffer", module.named_buffers())):
            values += [(f"{prefix}.{self.names.get(id(tensor), name)}", tensor) for name, tensor in tensors]
        if any(wrapped() is module for wrapped in self.wrapped):
            values.append(("through_wrapper", float(self.through)))
        self.through = False
        self.record("repro_check::replica", values)

    def wraps(self, wrapper):
        if self.ended or any(wrapped() is wrapper.module for wrapped in self.wrapped):
            return
        if not self.wrapped:
            self.probe.repro_check_fact(b"distributed.wrapper", type(wrapper).__name__.encode())
        self._tell_replicas(wrapper.process_group)
        self.wrapped.append(self.weakref.ref(wrapper.module))

    def _tell_replicas(self, group):
        """The ranks that a wrapper keeps alike, where these are not all; or that another one keeps others alike."""
        distributed = sys.modules["torch.distributed"]
        ranks = [distributed.get_global_rank(group, each) for each in range(distributed.get_world_size(group))]
        told = "" if len(ranks) == distributed.get_world_size() else ",".join(map(str, ranks))
        if not self.wrapped:
            self.replicas = told
            if told:
                self.probe.repro_check_fact(b"distributed.replicas", told.encode())
        elif self.replicas not in (told, None):
            self.replicas = None
            self.probe.repro_check_fact(b"distributed.wrappers", b"of several groups")

    def crosses(self, way, tensor):
        """What of a DTensor this rank holds where it is made of a plain tensor, or made one again, and who holds the
        same."""
        local, spec = tensor._local_tensor, tensor._spec
        if type(local).__name__ == "AsyncCollectiveTensor":
            if _plan["no_sync"]:  # it is not there yet
                return
            local = local.elem
        if self.ended or not self.joins or self.compiling() or not self._is_plain(local):
            return
        if spec.mesh.get_coordinate() is None:
            return
        key = spec.mesh, spec.placements
        holders = self.holders.get(key)
        if holders is None:
            holders = self.holders[key] = _holders_of(spec)
        name, _ = _held_here(way, tensor)
        self.record("repro_check::placed", [(f"{name}|{holders}", local)])

    def _is_plain(self, tensor):
        """No shape alone, and of no class that does something else."""
        return type(tensor) in (self.torch.Tensor, self.torch.nn.Parameter) and tensor.device.type != "meta"

    def _number(self, module):
        _guarded(self._name_root)(module)
        return self.numbers.get(id(module))

    def _name_root(self, root):
        """Names a module that nobody knows yet, and all that are below it: of the first one of the main thread the
        names are those of named_modules(), of others its class stands before them, and the lane that calls it first:
        several threads do that in any order."""
        wrapper = root if type(root).__name__ in _WRAPPERS else None
        if wrapper is not None:
            self.wraps(wrapper)
            self.probe.repro_check_expect_reductions()
            root = wrapper.module
        lane = self.probe.repro_check_lane().decode().replace(".", ":")
        kind = type(root).__name__ + ("" if lane == "main" else "@" + lane)
        count = self.roots.get(kind, 0)
        prefix = kind if count == 0 else f"{kind}#{count + 1}"
        if lane == "main" and all("@" in other for other in self.roots):
            prefix = ""
        self.roots[kind] = count + 1
        if wrapper is not None:
            self._define(wrapper, prefix)
        for name, module in root.named_modules():
            self._define(module, ".".join(part for part in (prefix, name) if part))
        for kind_number, tensors in ((1, root.named_parameters()), (2, root.named_buffers())):
            for name, tensor in tensors:
                full = _unwrapped(f"{prefix}.{name}" if prefix else name)
                self.names.setdefault(id(tensor), full)
                self._name(tensor, full, kind_number)
                place = _guarded(_place_of)(tensor)
                if place:
                    self.probe.repro_check_fact(f"placement.{full}".encode(), place.encode())

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

    def _name(self, tensor, name, kind):
        self.probe.repro_check_name(self.ctypes.c_void_p(tensor._cdata), name.encode(), kind)

    # Optimizers and steps.

    def _watch_optimizers(self):
        from torch.optim import optimizer

        tell((optimizer.Optimizer,), "__init__", lambda _, made, *_args, **_kwargs: self._lead(made))
        # What PyTorch calls to hook the step of a class, when that first makes an optimizer.
        name = "_patch_step_function" if hasattr(optimizer.Optimizer, "_patch_step_function") else "_hook_for_profile"
        hook = getattr(optimizer.Optimizer, name)

        def hooked(made):
            hook(made)
            self._watch_step(type(made))

        setattr(optimizer.Optimizer, name, hooked)
        kinds = [optimizer.Optimizer]
        for kind in kinds:
            kinds += kind.__subclasses__()
            if getattr(kind.__dict__.get("step"), "hooked", False):
                self._watch_step(kind)

    def _watch_step(self, kind):
        import functools

        step = kind.step
        if getattr(step, "is_watched", False):
            return
        before, after, leave = (_guarded(each) for each in (self._before_step, self._after_step, self._leave_step))

        @functools.wraps(step)
        def watched(optimizer, *args, **kwargs):
            if id(optimizer) in self.stepping:  # a class that calls the step of the one it is derived from
                return step(optimizer, *args, **kwargs)
            given = before(optimizer, args, kwargs)
            try:
                if given is not None:
                    args, kwargs = given
                result = step(optimizer, *args, **kwargs)
                after(optimizer)
                return result
            finally:
                leave(optimizer)

        watched.is_watched = True
        kind.step = watched

    def _lead(self, optimizer):
        """Whether this one counts the steps of the lane that it is in: those that are there before it are asked first.
        @return the lane, or nothing"""
        lane = self.probe.repro_check_lane().decode()
        leader, size = self.leaders.get(lane, (lambda: None, 0))
        if leader() is not optimizer:
            own = sum(1 for _ in self._parameters(optimizer))
            if leader() is not None and own <= size:
                return ""
            self.leaders[lane] = (self.weakref.ref(optimizer), own)
        return lane

    def _leads_all_of(self, lane, optimizer):
        """Whether no lane that this one was forked from counts steps by another optimizer."""
        above = lane.rpartition(".")[0]
        leader = self.leaders[above][0]() if above in self.leaders else None
        return leader in (None, optimizer) and (not above or self._leads_all_of(above, optimizer))

    def _outer_step(self, optimizer):
        """The optimizer that makes a step of this one a part of its own, as one that shards its state does. One that
        only stands around it, and tells of no step itself, is none."""
        frame = sys._getframe(2)
        while frame is not None:
            if frame.f_code.co_name == "step":
                outer = frame.f_locals.get("self")
                if outer is not optimizer and id(outer) in self.stepping:
                    return outer
            frame = frame.f_back
        return None

    def _before_step(self, optimizer, args, kwargs):
        """@return what the step is to be given instead; None: what it was given"""
        if self.ended or self._outer_step(optimizer) is not None:
            return None
        self.stepping.add(id(optimizer))
        if self.checkpoints is not None:
            _guarded(self.checkpoints.at_step)()
        closure = args[0] if args else kwargs.get("closure")
        has_closure, is_plain = callable(closure), self._is_plain_step(optimizer)
        is_recorded = self.probe.repro_check_enter_step(is_plain and not has_closure)
        for name, tensor in self._parameters(optimizer):
            # Once all the same, for what is said of the whole program.
            if is_recorded or id(tensor) not in self.names:
                self._name(tensor, self.names.setdefault(id(tensor), name), 1)
        if not has_closure:
            return None
        closure = self._outside_of_step(closure, is_plain)
        return ((closure, *args[1:]), kwargs) if args else (args, {**kwargs, "closure": closure})

    def _outside_of_step(self, closure, is_plain):
        """What a step calls for its loss is no part of it. PyTorch's own call it before anything else."""
        import functools

        leave, enter = _guarded(self.probe.repro_check_leave_step), _guarded(self.probe.repro_check_enter_step)

        @functools.wraps(closure, updated=())
        def outside(*args, **kwargs):
            leave()
            try:
                return closure(*args, **kwargs)
            finally:
                enter(is_plain)

        return outside

    def _is_plain_step(self, optimizer):
        """Whether what it leaves tells all of the step: PyTorch's own, and nothing of the program's runs in it."""
        from torch.optim import optimizer as module

        own, kind = "torch.optim.", type(optimizer)
        if not (kind.__module__.startswith(own) and kind.step.__module__.startswith(own)) or kind.__name__ == "LBFGS":
            return False
        hooks = [getattr(where, f"{prefix}{when}_hooks", None)
                 for where, prefix in ((optimizer, "_optimizer_step_"), (module, "_global_optimizer_"))
                 for when in ("pre", "post")]
        if any(hooks) or any(group.get("differentiable") for group in optimizer.param_groups):
            return False
        plain = (self.torch.Tensor, self.torch.nn.Parameter)
        return all(type(tensor) in plain for _, tensor in self._parameters(optimizer))

    def _after_step(self, optimizer):
        if self.ended:
            return
        outer = self._outer_step(optimizer)
        if outer is not None:
            part = f"@rank:{self.rank[0]}" if self.rank and type(outer).__name__ in _SHARDING else ""
            self.inner_state[id(outer)] = [(name + part, value) for name, value in self._state(optimizer)
                                           if name.startswith("state.")]
            return
        self.record("repro_check::optimizer_step",
                    self._state(optimizer) + self.inner_state.pop(id(optimizer), []))
        self._leave_step(optimizer)
        self._count_step(optimizer)

    def _leave_step(self, optimizer):
        """However it ended."""
        if id(optimizer) in self.stepping:
            self.stepping.discard(id(optimizer))
            self.probe.repro_check_leave_step()

    def _count_step(self, optimizer):
        lane = self._lead(optimizer)
        if lane:
            self.enters = self.joins
            self.probe.repro_check_step(self._leads_all_of(lane, optimizer))

    @staticmethod
    def _parameters(optimizer):
        for number, group in enumerate(optimizer.param_groups):
            for place, tensor in enumerate(group["params"]):
                yield f"group{number}.{place}", tensor

    def _state(self, optimizer):
        """What the step leaves: parameters, gradients, the optimizer's own tensors, and numbers that it was told."""
        values = []
        for number, group in enumerate(optimizer.param_groups):
            for key, value in group.items():  # lists are of what it works on, and of names
                if not isinstance(value, (bool, list)):
                    values += _leaves(f"{'' if key == 'lr' else 'option.'}{key}[{number}]", value)
        plain = self.torch.Tensor
        for fallback, parameter in self._parameters(optimizer):
            name = self.names.get(id(parameter), fallback)
            gradient = parameter.grad
            if gradient is not None:
                values.append((f"grad.{name}", gradient))
            for key, value in optimizer.state.get(parameter, {}).items():
                if type(value) is plain:
                    values.append((f"state.{name}.{key}", value))
                else:
                    values += _leaves(f"state.{name}.{key}", value)
            values.append((f"param.{name}", parameter))
        return values

    # Losses.

    def _watch_backward(self):
        autograd = self.torch.autograd
        original = autograd.backward

        def backward(tensors, *args, **kwargs):
            if not self.compiling():
                self.record("repro_check::loss", _guarded(_leaves)("loss", tensors) or [])
            # After it, and until the step, gradients are what is worked on.
            with self.phase(_BACKWARD, _OPTIMIZER):
                return original(tensors, *args, **kwargs)

        backward.__doc__ = original.__doc__
        autograd.backward = backward

    # What stands between a gradient and the step.

    def _watch_clipping(self):
        import functools

        utils = self.torch.nn.utils
        original = utils.clip_grad_norm_

        @functools.wraps(original)
        def clip_grad_norm_(parameters, max_norm, norm_type=2.0, *args, **kwargs):
            parameters, given = _read_again(parameters)
            held = _guarded(self._held_norms)(given)
            norm = original(parameters, max_norm, norm_type, *args, **kwargs)
            self.record_clipping(norm, max_norm, norm_type, held)
            return norm

        put((utils, sys.modules[original.__module__]), original.__name__, clip_grad_norm_)
        if hasattr(utils, "clip_grads_with_norm_"):
            self._watch_clipping_in_two(utils)

    def _watch_clipping_in_two(self, utils):
        """By a norm that the program has made more of than get_total_norm() knew. Inside of clip_grad_norm_()
        the same two have other names."""
        import functools

        clip = utils.clip_grads_with_norm_
        known = [None]  # type of the norm that was asked for last

        def remember(_tensors, norm_type=2.0, *_args, **_kwargs):
            known[0] = norm_type

        @functools.wraps(clip)
        def clip_grads_with_norm_(parameters, max_norm, total_norm, *args, **kwargs):
            parameters, given = _read_again(parameters)
            held = _guarded(self._held_norms)(given)
            result = clip(parameters, max_norm, total_norm, *args, **kwargs)
            self.record_clipping(total_norm, max_norm, known[0], held)
            return result

        tell((utils,), "get_total_norm", before=remember)
        utils.clip_grads_with_norm_ = clip_grads_with_norm_

    def record_clipping(self, norm, max_norm, norm_type, held):
        self.record("repro_check::clip_grad", _guarded(
            lambda: _leaves("norm", norm) + _leaves("max_norm", max_norm)
            + ([] if norm_type is None else [("norm_type", float(norm_type))]) + (held or []))() or [])

    def _held_norms(self, parameters):
        """Of each gradient, before it is clipped, the L2 norm of what this rank holds of it; behind the name of a
        part the axes of the mesh that it is a part along. How many elements these are, and how exact."""
        if self.ended or not self.joins or self.compiling() or self.is_unread():
            return []
        given = [parameters] if is_tensor(parameters) else parameters
        names, tensors = [], []
        for number, parameter in enumerate(given):
            if parameter.grad is not None:
                name, tensor = _held_here(self.names.get(id(parameter), f"[{number}]"), parameter.grad)
                names.append(f"local.{name}{_axes_of(parameter.grad)}")
                tensors.append(tensor)
        if not tensors:
            return []
        c, count = self.ctypes, len(tensors)
        norms = (c.c_double * count)()
        self.probe.repro_check_norms(c.c_size_t(count), (c.c_void_p * count)(*[t._cdata for t in tensors]), norms)
        finfo = self.torch.finfo
        return [*zip(names, norms), ("local_elements", float(sum(t.numel() for t in tensors))),
                ("local_epsilon", max(finfo(t.dtype).eps for t in tensors))]

    def _watch_scaler(self):
        """Of automatic mixed precision: the scale, and where found_inf is not 0 the step was skipped."""
        cls = grad_scaler(self.torch)
        original = cls.update

        def update(scaler, *args, **kwargs):
            values = _guarded(self._found_inf)(scaler) or []
            result = original(scaler, *args, **kwargs)
            if scaler.is_enabled():
                values += _guarded(lambda: _leaves("scale", scaler._scale))() or []
                self.record("repro_check::grad_scaler", values)
            return result

        update.__doc__ = original.__doc__
        cls.update = update

    @staticmethod
    def _found_inf(scaler):
        """Of each optimizer, in the order in which the program unscaled them."""
        return [(f"found_inf[{number}].{device}", tensor)
                for number, state in enumerate(scaler._per_optimizer_states.values())
                for device, tensor in state["found_inf_per_device"].items()]

    # Compiled code.

    def region(self, compiled, traced):
        """`compiled`, with a record of what goes in and one of what comes out: operators that were fused
        inside are seen by nobody, so how many there were is said."""
        count = sum(1 for node in traced.graph.nodes if node.op.startswith("call_"))

        def run(*args):
            self.record("repro_check::region_inputs", _guarded(_leaves)("input", args) or [])
            result = compiled(*args)
            self.record("repro_check::region_outputs", _guarded(
                lambda: [("operators", float(count))] + _leaves("output", result))() or [])
            return result

        return run

    # What the program sets itself.

    def _watch_settings(self):
        _note_settings(self.torch, "manual_seed", "use_deterministic_algorithms", "set_num_threads")
        self.torch.random.manual_seed = self.torch.manual_seed
        _note_settings(self.torch.cuda, "manual_seed", "manual_seed_all")

    # Threads.

    def _watch_threads(self):
        import threading

        for module, name in ((_thread, "start_new_thread"), (_thread, "start_new"),
                             (threading, "_start_new_thread"),
                             (threading, "_start_joinable_thread")):
            if hasattr(module, name):
                setattr(module, name, self._starter(getattr(module, name)))

    def is_unread(self):
        """Whether what the calling thread does is recorded without contents."""
        return getattr(self.thread, "unread", False)

    def fork_lane(self):
        return self.ctypes.c_uint32(self.probe.repro_check_fork_thread())

    def _starter(self, original):
        probe = self.probe

        def start(function, *args, **kwargs):
            if self.sends or _is_one_of(_OF_LOADERS, function):
                return original(function, *args, **kwargs)
            lane = self.ctypes.c_uint32(_NO_LANE) if _is_one_of(_OF_POOLS, function) else self.fork_lane()

            def run(*inner, **named):
                probe.repro_check_begin_thread(lane)
                try:
                    return function(*inner, **named)
                finally:
                    probe.repro_check_end_thread()

            return original(run, *args, **kwargs)

        return start

    def phase(self, phase, following):
        return _Phase(self.probe, phase, following)

    def record(self, kind, values):
        if values and not self.ended and not self.is_unread():
            _guarded(self._record)(kind, values)

    def _record(self, kind, values):
        if "torch.distributed.tensor" in sys.modules:
            values = [_held_here(name, value) for name, value in values]
        names = "\0".join([name for name, _ in values])
        if names.count("\0") >= len(values):
            raise ValueError("a name has a null in it")
        # Faster to make than arrays of ctypes, and a step of an optimizer has thousands.
        tensors = self.array("Q", [0 if isinstance(value, float) else value._cdata for _, value in values])
        numbers = self.array("d", [value if isinstance(value, float) else 0.0 for _, value in values])
        c = self.ctypes
        self.probe.repro_check_values(kind.encode(), c.c_size_t(len(values)), names.encode(),
                                      *[c.c_void_p(each.buffer_info()[0]) for each in (tensors, numbers)])
