# SPDX-License-Identifier: Apache-2.0
"""What parameters hold behind the steps of a recording of blocks: of each step another share is read, so that all are
in so many steps, and of each so many-th step all."""
import array
import weakref

from .hooks import guarded
from .values import held_here, parts

_ROUND = 16  # steps


class _Trained:
    """An optimizer, or a root module, with the parameters that it had at the beginning of a round, by name."""

    def __init__(self, owner, is_root, dies):
        self.is_root = is_root
        self.owner = weakref.ref(owner, dies)
        self.steps = 0
        self.step = -1  # of the program, that it made last
        self.tensors = []  # [(name, weak reference)]
        self.shares = []  # lists of places in `tensors`
        self.read = set()  # places that were read behind that step


class Parameters:
    """Of optimizers that made a step; where there are none, of modules that the program calls itself."""

    def __init__(self, recording):
        self._recording = recording
        self.begin()

    def begin(self):
        self._trained = {}  # id of an optimizer -> _Trained

    def after_step(self, optimizer):
        if id(optimizer) not in self._trained:  # what it leaves is known from here on
            self._trained = {key: each for key, each in self._trained.items() if not each.is_root}
        self._read_share(optimizer, self._recording.optimizers.named)

    def at_call(self, root):
        """Of a program that moves its parameters by itself: as the step before has left them."""
        names = self._recording.modules.names
        self._read_share(root, lambda module: [(names.get(id(each), name), each)
                                               for name, each in module.named_parameters()], is_root=True)

    def _read_share(self, owner, named, is_root=False):
        key = id(owner)
        trained = self._trained.get(key)
        if trained is None:
            # It dies before its parameters do.
            trained = self._trained[key] = _Trained(owner, is_root, guarded(lambda _: self._end(key)))
        turn = trained.steps % _ROUND
        if turn == 0:
            self._begin_round(trained, named(owner))
        trained.steps += 1
        trained.step = -1
        places = range(len(trained.tensors)) if turn == 0 else trained.shares[turn - 1]
        trained.read = set(places)
        trained.step = self._read(trained, places)

    @staticmethod
    def _begin_round(trained, named):
        trained.tensors, sizes = [], []
        for name, tensor in named:
            trained.tensors.append((name, weakref.ref(tensor)))
            sizes.append(tensor.numel() * tensor.element_size())
        trained.shares, before, whole = [[] for _ in range(_ROUND - 1)], 0, max(sum(sizes), 1)
        for place, size in enumerate(sizes):
            trained.shares[before * (_ROUND - 1) // whole].append(place)
            before += size

    def _read(self, trained, places):
        names, addresses, held = [], [], []
        for place in places:
            name, reference = trained.tensors[place]
            tensor = reference()
            if tensor is not None:
                for part_name, part in parts(*held_here(name, tensor)):
                    names.append(part_name)
                    addresses.append(part._cdata)
                    held.append(part)
        probe, c = self._recording.probe, self._recording.ctypes
        return probe.repro_check_parameters(c.c_int64(trained.step), c.c_size_t(len(names)),
                                            "\0".join(names).encode() + b"\0", array.array("Q", addresses).tobytes())

    def _end(self, key):
        """Of an optimizer that makes no more steps: what was not read behind its last one."""
        trained = self._trained.pop(key, None)
        if trained is not None and trained.step >= 0:
            self._read(trained, [place for place in range(len(trained.tensors)) if place not in trained.read])

    def read_last(self):
        for key in list(self._trained):
            self._end(key)
