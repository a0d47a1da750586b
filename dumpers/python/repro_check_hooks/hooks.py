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

PLAN_VARIABLE = "REPRO_CHECK_EXEC"

plan = None  # what to record, and how
recording = None  # once PyTorch is there
notes = {}  # by hook of ours that failed, or name that is missing, and with what: how often


class Nothing:
    def __enter__(self):
        pass

    def __exit__(self, *_error):
        pass


untold = Nothing  # until torch is there


def note(where, error):
    """That a hook of ours failed: what it would have told is missing."""
    from . import torch_names

    lost = torch_names.lost(error)
    _keep_note(where, f"{type(error).__name__}: {error}" + (f", so {lost}" if lost else ""))


def note_missing():
    """Which names that hooks lean on the program's PyTorch and Python have not got."""
    from . import torch_names

    for name, lost in torch_names.missing():
        _keep_note(name, f"this release has no such name, so {lost}")


def _keep_note(where, text):
    if (where, text) in notes or len(notes) < 20:
        notes[where, text] = notes.get((where, text), 0) + 1


def guarded(function):
    """`function`, whose failure becomes a note. What it asks of tensors no `__torch_function__` of the program's
    is told of, and the program's signal handlers wait until it is through."""

    def call(*args, **kwargs):
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


compiling = bool  # which says no, until PyTorch's own is in its place


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
        if compiling() or attached() is None:
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
