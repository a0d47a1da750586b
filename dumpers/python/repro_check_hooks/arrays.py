# SPDX-License-Identifier: Apache-2.0
"""A recording of this process at the borders of calls that take and return arrays of a framework other than PyTorch:
which arrays are known, where calls stand, how it begins and ends. What a call is, the framework's own module says."""
import _thread
import ctypes
import json
import os
import time
import weakref

from . import ends, hooks, processes, record_names, seeds
from .hooks import guarded, tell_failure

TYPE_CHECKING = False  # the module typing is not loaded into programs
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

    Named = Tuple[str, int]  # slot of an array, and the number of what it holds
    # Values as NumPy has them, row-major; the device; what they are beside that; the array of which nobody can write
    # them, or None.
    Content = Tuple[Any, str, str, object]

_LIBRARY = "librepro_check_arrays.so"
_MOST_FRAMES = 32
_STANDARD_LIBRARY = os.path.dirname(os.__file__)


class _Array(ctypes.Structure):  # repro_check_array
    _fields_ = [("dtype", ctypes.c_char_p), ("device", ctypes.c_char_p), ("attributes", ctypes.c_char_p),
                ("dims", ctypes.c_uint32), ("shape", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p)]


class _Arrays(ctypes.Structure):  # repro_check_arrays_of
    _fields_ = [("count", ctypes.c_size_t), ("numbers", ctypes.POINTER(ctypes.c_int64)), ("names", ctypes.c_char_p)]


class _Key(ctypes.Structure):  # repro_check_key
    _fields_ = [("kind", ctypes.c_char_p), ("seed", ctypes.c_uint64), ("position", ctypes.c_uint64)]


class Call:
    """One that has begun."""

    def __init__(self, number: int, keeps: bool, began: int) -> None:
        self.number, self.keeps, self.began = number, keeps, began
        self.inputs: List[Named] = []
        self.passing: List[int] = []  # numbers of what may be written behind the call
        self.key: Optional[Tuple[str, int, int]] = None  # kind, seed, position


class Arrays:
    def __init__(self, framework: str, own: "Tuple[str, ...]", machinery: "Tuple[str, ...]", refusal: str) -> None:
        """own: the packages that the framework is; machinery: those built on it, of which no line is shown either;
        refusal: why nothing can be recorded; empty = it can."""
        self.framework, self._own, self._machinery = framework, own, machinery
        self.facts: Callable[[], Iterable[Tuple[str, str]]] = {}.items
        self._thread = _thread._local()
        self.main = _thread.get_ident()
        self._refusal = refusal
        self._open()
        self.begin()

    def _open(self) -> None:
        library = ctypes.CDLL(os.path.join(hooks.plan["probes"], _LIBRARY), mode=os.RTLD_LOCAL | os.RTLD_NOW)
        for name in ("begin", "end"):
            getattr(library, f"repro_check_arrays_{name}").restype = ctypes.c_char_p
        library.repro_check_arrays_enter.restype = ctypes.c_int64
        library.repro_check_arrays_site.restype = ctypes.c_uint32
        library.repro_check_arrays_calls.restype = ctypes.c_uint64
        self._library: Any = library

    def begin(self) -> None:
        """Also in a child that was forked, where it calls something itself."""
        self.process = os.getpid()
        self.directory = processes.free_directory(self.process)
        self.failure, self.ended, self.began = "", False, time.time()
        self.step = 0
        self._known: Dict[int, Tuple[Any, int]] = {}  # by id: a weak reference, and the number
        self._sites: Dict[Any, int] = {}
        self._codes: Dict[Any, Tuple[str, str]] = {}  # see _place()
        if self._refusal:
            self.failure = self._refusal
            self._write_state()
            return
        try:
            plan = json.dumps(hooks.plan).encode()
            tell_failure(self._library.repro_check_arrays_begin(os.fsencode(self.directory), plan))
            seeds.watch_generators(self._library.repro_check_arrays_watch_generator)
        except Exception as error:
            self.failure = str(error)
        self._write_state()

    def records(self) -> bool:
        """Whether a call that is made now is recorded."""
        if self.process != os.getpid():
            self.main = _thread.get_ident()
            ends.begin()
            self.begin()
        return not self.ended and not self.failure

    def _write_state(self) -> None:
        processes.write_state(self.directory, {
            "process": self.process, "parent": os.getppid(), "started": processes.started(),
            "how": self.framework if hooks.recording is not None else processes.how(None),
            "pool": processes.is_of_pool(), "command": processes.command(), "failure": self.failure,
            "ended": self.ended, "began": self.began,
            "notes": [f"{where}: {error}" for where, error in hooks.notes],
            "operators": 0 if self.failure else self._library.repro_check_arrays_calls()})

    def end(self) -> None:
        if self.ended or os.getpid() != self.process:
            return
        self.ended = True
        self._known.clear()  # of what goes from now on nobody is told
        if not self.failure:
            guarded(self._tell_end)()
            why = self._library.repro_check_arrays_end()
            self.failure = why.decode(errors="replace") if why else ""
        self._write_state()

    def _tell_end(self) -> None:
        library = self._library
        for name, text in [(record_names.FRAMEWORK, self.framework), *_machine(), *self.facts(), *seeds.facts()]:
            library.repro_check_arrays_fact(name.encode(), text.encode(errors="replace"))
        raised = ends.raised() if os.environ.get(hooks.PLAN_VARIABLE) else None
        if raised is not None:
            kind, file, text, thread = (raised[part].encode(errors="replace") for part in (0, 1, 3, 4))
            library.repro_check_arrays_raised(kind, file, ctypes.c_uint64(raised[2]), text, thread)
        for (where, error), count in hooks.notes.items():
            library.repro_check_arrays_failed_hook(
                where.encode(errors="replace"), error.encode(errors="replace"), ctypes.c_uint64(count))

    def known(self, array: object) -> "Optional[int]":
        """The number of an array that nobody can write, and that was read before."""
        found = self._known.get(id(array))
        return found[1] if found is not None and found[0]() is array else None

    def read(self, contents: "List[Content]") -> "List[int]":
        """Their numbers; -1 where the recording has failed."""
        count = len(contents)
        if count == 0:
            return []
        arrays, numbers = (_Array * count)(), (ctypes.c_int64 * count)()
        for array, (values, device, attributes, _) in zip(arrays, contents):
            shape = values.shape
            array.dtype, array.device = values.dtype.name.encode(), device.encode()
            array.attributes, array.dims = attributes.encode(), len(shape)
            array.shape, array.data = (ctypes.c_int64 * len(shape))(*shape), values.__array_interface__["data"][0]
        self._library.repro_check_arrays_read(ctypes.c_size_t(count), arrays, numbers)
        for number, content in zip(numbers, contents):
            if content[3] is not None and number >= 0:
                self._know(content[3], number)
        return list(numbers)

    def _know(self, array: object, number: int) -> None:
        key = id(array)
        self._known[key] = (weakref.ref(array, lambda _gone: self._forget(key, number)), number)

    def _forget(self, key: int, number: int) -> None:
        if self._known.get(key, (None, -1))[1] == number:
            del self._known[key]
        self.let_go(number)

    def let_go(self, number: int) -> None:
        """Of an array whose number nobody will ask for."""
        self._library.repro_check_arrays_forget(ctypes.c_int64(number))

    def keep(self, number: int, values: "Any") -> None:
        """values: as they were read, row-major."""
        data = ctypes.c_void_p(values.__array_interface__["data"][0])
        self._library.repro_check_arrays_keep(ctypes.c_int64(number), data)

    def not_read(self, kind: str) -> None:
        self._library.repro_check_arrays_unread(kind.encode(errors="replace"))

    def _place(self, code: "Any") -> "Tuple[str, str]":
        """The file to show, and where there is none the library that it is of; of Python and the framework neither."""
        known = self._codes.get(code)
        if known is None:
            path = code.co_filename
            library = path.rpartition("-packages/")[2].partition("/")[0] if "-packages/" in path else ""
            if path.startswith(("<frozen", _STANDARD_LIBRARY)) and not library or library in self._own:
                known = "", ""
            else:
                known = ("", library) if library in self._machinery else (seeds.name_of_file(path), "")
            self._codes[code] = known
        return known

    def _site(self) -> int:
        frame = hooks.calling_frame()
        frames, caller = [], ""
        while frame is not None and len(frames) < _MOST_FRAMES:
            file, library = self._place(frame.f_code)
            if file:
                frames.append((frame.f_code, frame.f_lineno))
            elif library and not frames and not caller:
                caller = library
            frame = frame.f_back
        chain = tuple(frames)
        known = self._sites.get((caller, chain))
        if known is None:
            files = "\0".join(self._place(code)[0] for code, _ in chain)
            functions = "\0".join(code.co_name for code, _ in chain)
            known = self._sites[caller, chain] = self._library.repro_check_arrays_site(
                caller.encode(), len(chain), files.encode(errors="replace"),
                (ctypes.c_uint32 * len(chain))(*[line for _, line in chain]), functions.encode(errors="replace"))
        return known

    def enter(self, name: str, draws: bool) -> "Optional[Call]":
        """None where the plan leaves it out."""
        open_calls = self._open_calls()
        parent = open_calls[-1].number if open_calls else -1
        lane = 0 if _thread.get_ident() == self.main else 1
        number = self._library.repro_check_arrays_enter(
            name.encode(errors="replace"), self._site(), ctypes.c_uint32(self.step), ctypes.c_int64(parent), lane,
            int(draws))
        if number < 0:
            return None
        keeps = hooks.plan.get("level") == "tensor" and bool(
            self._library.repro_check_arrays_keeps(ctypes.c_int64(number)))
        call = Call(number, keeps, time.perf_counter_ns())
        open_calls.append(call)
        return call

    def _open_calls(self) -> "List[Call]":
        calls: Optional[List[Call]] = getattr(self._thread, "calls", None)
        if calls is None:
            calls = self._thread.calls = []
        return calls

    def leave(self, call: Call, outputs: "List[Named]", wall_ns: int) -> None:
        open_calls = self._open_calls()
        while open_calls and open_calls.pop() is not call:
            pass
        key = _Key(None, 0, 0) if call.key is None else _Key(call.key[0].encode(), *call.key[1:])
        self._library.repro_check_arrays_leave(
            ctypes.c_int64(call.number), ctypes.byref(_named(call.inputs)), ctypes.byref(_named(outputs)),
            ctypes.byref(key), ctypes.c_uint64(wall_ns))


def _machine() -> "Iterable[Tuple[str, str]]":
    yield "os.machine", os.uname().machine
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    yield "cpu.model", models[0] if models else "unknown"


def _named(arrays: "List[Named]") -> _Arrays:
    names = "\0".join([name.replace("\0", " ") for name, _ in arrays])
    return _Arrays(len(arrays), (ctypes.c_int64 * len(arrays))(*[number for _, number in arrays]),
                   names.encode(errors="replace"))
