# SPDX-License-Identifier: Apache-2.0
"""Lanes: what a thread computes is told by who started it and in which order, not by which thread it is. Pieces of
work that a pool is given are a lane each."""
import _thread
import os
import sys

from . import calls, hooks
from .hooks import Instead, guarded, tell, watch

_NO_LANE = 0xFFFFFFFF  # as the probe has it

# What threads run that do nothing but what a pool is given; and those that pin batches, in whatever order workers send
# them, before a loader hands them out in one.
_OF_POOLS = ("concurrent.futures.thread", "_worker"), ("multiprocessing.pool", "worker")
_OF_LOADERS = (("torch.utils.data._utils.pin_memory", "_pin_memory_loop"),)


def on_executor(module):
    """Each piece of work that a pool of threads is given is a lane, by the order in which its creator gives them:
    which thread takes it, and how many there are, is chance."""
    def fork(_made, item, *_args, **_kwargs):
        item._repro_check_lane = _fork_lane(hooks.recording)

    def run_in_lane(item, *_args, **_kwargs):
        lane = getattr(item, "_repro_check_lane", None)
        if lane is not None:
            _enter_lane(lane)

    tell(module._WorkItem, "__init__", fork)
    watch(module._WorkItem, "run", guarded(run_in_lane))


def on_pool(module):
    """The same of `ThreadPool`, whose pieces of work are what it puts before its threads."""
    @guarded
    def with_lane(task):
        if task is None or hooks.attached() is None:
            return task
        job, number, function, args, kwargs = task
        return job, number, _in_lane(_fork_lane(hooks.recording), function), args, kwargs

    def set_up(_token, _result, pool):
        put = pool._quick_put
        pool._quick_put = lambda task: put(with_lane(task) or task)

    watch(module.ThreadPool, "_setup_queues", None, guarded(set_up))


def _enter_lane(lane):
    hooks.recording.probe.repro_check_end_thread()
    hooks.recording.probe.repro_check_begin_thread(lane)


def _in_lane(lane, function):
    """`function`, in a lane of its own, whichever thread calls it."""
    return calls.between(function, guarded(lambda: _enter_lane(lane)), _do_nothing)


def _do_nothing(_raised):
    pass


def _is_one_of(loops, function):
    """Whether a thread that is about to start runs one of them."""
    target = getattr(getattr(function, "__self__", None), "_target", None)
    return target is not None and any(
        target is getattr(sys.modules.get(module), name, None) for module, name in loops)


def watch_threads(recording):
    for name in ("start_new_thread", "start_new", "start_joinable_thread"):
        if hasattr(_thread, name):
            watch(_thread, name, guarded(_starter(recording)))
    if _thread.get_native_id() != os.getpid():
        _begin_main(recording)


def _begin_main(recording):
    """The recording began on another thread, which imported PyTorch: the main one joins it as soon as it goes on."""
    begin, no_lane = recording.probe.repro_check_begin_thread, recording.ctypes.c_uint32(_NO_LANE)

    def call(_nothing):
        begin(no_lane)
        return 0

    recording.begins_main = recording.ctypes.CFUNCTYPE(recording.ctypes.c_int, recording.ctypes.c_void_p)(call)
    recording.ctypes.pythonapi.Py_AddPendingCall(recording.begins_main, None)


def _fork_lane(recording):
    return recording.ctypes.c_uint32(recording.probe.repro_check_fork_thread())


def _starter(recording):
    probe = recording.probe

    def end(_raised):
        probe.repro_check_end_thread()

    def start(function, *args, **kwargs):
        if recording.sends or _is_one_of(_OF_LOADERS, function) or not callable(function):
            return None
        lane = (recording.ctypes.c_uint32(_NO_LANE) if _is_one_of(_OF_POOLS, function)
                else _fork_lane(recording))

        run = calls.between(function, lambda: probe.repro_check_begin_thread(lane), end)
        return Instead(((run, *args), kwargs, None))

    return start
