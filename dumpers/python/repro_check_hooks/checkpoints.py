# SPDX-License-Identifier: Apache-2.0
"""Records what a program saves and loads, and the state of the training around that: when it is saved,
when it is restored, and when it is first used afterwards."""
import os
import struct
import sys
import threading
import weakref
from array import array

from . import record_names
from .hooks import attached, guarded, tell, unseen, watch, within
from .optimizers import grad_scaler
from .values import inside, is_tensor, leaf

_MOST = 100_000  # values of one record


class _Generators:
    """Random number generators by name, and how far they went since they were saved or restored."""

    def __init__(self, torch):
        self.torch = torch
        self.of_loaders = []  # weak references, by their first loader
        self.of_datasets = []  # a weak reference to a dataset, and the name of its attribute
        self.marked = {}  # name -> state, as it was saved or restored

    def states(self):
        cuda = self.torch.cuda
        states = {"torch.cpu": self.torch.get_rng_state()}
        if cuda.is_available() and cuda.is_initialized():
            for number in range(cuda.device_count()):
                states[f"torch.cuda:{number}"] = cuda.get_rng_state(number)
        for name, module, getter in (("numpy", "numpy.random", "get_state"),
                                     ("random", "random", "getstate")):
            if module in sys.modules:
                states[name] = getattr(sys.modules[module], getter)()
        for number, reference in enumerate(self.of_loaders, 1):
            if reference() is not None:
                states["loader" if number == 1 else f"loader#{number}"] = reference().get_state()
        for number, (reference, attribute) in enumerate(self.of_datasets, 1):
            state = self._state_of(getattr(reference(), attribute, None))
            if state is not None:
                states["dataset" if number == 1 else f"dataset#{number}"] = state
        return states

    def _state_of(self, generator):
        """None of anything else."""
        import random

        numpy = sys.modules.get("numpy.random")
        if isinstance(generator, self.torch.Generator) or (numpy and isinstance(generator, numpy.RandomState)):
            return generator.get_state()
        if isinstance(generator, random.Random):
            return generator.getstate()
        is_newer = numpy and isinstance(generator, getattr(numpy, "Generator", ()))
        return generator.bit_generator.state if is_newer else None

    def add_of(self, loader):
        sampler = getattr(loader, "sampler", None)
        batches = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
        for owner in (loader, sampler, batches):
            generator = getattr(owner, "generator", None)
            if generator is not None and all(known() is not generator for known in self.of_loaders):
                self.of_loaders.append(weakref.ref(generator))
        dataset = getattr(loader, "dataset", None)
        for _ in range(4):  # it may be a part of another
            if not hasattr(dataset, "__dict__") or any(known() is dataset for known, _ in self.of_datasets):
                break
            self.of_datasets += [(weakref.ref(dataset), name) for name, value in vars(dataset).items()
                                 if self._state_of(value) is not None]
            dataset = vars(dataset).get("dataset")

    def moved(self):
        """Numbers drawn from each since it was saved or restored."""
        states = self.states()
        moved = [(f"{record_names.MOVED_PREFIX}{name}", _draws(_twister(before), _twister(states.get(name))))
                 for name, before in self.marked.items()]
        return [(name, float(count)) for name, count in moved if count]


def _twister(state):
    """(624 words, place) of a Mersenne twister; None for any other generator."""
    if isinstance(state, tuple) and len(state) == 3:  # of `random`
        return tuple(state[1][:624]), state[1][624]
    if isinstance(state, tuple):  # of NumPy
        return tuple(int(word) for word in state[1]), state[2]
    if state is None or not is_tensor(state) or state.numel() != 5056:
        return None
    words = struct.unpack_from("<QiiQ624Q", bytes(state.tolist()))
    return words[4:], 625 - words[1]


def _draws(before, after, most=2000):
    """Numbers of 32 bits that lead from one state to the other; None where they do not."""
    import random

    if before is None or after is None:
        return None
    words, place = before
    stepper = random.Random()
    stepper.setstate((3, (*words, place), None))
    for block in range(most):
        if words == after[0]:
            return block * 624 + after[1] - place
        stepper.getrandbits(32 * 624)
        words = stepper.getstate()[1][:624]
    return None


def _packed(value):
    """State of a generator as bytes, wherever it is kept; None for anything else."""
    if not isinstance(value, (tuple, list)) or not value:
        return None
    if len(value) == 5 and isinstance(value[0], str):  # of NumPy
        words = array("I", [int(word) for word in value[1]])
        return words.tobytes() + struct.pack("<iid", int(value[2]), int(value[3]), float(value[4]))
    if len(value) == 3 and isinstance(value[1], (tuple, list)) and len(value[1]) == 625:  # of `random`
        return array("Q", value[1]).tobytes() + repr(value[2]).encode()
    if len(value) > 16 and all(isinstance(item, (bool, int, float)) for item in value):
        return array("d", value).tobytes()
    return None


def on_saver(module):
    checkpoints = getattr(attached(), "checkpoints", None)
    if checkpoints is None:
        return
    if hasattr(module, "save"):
        checkpoints.watch_distributed(module)
    if hasattr(module, "async_save"):
        checkpoints.watch_async(module)


class Checkpoints:
    def __init__(self, recording):
        self.recording = recording
        self.torch = recording.torch
        self.generators = _Generators(self.torch)
        self.optimizers, self.schedulers, self.scalers = [], [], []  # weak references
        self.modules = []  # weak references to those that were copied or loaded, without their parts
        self.iterators = weakref.WeakKeyDictionary()  # iterator of a loader -> its number
        self.iterators_made = 0
        self.iterator = None  # a weak reference to the one that handed out a batch last
        self.awaited = set()  # whose next time is recorded: forward, backward, step
        self.restoring = True  # until the first step behind a load
        self.covered = False  # whether what is being written is recorded
        self.writing = 0  # checkpoints that threads write while the program goes on
        for watch_kind in (self._watch_files, self._watch_objects, self._watch_generators):
            guarded(watch_kind)()

    # What is recorded.

    def leaves(self, name, value, depth=0):
        """Tensors, numbers and states of generators inside of `value`, each with its path."""
        return inside(name, value, self.leaf, depth)

    def leaf(self, name, value, depth):
        if is_tensor(value):
            is_number = value.dim() == 0 and not value.is_complex() and value.device.type != "meta"
            return [(name, float(value) if is_number else value)]
        if depth > 8 or isinstance(value, (bool, int, float)):
            return leaf(name, value, depth)
        data = _packed(value)
        if data is None and hasattr(value, "tobytes") and hasattr(value, "dtype"):
            data = value.tobytes()
        if data is None and isinstance(value, (bytes, bytearray)):
            data = bytes(value)
        if data:
            return [(name, self.torch.frombuffer(bytearray(data), dtype=self.torch.uint8))]
        if hasattr(value, "state_dict"):
            return self.leaves(name, value.state_dict(), depth)
        return None

    def record(self, moment, make):
        """What `make` returns, as that of one moment; whatever operators it needs are not recorded."""
        if self.recording.ended or os.getpid() != self.recording.process:
            return
        with unseen():
            values = guarded(make)() or []
        self.recording.record(record_names.CHECKPOINT_RECORDS + moment, values[:_MOST])

    def _live(self, objects, name):
        known = [reference() for reference in objects]
        return [leaf for number, thing in enumerate(known) if thing is not None
                for leaf in self.leaves(f"{name}[{number}]", thing.state_dict())]

    def _schedule(self):
        # What schedulers keep behind an underscore is for their warnings, or follows from the rest.
        return self._live(self.scalers, record_names.SAVED_SCALER) + [
            leaf for leaf in self._live(self.schedulers, record_names.SAVED_SCHEDULE) if "]['_" not in leaf[0]]

    def _optimizers(self):
        names = self.recording.modules.names
        values = []
        for place, optimizer in enumerate(self._alive(self.optimizers)):
            of = f"{place}:" if place else ""
            for fallback, parameter in self.recording.optimizers.parameters(optimizer):
                name = names.get(id(parameter), of + fallback)
                for key, value in optimizer.state.get(parameter, {}).items():
                    kind = record_names.SAVED_COUNT if key == "step" else record_names.SAVED_OPTIMIZER
                    values += self.leaves(f"{kind}{name}.{key}", value)
            for number, group in enumerate(optimizer.param_groups):
                for key, value in group.items():
                    if key != "params":
                        kind = f"{record_names.SAVED_SCHEDULE}." if key.endswith("lr") else record_names.SAVED_OPTIMIZER
                        values += self.leaves(f"{kind}{of}group{number}.{key}", value)
        return values

    def _weights(self, root=None):
        """Of the module, and whatever else optimizers change."""
        names = self.recording.modules.names
        values, seen = [], set()

        def add(kind, tensors):
            for name, tensor in tensors:
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    values.append((f"{kind}{names.get(id(tensor), name)}", tensor))

        if root is not None:
            add(record_names.SAVED_PARAMETER, root.named_parameters())
            add(record_names.BUFFER_PREFIX, root.named_buffers())
        for optimizer in self._alive(self.optimizers):
            add(record_names.SAVED_PARAMETER, self.recording.optimizers.parameters(optimizer))
        return values + self._others(seen)

    def _others(self, seen):
        """Of modules that have no part in what is trained, as an average of it that is kept beside."""
        values, counts = [], {}
        for module in self._alive(self.modules):
            tensors = [*module.named_parameters(), *module.named_buffers()]
            if any(id(tensor) in seen for _, tensor in tensors):
                continue
            seen.update(id(tensor) for _, tensor in tensors)
            kind = type(module).__name__
            counts[kind] = counts.get(kind, 0) + 1
            prefix = kind if counts[kind] == 1 else f"{kind}#{counts[kind]}"
            values += [(f"{record_names.SAVED_MODULE}{prefix}.{name}", tensor) for name, tensor in tensors]
        return values

    def _gradients(self, optimizers):
        """Those that hold anything: zeros are added to as nothing is."""
        values = []
        for optimizer in optimizers:
            for name, parameter in self.recording.optimizers.named(optimizer):
                gradient = parameter.grad
                if gradient is not None and self.recording.is_plain(gradient) and gradient.any():
                    values.append((f"{record_names.SAVED_GRADIENT}{name}", gradient))
        return values

    @staticmethod
    def _alive(references):
        return [thing for thing in (reference() for reference in references) if thing is not None]

    def _generator_leaves(self):
        return [leaf for name, state in self.generators.states().items()
                for leaf in self.leaves(f"{record_names.GENERATOR_PREFIX}{name}", state)]

    # First uses.

    def at_forward(self, root):
        if "forward" not in self.awaited or not (root.training or self.torch.is_grad_enabled()):
            return
        self.awaited.discard("forward")
        for kind, tensors in ((1, root.named_parameters()), (2, root.named_buffers())):
            for name, tensor in tensors:  # until it is written again, it is what it is called here
                self.recording.name(tensor, self.recording.modules.names.get(id(tensor), name), kind)
        iterator = None if self.iterator is None else self.iterator()
        position = [] if iterator is None else [
            (record_names.SAVED_ITERATOR, float(self.iterators.get(iterator, 0))),
            (record_names.SAVED_POSITION, float(getattr(iterator, "_num_yielded", 0)))]
        self.record(record_names.FORWARD_MOMENT, lambda: self._weights(root) + self._generator_leaves() + position +
                    self.generators.moved())

    def at_backward(self):
        if "backward" not in self.awaited or "forward" in self.awaited:
            return
        self.awaited.discard("backward")
        self.record(record_names.BACKWARD_MOMENT, lambda: self._gradients(self._alive(self.optimizers)))

    def at_step(self, optimizer):
        # A step before the forward pass is none of the training: the state is made by one before it is restored.
        if "step" not in self.awaited or "forward" in self.awaited:
            return
        self.awaited.discard("step")
        self.restoring = False
        self.record(record_names.STEP_MOMENT, lambda: self._optimizers() + self._schedule() +
                    self._gradients([optimizer]))

    def before_iterator(self, iterator, loader):
        self.generators.add_of(loader)
        self.iterators_made += 1
        number = self.iterators[iterator] = self.iterators_made
        self.record(record_names.ITERATOR_MOMENT,
                    lambda: [(record_names.SAVED_ITERATOR, float(number))] + self._generator_leaves())

    def at_batch(self, iterator):
        self.iterator = weakref.ref(iterator)
        if "forward" in self.awaited:
            self.record(record_names.BATCH_MOMENT, self._generator_leaves)

    def at_end(self):
        self.record(record_names.END_MOMENT, lambda: self._generator_leaves() + self._schedule())

    def _await(self):
        self.awaited = {"forward", "backward", "step"}

    # What the program calls.

    def _watch_files(self):
        tell(self.torch, "save", before=lambda obj, *_args, **_kwargs: self.on_save(obj))
        tell(self.torch, "load", lambda loaded, *_args, **_kwargs: self.on_load(loaded))
        import pickle

        tell(pickle, "dump", before=lambda obj, *_args, **_kwargs: self._holds_state(obj) and self.on_save(obj))
        tell(pickle, "load", lambda loaded, *_args, **_kwargs: self._holds_state(loaded) and self.on_load(loaded))

    @staticmethod
    def _holds_state(obj):
        """Whether something pickled is a checkpoint: others hold neither tensors nor what has a state."""
        return bool(inside("", obj, lambda _name, value, _depth:
                           [value] if is_tensor(value) or hasattr(value, "state_dict") else None))

    def watch_async(self, module):
        """Of PyTorch's distributed checkpoints, which copy a state at once, and write it while the program goes on."""

        def begin(state_dict, *_args, **_kwargs):
            if attached() is None:
                return None
            guarded(self.on_distributed_save)(state_dict)
            self.writing += 1
            return True

        def end(_token, result, *_args, **_kwargs):
            guarded(self._watch_writing)(result)

        def leave(_token, error):
            if error is not None:
                self.writing -= 1

        watch(module, "async_save", begin, end, leave)
        within(module, "save", lambda *_args, **_kwargs: self._unread_thread() if self._is_writer() else None)

    def watch_distributed(self, module):
        """A rank writes a share of what all ranks have alike, and has saved all of it none the less."""

        def begin(state_dict, *_args, **_kwargs):
            if attached() is None or self.covered or self._is_writer():
                return None
            guarded(self.on_distributed_save)(state_dict)
            self.covered = True
            return True

        def leave(_token, _error):
            self.covered = False

        watch(module, "save", begin, None, leave)

    def _unread_thread(self):
        self.recording.thread.unread = True  # it is no part of the training, and ends whenever it does
        return unseen()

    def _is_writer(self):
        return self.writing and threading.current_thread() is not threading.main_thread()

    def on_distributed_save(self, state):
        for _, value in self.leaves(record_names.SAVED_MOMENT, state):  # each is written by itself
            self.record(record_names.SAVED_MOMENT, lambda value=value: [(record_names.SAVED_MOMENT, value)])
        self._saved()

    def _watch_writing(self, response):
        """What threads save until then was saved when it was copied."""
        future = getattr(response, "upload_completion", response)

        def written(_future):
            self.writing -= 1

        future.add_done_callback(written)

    def on_save(self, obj):
        if self.covered or self._is_writer():
            return
        self.record(record_names.SAVED_MOMENT, lambda: self.leaves(record_names.SAVED_MOMENT, obj))
        self._saved()

    def _saved(self):
        self.record(record_names.SAVE_MOMENT, lambda: self._weights() + self._generator_leaves() +
                    self._optimizers() + self._schedule())
        with unseen():
            self.generators.marked = self.generators.states()
        self._await()

    def on_load(self, loaded):
        self.restoring = True
        self.record(record_names.LOADED_MOMENT, lambda: self.leaves(record_names.LOADED_MOMENT, loaded))
        self._await()

    def _watch_objects(self):
        from torch.optim import lr_scheduler, optimizer

        schedulers = [cls for cls in {id(cls): cls for cls in vars(lr_scheduler).values()}.values()
                      if isinstance(cls, type) and hasattr(cls, "load_state_dict")
                      and not issubclass(cls, optimizer.Optimizer)]
        for classes, known in (([self.torch.nn.Module], None), ([optimizer.Optimizer], self.optimizers),
                               (schedulers, self.schedulers), ([grad_scaler(self.torch)], self.scalers)):
            for cls in classes:
                if known is not None and "__init__" in vars(cls):
                    tell(cls, "__init__", before=self._maker(known))
                if "load_state_dict" in vars(cls):
                    tell(cls, "load_state_dict", self._on_restored)
        tell(self.torch.nn.Module, "__setstate__", lambda _, module, *_args: self._note_module(module))

    @staticmethod
    def _maker(known):
        def note(thing, *_args, **_kwargs):
            if all(reference() is not thing for reference in known):
                known.append(weakref.ref(thing))
        return note

    def _note_module(self, module):
        known = self._alive(self.modules)
        if all(each is not module for each in known):
            parts = {id(part) for part in module.modules()}
            self.modules = [weakref.ref(each) for each in known if id(each) not in parts] + [weakref.ref(module)]

    def _on_restored(self, _result, thing, *_args, **_kwargs):
        if isinstance(thing, self.torch.nn.Module):
            self._note_module(thing)
        if self.restoring:
            self.record(record_names.RESTORED_MOMENT,
                        lambda: self.leaves(record_names.RESTORED_MOMENT, thing.state_dict()))
            self._await()

    def _watch_generators(self):
        torch = self.torch
        self._watch_setter("torch.cpu", torch, "set_rng_state")
        self._watch_setter("torch.cuda", torch.cuda, "set_rng_state")
        import random

        self._watch_setter("random", random, "setstate")
        if "numpy.random" in sys.modules:
            self.watch_numpy(sys.modules["numpy.random"])

    def watch_numpy(self, module):
        self._watch_setter("numpy", module, "set_state")

    def _watch_setter(self, kind, owner, name):
        def restored(*_args, **_kwargs):
            if self.restoring:
                self.record(record_names.RESTORED_MOMENT, lambda: self._restored(kind))

        tell(owner, name, restored)

    def _restored(self, kind):
        states = {name: state for name, state in self.generators.states().items()
                  if name.startswith(kind)}
        self.generators.marked.update(states)
        return [leaf for name, state in states.items()
                for leaf in self.leaves(f"{record_names.GENERATOR_PREFIX}{name}", state)]
