# SPDX-License-Identifier: Apache-2.0
"""A recording of this process: the probe, what watches each kind of event, and how it begins and ends."""
import _thread
import array
import atexit
import ctypes
import json
import os
import sys
import time

from . import ends, hooks, kernels, kit, lanes, processes, seeds
from .hooks import guarded, tell_failure
from .modules import Modules
from .optimizers import Optimizers
from .parameters import Parameters
from .ranks import Ranks
from .values import held_here, parts

TYPE_CHECKING = False  # the module typing is not loaded into programs
if TYPE_CHECKING:
    from typing import Any, Optional

_ENGINE_KEY = "TESTING_ONLY_GenericMode"


class _Phase:
    """While it is entered, what the calling thread does is of one phase."""

    def __init__(self, probe, phase, following):
        self._probe, self._phase, self._following = probe, phase, following

    def __enter__(self):
        self._probe.repro_check_enter_phase(self._phase)

    def __exit__(self, *_error):
        self._probe.repro_check_leave_phase(self._following)


class Recording:
    def __init__(self, torch):
        self.process: Optional[int] = os.getpid()
        self.probe: Any = None
        self.attached = False
        self.checkpoints = None
        self.torch = torch
        self.ctypes = ctypes
        self.of_blocks = hooks.plan.get("depth") == "blocks"
        self.modules = self._blocks() if self.of_blocks else Modules(self)
        self.parameters = Parameters(self)
        self.ranks, self.optimizers = Ranks(self), Optimizers(self)
        self.kernels = kernels.Kernels(self)
        self.how = None  # this process was made, where it was forked
        self.begin()

    def _blocks(self):
        from .blocks import Blocks  # of few recordings

        return Blocks(self)

    def begin_forked(self):
        """In a child of a process that records itself."""
        self.process = os.getpid()
        self.checkpoints = None
        hooks.notes.clear()  # which are the other's
        ends.begin()
        self.begin(is_forked=True)

    def begin(self, is_forked=False):
        self.directory = processes.free_directory(self.process)
        self.failure = None
        self.began = time.time()
        self.ended = False
        self.stop_counting = bool  # which does nothing; begin_here() counts for a part of the process alone
        self.ranks.begin()
        self.optimizers.begin()
        self.parameters.begin()
        self.modules.begin()
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
        probe = ctypes.PyDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW)
        # The interpreter's lock is let go in these: other threads may have to go on meanwhile.
        self.unlocked = ctypes.CDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW)
        for function in (self.unlocked.repro_check_begin, self.unlocked.repro_check_end,
                         probe.repro_check_begin_worker, probe.repro_check_end_batch,
                         probe.repro_check_take_batch):
            function.restype = ctypes.c_char_p
        probe.repro_check_operators.restype = ctypes.c_uint64
        probe.repro_check_fork_thread.restype = ctypes.c_uint32
        probe.repro_check_norms.restype = None
        probe.repro_check_lane.restype = ctypes.c_char_p
        probe.repro_check_place.restype = ctypes.c_void_p
        probe.repro_check_order.restype = None
        probe.repro_check_let_be.restype = None

        class Epoch(ctypes.Structure):  # repro_check_epoch of the probe
            _fields_ = [("sampler", ctypes.c_char_p), ("place", ctypes.c_void_p),
                        *((name, ctypes.c_int64) for name in ("loader", "epoch", "workers")),
                        ("unseen", ctypes.c_char_p)]

        class Worker(ctypes.Structure):  # repro_check_worker of the probe
            _fields_ = [("number", ctypes.c_uint32), ("process", ctypes.c_uint64),
                        ("missing", ctypes.c_char_p)]

        self.Epoch, self.Worker = Epoch, Worker
        self.probe = probe

    def _probe_file(self):
        torch = kit.Torch(self.torch.__version__, os.path.dirname(self.torch.__file__))
        # What failed once for a process of this recording is not tried again by each of the others.
        known = os.path.join(hooks.plan["directory"], f"refused-{torch.version}")
        if os.path.exists(known):
            with open(known, encoding="utf-8") as file:
                raise RuntimeError(file.read())
        try:
            return kit.probe_for(torch, hooks.plan["probes"], hooks.plan["build_folder"])
        except kit.Refused as refused:
            with open(known, "w", encoding="utf-8") as file:
                file.write(str(refused))
            raise

    def _begin(self, is_forked):
        settings = hooks.plan
        if is_forked:  # it goes on with the generators and settings of its parent
            settings = {**settings, "seed": None}
        else:
            self._pin()
        tell_failure(self.unlocked.repro_check_begin(os.fsencode(self.directory), json.dumps(settings).encode()))
        seeds.watch_generators(self.probe.repro_check_watch_generator)
        guarded(seeds.know_cells)(self.probe)

    def _pin(self):
        mode = hooks.plan.get("determinism", "off")
        if mode == "off":
            return
        self.torch.use_deterministic_algorithms(True, warn_only=mode == "warn")
        cudnn = getattr(self.torch.backends, "cudnn", None)
        if cudnn is not None:
            cudnn.deterministic = True
            cudnn.benchmark = False

    def write_state(self):
        rank, ranks = self.ranks.rank or (None, None)
        notes = [f"{where}: {error}" for where, error in hooks.notes]
        state = {"process": self.process, "parent": os.getppid(), "started": processes.started(),
                 "how": processes.how(self), "pool": processes.is_of_pool(), "command": processes.command(),
                 "failure": self.failure or "",
                 "ended": self.ended, "notes": notes, "joins": self.ranks.joins, "worker": self.worker,
                 "attempt": self.ranks.attempt, "began": self.began,
                 "rank": rank, "ranks": ranks or 0,
                 "operators": 0 if self.failure else self.probe.repro_check_operators(),
                 "unread": not self.failure and bool(self.probe.repro_check_ran_unread())}
        processes.write_state(self.directory, state)

    def end(self):
        """The program ends; a child that was forked has nothing to end."""
        if self.ended or os.getpid() != self.process:
            return
        if self.checkpoints is not None:
            guarded(self.checkpoints.at_end)()
        self.stop_counting()
        self.ended = True
        if self.failure is None:
            guarded(self.modules.settle_roots)()
            guarded(self.optimizers.tell_untrained)()
            guarded(self.parameters.read_last)()
            guarded(self.modules.tell_summary)()
            for name, text in guarded(seeds.take_facts)() or ():
                self.probe.repro_check_fact(name.encode(), text.encode(errors="replace"))
            guarded(hooks.note_missing)()
            guarded(self._tell_end)()
            why = self.unlocked.repro_check_end()
            if why:
                self.failure = why.decode(errors="replace")
        self.write_state()

    def _tell_end(self):
        """By which exception, where one is known, and which hooks of ours have failed."""
        raised = ends.raised() if os.environ.get(hooks.PLAN_VARIABLE) else None  # else only a part of it ends
        if raised is not None:
            kind, file, text, thread = (raised[part].encode(errors="replace") for part in (0, 1, 3, 4))
            first_line = next(iter(text.strip().splitlines()), b"")[:500] if self.ranks.rank and not thread else b""
            self.probe.repro_check_raised(kind, file, ctypes.c_uint64(raised[2]), text, first_line, thread)
        for (where, error), count in hooks.notes.items():
            self.probe.repro_check_failed_hook(
                where.encode(errors="replace"), error.encode(errors="replace"), ctypes.c_uint64(count))

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
        self.modules.forget()
        return True

    def _attach(self):
        if "processes" not in hooks.plan:  # a part of the process alone
            atexit.register(guarded(self.end))
        os.register_at_fork(after_in_child=self.modules.let_go)
        processes.watch_ends(guarded(self.end))
        self.plain = {float, self.torch.Tensor, self.torch.nn.Parameter}
        self.compiling = hooks.compiling = getattr(getattr(self.torch, "compiler", None), "is_compiling", bool)
        for attach in (self.modules.watch, self.optimizers.watch, self._pass_higher_order):
            guarded(attach)()
        for watch_kind in (lanes.watch_threads, ends.watch_threads, seeds.watch_program, kernels.watch_graphs,
                           kernels.watch_memory, kernels.watch_storages, processes.watch_forks):
            guarded(watch_kind)(self)
        if hooks.plan.get("checkpoints"):
            guarded(self._watch_checkpoints)()
        self.attached = True

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

    def _watch_checkpoints(self):
        from .checkpoints import Checkpoints

        self.checkpoints = Checkpoints(self)

    def is_plain(self, tensor):
        """No shape alone, and of no class that does something else."""
        return type(tensor) in (self.torch.Tensor, self.torch.nn.Parameter) and tensor.device.type != "meta"

    def name(self, tensor, name, kind):
        self.probe.repro_check_name(ctypes.c_void_p(tensor._cdata), name.encode(), kind)

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
            values = [held_here(name, value) for name, value in values]
        if any(type(value) not in self.plain for _, value in values):
            values = [part for name, value in values for part in parts(name, value)]
        names = "\0".join([name for name, _ in values])
        if names.count("\0") >= len(values):
            raise ValueError("a name has a null in it")
        # Faster to make than arrays of ctypes, and a step of an optimizer has thousands.
        tensors = array.array("Q", [0 if isinstance(value, float) else 1 if isinstance(value, str) else value._cdata
                                    for _, value in values])
        numbers = array.array("d", [value if isinstance(value, float) else 0.0 for _, value in values])
        self.probe.repro_check_values(kind.encode(), ctypes.c_size_t(len(values)), names.encode(),
                                      *[ctypes.c_void_p(each.buffer_info()[0]) for each in (tensors, numbers)],
                                      "\0".join([value for _, value in values if isinstance(value, str)]).encode())
