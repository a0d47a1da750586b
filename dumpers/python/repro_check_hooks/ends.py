# SPDX-License-Identifier: Apache-2.0
"""How a process ends, as far as it knows that itself: the exception that nothing caught."""
import os
import sys
import threading

from . import hooks
from .hooks import guarded
from .seeds import file_of_program

_ended_by = None  # what a process that multiprocessing started was ended by
_of_thread = None  # the first that ended a thread, and the name of that


def begin():
    """In a child that was forked, where what ended another process, or a thread of it, has no meaning."""
    global _ended_by, _of_thread
    _ended_by = _of_thread = None


def on_process(module):
    """Who starts processes says what ended them, and no interpreter knows of it."""

    def ended(process, error):
        global _ended_by
        if error is not None and module.current_process() is process:
            _ended_by = error

    def begun(process):
        """From here on it is known what this process is, also where it is stopped."""
        recording = hooks.attached()
        if recording is not None and recording.process == os.getpid() and module.current_process() is process:
            guarded(recording.write_state)()
        return process

    hooks.watch(module.BaseProcess, "run", begun, None, ended)


def watch_threads(_recording):
    """A thread that an exception ends is looked at where it says so; whatever the program says then is its own."""
    if not hasattr(threading, "_make_invoke_excepthook"):
        return
    make = threading._make_invoke_excepthook

    def _make_invoke_excepthook():
        tell = make()

        def invoke_excepthook(thread):
            guarded(_note_thread)(sys.exc_info()[1], thread)
            return tell(thread)

        return invoke_excepthook

    threading._make_invoke_excepthook = _make_invoke_excepthook


def _note_thread(error, thread):
    global _of_thread
    if _of_thread is None and hooks.attached() is not None and not isinstance(error, SystemExit):
        _of_thread = (*_described(error), thread.name)


def raised():
    """Type, file, line and text of the exception that ends this process, or has ended a thread, whose name is the last;
    None where there is none."""
    error = _ended_by or _uncaught()
    # An exit that is made of an exception, as torch.multiprocessing does, is that one.
    if isinstance(error, SystemExit):
        error = error.__context__ if error.code else None
    return _of_thread if error is None else (*_described(error), "")


def _uncaught():
    """What the interpreter keeps of the exception that it prints at the end. Others keep there what they have caught:
    without its traceback, or with one that began in the middle of the program."""
    error = getattr(sys, "last_value", None)
    trace = getattr(error, "__traceback__", None)
    is_printed = trace is getattr(sys, "last_traceback", None)
    return error if is_printed and trace is not None and trace.tb_frame.f_back is None else None


def _described(error):
    cls = type(error)
    name = cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"
    own, last, trace = None, ("", 0), error.__traceback__
    while trace is not None:
        last = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        if file_of_program(trace.tb_frame):
            own = file_of_program(trace.tb_frame), trace.tb_lineno
        trace = trace.tb_next
    try:
        text = str(error)
    except Exception:  # which the program's own class raises
        text = ""
    return (name, *(own or last), text)
