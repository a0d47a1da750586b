# SPDX-License-Identifier: Apache-2.0
"""Seeds from outside, and what no seed pins: what a program asks its host for, and what it seeds and sets itself,
each with its line. Known before the program begins: imports nothing that the interpreter has not got by itself."""
import os
import sys

from . import hooks, record_names
from .hooks import Instead, calling_frame, guarded, watch

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
_cells = {}  # of a notebook, by the file that each is compiled as: its number
_LIBRARIES = os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(__file__)), "<"


def watched():
    """By module, what watches it."""
    return {**dict.fromkeys(_UNPINNED, _count_unpinned), "random": _on_random, "numpy.random": _on_numpy}


def watch_program(recording):
    _note_settings(recording.torch, "manual_seed", "use_deterministic_algorithms", "set_num_threads")
    _note_settings(recording.torch.cuda, "manual_seed", "manual_seed_all")
    os.register_at_fork(after_in_child=guarded(_forked))


def know_cells(probe):
    """Of IPython, where the program runs in it; it goes on to fill the same dict."""
    global _cells
    module = sys.modules.get("IPython.core.interactiveshell")
    if module is None or not module.InteractiveShell.initialized():
        return
    numbers = getattr(module.InteractiveShell.instance().compile, "_filename_map", None)
    if isinstance(numbers, dict):
        import ctypes

        _cells = numbers
        probe.repro_check_cells(ctypes.py_object(numbers))


def _line(file, number):
    return f"{file}, line {number}" if file.startswith("In [") else f"{file}:{number}"


def _caller(frame):
    """The name of its file, empty of a library's; and of a module that asks for others what it asks for."""
    path = frame.f_code.co_filename
    if path in _cells:
        return f"In [{_cells[path]}]", None
    known = _callers.get(path)
    if known is None:
        folder, file = os.path.split(path)
        library = path.startswith(_LIBRARIES) or "-packages" in path
        asks = _ASK_FOR_OTHERS.get(file) if folder == _LIBRARIES[0] else None
        known = _callers[path] = ("" if library else file, asks)
    return known


def name_of_file(path):
    """As a line of it is shown: the cell of a notebook, or the path."""
    return f"In [{_cells[path]}]" if path in _cells else path


def file_of_program(frame):
    """Empty where it runs a library's code."""
    return _caller(frame)[0]


def line_of_program(frame):
    """Of the innermost frame that is the program's; empty where there is none."""
    while frame is not None and not _caller(frame)[0]:
        frame = frame.f_back
    return _line(_caller(frame)[0], frame.f_lineno) if frame is not None else ""


def _line_of_program(name):
    """Of the caller of what is counted, behind the modules that ask for others, and what it is then
    called; without a line where the caller is a library, which asks for reasons of its own."""
    frame = calling_frame()
    while frame is not None:
        file, asks = _caller(frame)
        if asks is None:
            return name, _line(file, frame.f_lineno) if file else ""
        name, frame = name if name == _OWN_GENERATOR else asks, frame.f_back
    return name, ""


def _note_asked(name, _args=(), _kwargs=None, kind=record_names.UNPINNED):
    name, line = _line_of_program(name)
    if line:
        _count_asked(f"{kind}{name}", line)


def _count_asked(fact, line):
    if fact in _asked:
        _asked[fact][0] += 1
        return
    _asked[fact] = [1, line]
    if _told_in is not None:
        guarded(_tell_parent)(f"{fact}\t{line}\n")


def _tell_parent(text):
    file = os.open(_told_in, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(file, text.encode(errors="replace"))
    finally:
        os.close(file)


def _forked():
    global _told_in
    if hooks.attached() is not None and not hooks.recording.ended:
        _asked.clear()
        _told_in = _told_by_forked(hooks.recording)


def _told_by_forked(recording):
    return recording.directory + ".asked"


def _asked_by_forked():
    """By fact: a line for each process that asked for it."""
    path, lines = _told_by_forked(hooks.recording), {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for told in file:
                fact, line = told.rstrip("\n").split("\t")
                lines.setdefault(fact, []).append(line)
        os.unlink(path)
    return lines


def _noting(module, name, note):
    """Has each call of a function of `module` noted first: by its full name and its arguments."""
    full = f"{module.__name__}.{name}"

    def before(*args, **kwargs):
        if _counts:
            note(full, args, kwargs)

    watch(module, name, guarded(before))


_counts = True
_counted = set()  # names of modules


def _count_unpinned(module):
    _counted.add(module.__name__)
    for name in _UNPINNED[module.__name__]:
        _noting(module, name, _note_asked)


def count_here():
    """Counts what no seed pins in a part of a process; what is returned ends that."""
    global _counts
    _counts = True
    for name in _UNPINNED:
        if name in sys.modules and name not in _counted:
            _count_unpinned(sys.modules[name])

    def stop():
        global _counts
        _counts = False

    return stop


def _note_settings(module, *names):
    """Has calls of functions of `module` that set something noted, with the line of the program."""
    for name in names:
        _noting(module, name, _note_setting)


def _note_setting(name, args, kwargs):
    frame = calling_frame()
    while frame and frame.f_code.co_filename.endswith("/torch/_dynamo/eval_frame.py"):  # wraps what it must not compile
        frame = frame.f_back
    if frame and "-packages/torch/" in frame.f_code.co_filename:  # a compiler has what it found set again
        return
    line = line_of_program(frame)
    if line:
        _keep_setting(name, args, kwargs, line)


def _keep_setting(name, args, kwargs, line):
    given = ", ".join([repr(arg) for arg in args] + [f"{key}={arg!r}" for key, arg in kwargs.items()])
    call = f"({given[:40]})", line
    calls = _set_by_program.setdefault(name, [0, call, call])
    calls[0] += 1
    calls[2] = call


def _note_own_generator(_name, args, kwargs):
    """That the program made a random.Random, or seeded one; what libraries make is theirs."""
    given = [arg for arg in (*args[1:], *kwargs.values()) if arg is not None]
    name, line = _line_of_program(_OWN_GENERATOR)
    if line and given:
        _keep_setting(f"{name}.seed", given, {}, line)
    elif line:
        _count_asked(f"{record_names.UNPINNED}{name}", line)


def take_facts():
    """As facts(), which are then told."""
    told = list(facts())
    _asked.clear()
    _set_by_program.clear()
    return told


def facts():
    """What is to be known of the program, by name."""
    forked = _asked_by_forked() if hooks.recording is not None else {}
    for fact in sorted({*_asked, *forked}):
        texts = []
        if fact in _asked:
            count, line = _asked[fact]
            texts.append(f"{count} call{'s' if count > 1 else ''}, first at {line}")
        if fact in forked:
            count = len(forked[fact])
            texts.append(f"in {count} forked process{'es' if count > 1 else ''}, first at {min(forked[fact])}")
        yield fact, ", ".join(texts)
    is_own_process = os.environ.get(hooks.PLAN_VARIABLE)  # else both recordings may be of one
    if is_own_process and sys.flags.hash_randomization and os.environ.get("PYTHONHASHSEED", "random") == "random":
        yield f"{record_names.UNPINNED}hash", "of strings, and with it the order of sets: PYTHONHASHSEED is not set"
    for name, (count, (first, line), (last, last_line)) in _set_by_program.items():
        calls = first if count == 1 else f"{first}, {count} calls, the last {last}"
        yield record_names.SET_BY_PROGRAM + name, calls
        lines = line if line == last_line else f"{line}{record_names.BOTH_LINES}{last_line}"
        yield record_names.SET_AT + name, lines
    cuda = hooks.recording and hooks.recording.torch.cuda
    if cuda and cuda.is_initialized():
        yield record_names.GPU_NAMES, ", ".join(cuda.get_device_name(number) for number in range(cuda.device_count()))


_watched_generators = []  # kept, since their memory is read


def watch_generators(watch_one):
    """Where generators stand that no operator draws from: their memory is read where it lies, and none of their
    functions is replaced, which compilers know by what they are.

    watch_one: repro_check_watch_generator() of the probe, or what is like it."""
    for name, find in (("random", _watch_random), ("numpy.random", _watch_numpy)):
        if name in sys.modules:
            guarded(find)(sys.modules[name], watch_one)


def _watch_random(module, watch_one):
    import struct

    generator = module._inst
    version, state, _ = generator.getstate()
    if version == 3 and generator.__class__.__base__.__basicsize__ >= object.__basicsize__ + 4 * 625:
        _watch_generator(watch_one, "random", generator, id(generator) + object.__basicsize__,
                         struct.pack("<i624I", state[624], *state[:624]), 0)


def _watch_numpy(module, watch_one):
    bits = module.mtrand._rand._bit_generator
    state = bits.state.get("state", {})
    if "key" in state and "pos" in state:
        _watch_generator(watch_one, "numpy", bits, bits.ctypes.state_address,
                         state["key"].tobytes() + int(state["pos"]).to_bytes(4, sys.byteorder), 4 * 624)


def _watch_generator(watch_one, name, generator, address, state, position):
    """@param state  as its memory has to be: another release may have another layout"""
    import ctypes

    if ctypes.string_at(address, len(state)) != state:
        return
    _watched_generators.append(generator)
    watch_one(
        name.encode(), ctypes.c_void_p(address), ctypes.c_size_t(len(state)), ctypes.c_size_t(position))


def _on_random(module):
    if hooks.plan["seed"] is not None:
        module.seed(hooks.plan["seed"])

    def seeded(generator, *args, **kwargs):
        if generator is not getattr(module, "_inst", None):
            _note_own_generator("", (generator, *args), kwargs)
        elif _counts:
            _note_setting("random.seed", args, kwargs)

    watch(module.Random, "seed", guarded(seeded))
    if hooks.attached() is not None:
        guarded(_watch_random)(module, hooks.recording.probe.repro_check_watch_generator)


def _pin_entropy(module, seed):
    """What a generator of NumPy that is given no seed is made of, in the order in which such are made. One that is
    given a seed the old way, `RandomState(7)`, asks for it too, and uses none of it."""
    import itertools
    import random

    calls = itertools.count()
    if hasattr(module, "randbits"):
        module.randbits = lambda bits: random.Random(f"{seed} {next(calls)}").getrandbits(bits)


def _on_numpy(module):
    seed = hooks.plan["seed"]
    if seed is not None:
        module.seed(seed)
        _pin_entropy(sys.modules.get(f"{module.__name__}.bit_generator"), seed)

    def asked(*args, **kwargs):
        if (*args, *kwargs.values(), None)[0] is not None:
            return None
        _note_asked("numpy.random.default_rng", kind=record_names.UNPINNED if seed is None else record_names.PINNED)
        return None if seed is None else Instead(((seed,), {}, None))

    watch(module, "default_rng", guarded(asked))
    _note_settings(module, "seed")
    if hooks.recording is not None and hooks.recording.checkpoints is not None:
        hooks.recording.checkpoints.watch_numpy(module)
    if hooks.attached() is not None:
        guarded(_watch_numpy)(module, hooks.recording.probe.repro_check_watch_generator)
