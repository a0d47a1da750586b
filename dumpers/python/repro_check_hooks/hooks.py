# SPDX-License-Identifier: Apache-2.0
"""Hooks: functions of ours that are told of calls of the program's functions, and what is so for all of them: the plan,
the recording, which hooks failed. Nothing here may change what the program computes, print, or raise: what goes wrong
is noted in the process's file and read by `exec`.

Imports nothing that the interpreter has not got by itself, before the program does."""
import os
import sys

# The library takes objects of Python to be as an interpreter with a global lock has them.
if "t" in getattr(sys, "abiflags", ""):
    raise ImportError("a Python without a global interpreter lock is not recorded")

from . import calls

TYPE_CHECKING = False  # the module typing is not loaded into programs
if TYPE_CHECKING:
    from typing import Any, Callable, ContextManager, Dict, List, Optional, Tuple, Type

    Hook = Callable[..., Any]

PLAN_VARIABLE = "REPRO_CHECK_EXEC"

plan: "Any" = None  # what to record, and how
recording: "Any" = None  # once PyTorch is there
arrays: "Any" = None  # of calls of another framework, once that is there
# By hook of ours that failed, or name that is missing, and with what: how often.
notes: "Dict[Tuple[str, str], int]" = {}


class Nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        pass


untold: "Type[ContextManager[None]]" = Nothing  # until torch is there


def note(where: str, error: Exception) -> None:
    """That a hook of ours failed: what it would have told is missing."""
    text = f"{type(error).__name__}: {error}"
    try:
        from . import torch_names

        lost = torch_names.lost(error)
    except Exception:  # as when Python ends
        lost = ""
    _keep_note(where, f"{text}, so {lost}" if lost else text)


def note_missing() -> None:
    """Which names that hooks lean on the program's PyTorch and Python have not got."""
    from . import torch_names

    for name, lost in torch_names.missing():
        failure = name, f"this release has no such name, so {lost}"
        if failure not in notes:  # of another recording of this process
            _keep_note(*failure)


def _keep_note(where: str, text: str) -> None:
    if (where, text) in notes or len(notes) < 20:
        notes[where, text] = notes.get((where, text), 0) + 1


def guarded(function: "Callable[..., Any]") -> "Callable[..., Any]":
    """`function`, whose failure becomes a note. What it asks of tensors no `__torch_function__` of the program's
    is told of, and the program's signal handlers wait until it is through."""

    def call(*args: object, **kwargs: object) -> "Any":
        calls.hold()
        try:
            with untold():
                return function(*args, **kwargs)
        except Exception as error:
            if _is_of_program(error):
                raise
            note(getattr(function, "__name__", "hook"), error)
            return None
        finally:
            calls.release()

    # No compiler looks into it, nor says that it cannot.
    call._torchdynamo_disable = True  # type: ignore[attr-defined]
    return call


_FOLDER = os.path.dirname(os.path.dirname(__file__)) + "/"


def _is_of_program(error: Exception) -> bool:
    """Whether another thread has had it raised in this one: it comes out of a line of ours, and is of a class that no
    line of ours raises."""
    trace: Any = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    raises = type(error).__module__.partition(".")[0]
    is_own: bool = trace.tb_frame.f_code.co_filename.startswith(_FOLDER)
    return is_own and raises not in ("builtins", "torch", "ctypes")


def calling_frame() -> "Any":
    """Of the program, or of a library that it calls: the innermost that is none of ours."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_FOLDER):
        frame = frame.f_back
    return frame


compiling: "Callable[[], bool]" = bool  # which says no, until PyTorch's own is in its place


def attached() -> "Any":
    """The recording; None before PyTorch is there, which may import what is watched itself, and in a worker."""
    return recording if recording is not None and recording.attached else None


class Instead(tuple):  # type: ignore[type-arg]
    """What a hook puts in the place of something: before a call `(args, kwargs, token)`, behind it `(result,)`."""


calls.given_by(Instead)
watched: "List[Tuple[Any, str]]" = []  # each function of the program that is watched: its owner, and its name there


def watch(owner: "Any", name: str, before: "Optional[Hook]" = None, after: "Optional[Hook]" = None,
          leave: "Optional[Hook]" = None) -> None:
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


def _name_of(function: "Any") -> str:
    return str(function.__qualname__)


def _for(bound: object, before: "Optional[Hook]", after: "Optional[Hook]") -> "Tuple[Hook, Optional[Hook]]":
    """Hooks that are told of calls with `bound` alone."""

    def begin(given: object, *args: object, **kwargs: object) -> object:
        if given is bound:
            return before(given, *args, **kwargs) if before else True
        return None

    def end(token: object, result: object, *args: object, **kwargs: object) -> object:
        return after(token, result, *args, **kwargs) if after else None

    return begin, after and end


def tell(owner: "Any", name: str, after: "Optional[Hook]" = None, before: "Optional[Hook]" = None) -> None:
    """Has the recording told of calls of a function: `before` is given what it is given, `after` what it returned as
    well. No compiler knows of that."""
    before, after = before and guarded(before), after and guarded(after)

    def begin(*args: object, **kwargs: object) -> object:
        if compiling() or attached() is None:
            return None
        if before:
            before(*args, **kwargs)
        return True

    def end(_token: object, result: object, *args: object, **kwargs: object) -> None:
        if after:
            after(result, *args, **kwargs)

    watch(owner, name, begin, after and end)


def unread(owner: "Any", name: str, unless: "Optional[Hook]" = None) -> None:
    """Has operators of a function recorded without contents, of calls for which `unless` does not hold."""

    def begin(*args: object, **_kwargs: object) -> object:
        if attached() is None or (unless is not None and unless(*args)):
            return None
        recording.probe.repro_check_unread(1)
        thread = recording.thread
        before, thread.unread = recording.is_unread(), True
        return (before,)

    def leave(token: "Any", _error: object) -> None:
        recording.thread.unread = token[0]
        recording.probe.repro_check_unread(0)

    watch(owner, name, begin, None, leave)


def within(owner: "Any", name: str, make: "Hook") -> None:
    """Has calls of a function made inside of the context that `make` returns for what it is given; None = of none."""

    def begin(*args: object, **kwargs: object) -> object:
        context = make(*args, **kwargs)
        if context is not None:
            context.__enter__()
        return context

    def leave(context: "Any", _error: object) -> None:
        context.__exit__()

    watch(owner, name, begin, None, leave)


def unseen() -> "Excluded":
    """While it is entered, operators of the calling thread are not recorded."""
    return Excluded(True)


class Excluded:
    """While it is entered, the engine's key is excluded on the calling thread, or is not."""

    def __init__(self, excluded: bool) -> None:
        self._probe = None if recording is None else recording.probe
        self._excluded = 3 if excluded else 0  # see repro_check_exclude() of the probe

    def __enter__(self) -> None:
        if self._probe is not None:
            self._before = self._probe.repro_check_exclude(self._excluded)

    def __exit__(self, *_error: object) -> None:
        if self._probe is not None:
            self._probe.repro_check_exclude(self._before)


def tell_failure(why: "Optional[bytes]") -> None:
    """What a function of the probe returned, if it failed."""
    if why:
        raise RuntimeError(why.decode(errors="replace"))
