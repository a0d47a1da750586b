# SPDX-License-Identifier: Apache-2.0
"""Modules: which one each operator was called by, and by which names they and their parameters are known."""
import _thread
import weakref

from .hooks import guarded, watch
from .record_names import LANE_MARK


def unwrapped(path):
    """Of a module or a parameter, without what compiling and sharding put in between."""
    return path.replace("_orig_mod.", "").replace("_fsdp_wrapped_module.", "")


_MAIN_LANE = "main"


def _place_of_lane(lane):
    """In the order in which lanes were made, each behind the one that made it: `main.2` is before `main.10`."""
    parts = lane.split(".")
    return parts[0] != _MAIN_LANE, [int(part) if part.isdigit() else -1 for part in parts], lane


class Modules:
    def __init__(self, recording):
        self._recording = recording
        self.begin()

    def begin(self):
        self.let_go()
        self.forget()

    def let_go(self):
        self._naming = _thread.RLock()  # another thread may have held it, which a forked child has not

    def forget(self):
        self._numbers = {}  # id of a module -> its number
        self.kept = {}  # number -> weak reference, which says when the id is free again
        self._roots = {}  # class name of root modules, and their lane -> how many it called
        self._shared = {}  # number of a root module that another thread called first -> lane -> its name there
        self.names = {}  # id of a parameter -> name

    def watch(self):
        recording = self._recording
        enter, leave = recording.probe.repro_check_enter_module, recording.probe.repro_check_leave_module
        enter.restype = leave.restype = None
        compiling, ranks = recording.compiling, recording.ranks

        def before(module, /, *args, **_kwargs):  # any of which may have a name of ours
            if recording.ended or compiling():
                return None
            number = self._numbers.get(id(module))
            if number is None:
                number = self._number(module)
                ranks.expects()
            elif number in self._shared:
                guarded(self._call_root)(number, module)
            if recording.checkpoints is not None:
                guarded(recording.checkpoints.at_forward)(module)
            if ranks.enters and not recording.is_unread():
                guarded(ranks.enter_replica)(module, args)
            enter(number or 0, vars(module).get("training") is False)
            return True

        def after(_token, _error):
            if not recording.ended:
                leave()

        watch(recording.torch.nn.Module, "__call__", before, None, after)

    def _number(self, module):
        with self._naming:  # a thread that calls it meanwhile, or what is below it
            if id(module) not in self._numbers:
                guarded(self._name_root)(module)
        return self._numbers.get(id(module))

    def _name_root(self, called):
        """Names a module that nobody knows yet, and all that are below it: of the first one of the main thread the
        names are those of named_modules(), of others its class stands before them, and the lane where that is another.
        Which of several lanes is the first to call it is decided by their race: in the end it is named by the first of
        them in order."""
        root, wrapped = called, self._recording.ranks.is_wrapper(called)
        if wrapped:
            self._recording.ranks.wraps(called)
            self._recording.probe.repro_check_expect_reductions()
            root = called.module
        lane = self._lane()
        prefix = self._root_name(root, lane)
        # What is called is the last: a thread that finds its number finds all others, and whether it is shared.
        self._name_below(root, prefix, called)
        if lane != _MAIN_LANE:
            self._shared[len(self.kept) + 1] = {lane: prefix}
        self._define(called, prefix)
        return root, prefix

    def _name_below(self, root, prefix, called=None):
        guarded(self._name_tensors)(root, prefix)
        for name, module in reversed(list(root.named_modules())):
            if module is not called:
                self._define(module, ".".join(part for part in (prefix, name) if part))

    def _name_tensors(self, root, prefix):
        for kind_number, tensors in ((1, root.named_parameters()), (2, root.named_buffers())):
            for name, tensor in tensors:
                full = unwrapped(f"{prefix}.{name}" if prefix else name)
                self.names.setdefault(id(tensor), full)
                self._recording.name(tensor, full, kind_number)
                self._recording.ranks.tell_place(full, tensor)

    def _lane(self):
        return self._recording.probe.repro_check_lane().decode()

    def _root_name(self, root, lane):
        """By the order in which the lane calls roots."""
        kind = type(root).__name__ + ("" if lane == _MAIN_LANE else LANE_MARK + lane.replace(".", ":"))
        count = self._roots[kind] = self._roots.get(kind, 0) + 1
        if lane == _MAIN_LANE and sum(self._roots[other] for other in self._roots if LANE_MARK not in other) == 1:
            return ""
        return kind if count == 1 else f"{kind}#{count}"

    def _call_root(self, number, called):
        lanes = self._shared[number]
        lane = self._lane()
        if lane not in lanes:
            with self._naming:
                root = called.module if self._recording.ranks.is_wrapper(called) else called
                lanes[lane] = self._root_name(root, lane)

    def settle_roots(self):
        for lanes in self._shared.values():
            until_now, name = next(iter(lanes.values())), lanes[min(lanes, key=_place_of_lane)]
            if name != until_now:
                self._recording.probe.repro_check_name_root(until_now.encode(), name.encode())

    def tell_summary(self):
        """What a verdict has to say of the recording."""

    def _define(self, module, path):
        key = id(module)
        if key in self._numbers:
            return
        path = unwrapped(path)
        number = len(self.kept) + 1

        dies = self._dies

        def forget(_reference, key=key):
            dies(key)

        # Numbers are never used twice, so the reference stays as their count.
        self.kept[number] = weakref.ref(module, forget)
        self._numbers[key] = number
        self._tell_path(number, path, type(module).__name__)

    def _dies(self, key):
        self._numbers.pop(key, None)

    def _tell_path(self, number, path, kind):
        self._recording.probe.repro_check_define_module(
            self._recording.ctypes.c_uint32(number), path.encode(), kind.encode())
