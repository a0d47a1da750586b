# SPDX-License-Identifier: Apache-2.0
"""Other processes of the program: one that is forked records itself from there on, as one that is started does."""
import json
import os
import sys

from . import hooks
from .hooks import guarded
from .seeds import line_of_program

TYPE_CHECKING = False  # the module typing is not loaded into programs
if TYPE_CHECKING:
    from typing import Any


def free_directory(process):
    """For the journal of a recording of this process: of programs that this one has replaced (os.execv), that had its
    number before, or of what else is recorded in it, there may be others."""
    first = directory = os.path.join(hooks.plan["directory"], str(process))
    others = 0
    while os.path.exists(directory) or os.path.exists(directory + ".json"):
        others += 1
        directory = f"{first}{others:03}"
    return directory


def write_state(directory, state):
    """Whole or not at all: written beside, then renamed."""
    path = directory + ".json"
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(state, file)
    os.replace(path + ".new", path)


def watch_ends(end):
    """Has a recording ended where this process ends by itself, or becomes another program."""
    hooks.watch(os, "_exit", lambda *_args, **_kwargs: end())

    def replace(path, *_args, **_kwargs):
        if not isinstance(path, int) and os.access(path, os.X_OK):  # else the program goes on, as far as we know
            end()

    for name in ("execv", "execve"):  # which the others call
        hooks.watch(os, name, guarded(replace))


def watch_forks(recording):
    os.register_at_fork(after_in_child=lambda: guarded(_forked)(recording))


def _forked(recording):
    if recording.attached and not recording.ended and hooks.plan.get("processes") == "all" and not _is_loader():
        recording.how = _place_of_fork()
        recording.begin_forked()
    elif recording.probe is not None:
        recording.probe.repro_check_let_be()


def on_multiprocessing(module):
    """`terminate()` and `kill()`: of a process, of the workers of a pool, of those that are left at the end."""
    hooks.watch(module.Popen, "_send_signal", guarded(_stopped))


def on_subprocess(module):
    hooks.watch(module.Popen, "send_signal", guarded(_stopped))


def _stopped(process, *_signal, **_kwargs):
    """The program itself ends this one: what it has recorded by then is all that it would ever do."""
    if (hooks.recording or hooks.arrays) is not None and process.returncode is None:
        mark = os.path.join(hooks.plan["directory"], f"{process.pid}.stopped")
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def is_of_pool():
    """Whether this process takes whatever task comes next, which is a race with others."""
    made = sys.modules.get("multiprocessing.process")
    target = getattr(made and made.current_process(), "_target", None)
    return (getattr(target, "__module__", ""), getattr(target, "__name__", "")) in _POOLS


_POOLS = (("multiprocessing.pool", "worker"), ("concurrent.futures.process", "_process_worker"))


def _frames():
    frame: Any = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_loader():
    """Whether a data loader makes its workers: their batches are recorded."""
    makers = (frame.f_code for frame in _frames() if frame.f_code.co_name == "__init__")
    return any(code.co_filename.endswith("torch/utils/data/dataloader.py") for code in makers)


def _place_of_fork():
    return f"fork at {line_of_program(sys._getframe(1)) or 'no line of the program'}"


def how(recording):
    """How this process was made, which is alike in two runs: by its name where `multiprocessing` gave it one."""
    made = sys.modules.get("multiprocessing.process")
    name = "MainProcess" if made is None else made.current_process().name
    return (recording and recording.how) or "exec" if name == "MainProcess" else name


def command():
    with open("/proc/self/cmdline", "rb") as file:
        return [word.decode(errors="replace") for word in file.read().rstrip(b"\0").split(b"\0")]


def started():
    """When, in ticks of the kernel: of two processes the later one has no less."""
    with open("/proc/self/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])
