# SPDX-License-Identifier: Apache-2.0
"""Lanes: what a thread computes is told by who started it and in which order, not by which thread it is. Pieces of
work that a pool is given are a lane each."""
import _thread
import sys
import threading

import repro_check_attach as attach
from repro_check_attach import guarded, tell

_NO_LANE = 0xFFFFFFFF  # as the probe has it

# What threads run that do nothing but what a pool is given; and those that pin batches, in whatever order workers send
# them, before a loader hands them out in one.
_OF_POOLS = ("concurrent.futures.thread", "_worker"), ("multiprocessing.pool", "worker")
_OF_LOADERS = (("torch.utils.data._utils.pin_memory", "_pin_memory_loop"),)


def on_executor(module):
    """Each piece of work that a pool of threads is given is a lane, by the order in which its creator gives them:
    which thread takes it, and how many there are, is chance."""
    cls = module._WorkItem
    run = cls.run

    def fork(_made, item, *_args, **_kwargs):
        item._repro_check_lane = _fork_lane(attach.recording)

    def run_in_lane(item, *args, **kwargs):
        lane = getattr(item, "_repro_check_lane", None)
        return (run if lane is None else _in_lane(lane, run))(item, *args, **kwargs)

    tell((cls,), "__init__", fork)
    cls.run = run_in_lane


def on_pool(module):
    """The same of `ThreadPool`, whose pieces of work are what it puts before its threads."""
    cls = module.ThreadPool
    original = cls._setup_queues

    @guarded
    def with_lane(task):
        if task is None or attach.attached() is None:
            return task
        job, number, function, args, kwargs = task
        return job, number, _in_lane(_fork_lane(attach.recording), function), args, kwargs

    def _setup_queues(pool):
        original(pool)
        put = pool._quick_put
        pool._quick_put = lambda task: put(with_lane(task) or task)

    cls._setup_queues = _setup_queues


def _in_lane(lane, function):
    """`function`, in a lane of its own, whichever thread calls it."""

    def call(*args, **kwargs):
        attach.recording.probe.repro_check_end_thread()
        attach.recording.probe.repro_check_begin_thread(lane)
        return function(*args, **kwargs)

    return call


def _is_one_of(loops, function):
    """Whether a thread that is about to start runs one of them."""
    target = getattr(getattr(function, "__self__", None), "_target", None)
    return target is not None and any(
        target is getattr(sys.modules.get(module), name, None) for module, name in loops)


def watch_threads(recording):
    for module, name in ((_thread, "start_new_thread"), (_thread, "start_new"),
                         (threading, "_start_new_thread"),
                         (threading, "_start_joinable_thread")):
        if hasattr(module, name):
            setattr(module, name, _starter(recording, getattr(module, name)))


def _fork_lane(recording):
    return recording.ctypes.c_uint32(recording.probe.repro_check_fork_thread())


def _starter(recording, original):
    probe = recording.probe

    def start(function, *args, **kwargs):
        if recording.sends or _is_one_of(_OF_LOADERS, function):
            return original(function, *args, **kwargs)
        lane = (recording.ctypes.c_uint32(_NO_LANE) if _is_one_of(_OF_POOLS, function)
                else _fork_lane(recording))

        def run(*inner, **named):
            probe.repro_check_begin_thread(lane)
            try:
                return function(*inner, **named)
            finally:
                probe.repro_check_end_thread()

        return original(run, *args, **kwargs)

    return start
