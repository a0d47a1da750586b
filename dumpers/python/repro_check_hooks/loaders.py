# SPDX-License-Identifier: Apache-2.0
"""Data loaders: the batches that they hand out, which samples these are made of, and what their workers do for them."""
import json
import os
import sys
import types
import weakref

from . import hooks, record_names
from .hooks import Instead, guarded, tell, tell_failure, unread, unseen, watch, within
from .values import leaves

# As the probe numbers phases.
_AS_BEFORE, _FORWARD, _DATA = -1, 0, 4


def on_dataloader(module):
    """Records what a loader hands out, in the process that asks for it."""
    def begin(_iterator):
        return _phase_of_data(_FORWARD)

    def handed_out(_token, batch, iterator):
        guarded(_record_order_of_workers)(iterator)
        guarded(_take_from_worker)(iterator)
        hooks.recording.record(record_names.BATCH_RECORD, guarded(leaves)(record_names.BATCH_VALUES, batch) or [])
        if hooks.recording.checkpoints is not None:
            guarded(hooks.recording.checkpoints.at_batch)(iterator)

    watch(module._BaseDataLoaderIter, "__next__", begin, handed_out, _leave)
    # Workers send batches in whatever order they have them; they are handed out in one.
    several = module._MultiProcessingDataLoaderIter
    within(several, "_try_get_data", lambda *_args, **_kwargs: unseen())
    _watch_loaders(module)
    if hooks.plan.get("workers") and not hooks.plan.get("bare"):
        _watch_workers(several, module._utils.worker)
    else:
        _leave_workers(module._utils.worker)


def _leave_workers(module):
    """What workers do is not recorded, also where they began by themselves: what they send is."""

    def begin(*_args, **_kwargs):
        if hooks.recording is not None:
            hooks.recording.begin_worker()

    watch(module, "_worker_loop", guarded(begin))


def _phase_of_data(following):
    """The phase, entered; None where nothing is recorded."""
    if hooks.attached() is None or hooks.recording.ended:
        return None
    phase = hooks.recording.phase(_DATA, following)
    phase.__enter__()
    return phase


def _leave(context, _error):
    context.__exit__()


def _watch_workers(several, module):
    """What a worker does for a batch is recorded where that is made, and told by its number in the pass; it
    becomes part of the recording where the batch is handed out."""
    def begin_loop(kind, dataset, indices, batches, *args, **kwargs):
        recorded = None if hooks.recording is None else _become_worker(hooks.recording, batches)
        return recorded and Instead(((kind, dataset, indices, recorded, *args), kwargs, None))

    def begin_pass(iterator, _loader, first_iter=False):
        if first_iter:
            iterator._repro_check_pass, iterator._repro_check_makers = 0, {}
            iterator._repro_check_first = hooks.recording.workers if hooks.recording else 0
            if hooks.recording:
                hooks.recording.workers += iterator._num_workers
        else:
            iterator._repro_check_pass += 1

    def note_maker(number, _result, iterator):
        if iterator._send_idx > number[0]:
            iterator._repro_check_makers[number[0]] = iterator._task_info[number[0]][0]

    watch(module, "_worker_loop", guarded(begin_loop))
    watch(several, "_reset", guarded(begin_pass))
    watch(several, "_try_put_index", guarded(lambda iterator: (iterator._send_idx,)), guarded(note_maker))


def _take_from_worker(iterator):
    makers = getattr(iterator, "_repro_check_makers", None)
    if makers is None:
        return
    if getattr(iterator, "_in_order", True):
        number = iterator._rcvd_idx - 1
        _take_batch(iterator, number, makers.pop(number), b"it could not be attached to")
    else:
        _take_batch(iterator, -1, 0, b"its batches come in any order")


class _Sent:
    """The queue in which a worker sends batches: what comes before one made it."""

    def __init__(self, queue, recording):
        self._queue, self._recording, self._pass = queue, recording, 0

    def __getattr__(self, name):
        return getattr(self._queue, name)

    def put(self, batch, *args, **kwargs):
        if isinstance(batch[0], int):
            guarded(_end_batch)(self._recording, f"{self._pass}.{batch[0]}")
        else:  # that a further pass begins
            self._pass += 1
        self._recording.sends = True
        try:
            self._queue.put(batch, *args, **kwargs)
        finally:
            self._recording.sends = False


def _watch_loaders(module):
    """Which samples a batch is made of is recorded before they are read, at the line where the loader
    was made: where they are others, nothing that reads them is to blame."""
    places = weakref.WeakKeyDictionary()
    passes = _Passes()
    cls, several = module._BaseDataLoaderIter, module._MultiProcessingDataLoaderIter

    def note_place(loader, *_args, **_kwargs):
        places[loader] = hooks.recording.probe.repro_check_place()

    def note_loader(iterator, loader, *_args, **_kwargs):
        if hooks.recording.checkpoints is not None:
            hooks.recording.checkpoints.before_iterator(iterator, loader)

    def note_epoch(iterator, loader):
        place = places.get(loader)
        number, epoch = passes.begin(loader, place)
        unseen_names = guarded(_unseen)(iterator) if iterator._num_workers else None
        iterator._repro_check_epoch = hooks.recording.Epoch(
            _sampler_of(loader).encode(), place, number, epoch, iterator._num_workers, unseen_names)

    def see_order(samples, iterator):
        if hooks.recording.ended:
            return
        if isinstance(iterator, several):
            # Workers are asked ahead: by number of the batch.
            vars(iterator).setdefault("_repro_check_orders", {})[iterator._send_idx] = samples
        else:
            _record_order(iterator, samples)

    tell(module.DataLoader, "__init__", before=note_place)
    tell(module.DataLoader, "__iter__", note_epoch)
    # With workers the samples of the first batches are drawn here.
    watch(module.DataLoader, "__iter__", lambda _loader: _phase_of_data(_AS_BEFORE), None, _leave)
    # Without workers, the seed that it draws for them is nobody's.
    unread(cls, "__init__", unless=lambda _iterator, loader, *_args: loader.num_workers)
    tell(cls, "__init__", before=note_loader)
    tell(cls, "_next_index", see_order)


# Of a dataset, how many attributes are looked at, and how far down.
_MOST_ATTRIBUTES, _DEEPEST = 1000, 3
_PLAIN = (bool, int, float, str, type(None))


def _plain(dataset):
    """The numbers, texts and truth values that a dataset holds, by name, and those of the objects that it holds."""
    found, seen, ways = {}, set(), [("", dataset, 0)]
    while ways:
        prefix, holder, depth = ways.pop()
        attributes = getattr(holder, "__dict__", None)
        if type(attributes) is not dict or isinstance(holder, (type, types.ModuleType)) or id(holder) in seen:
            continue
        seen.add(id(holder))
        for name, held in list(attributes.items())[:_MOST_ATTRIBUTES - len(found)]:
            if type(held) in _PLAIN:
                found[f"{prefix}{name}"] = held
            elif depth < _DEEPEST:
                ways.append((f"{prefix}{name}.", held, depth + 1))
    return found


def _unseen(iterator):
    """What was set of a dataset since its workers began, which have copies of their own: names alone, since values
    may be secrets."""
    now = _plain(iterator._dataset)
    began = vars(iterator).setdefault("_repro_check_began", now)
    return ", ".join(sorted(name for name, value in now.items()
                            if name in began and repr(value) != repr(began[name]))).encode()


class _Passes:
    """Numbers loaders as they are first iterated, and the passes of each."""

    def __init__(self):
        self._made_at = {}  # place -> [weak reference to a loader, its number, passes begun]
        self._count = 0

    def begin(self, loader, place):
        known = self._made_at.setdefault(place, [])
        found = next((each for each in known if each[0]() is loader), None)
        if found is None:
            # One that is made for every epoch goes on where the one before it ended.
            found = next((each for each in known if each[0]() is None), None)
            if found is None:
                found = [None, self._count, 0]
                self._count += 1
                known.append(found)
            found[0] = weakref.ref(loader)
        found[2] += 1
        return found[1], found[2] - 1


def _sampler_of(loader):
    if isinstance(loader.dataset, sys.modules["torch.utils.data"].IterableDataset):
        return record_names.ITERABLE_DATASET
    batches = loader.batch_sampler
    return type(loader.sampler if batches is None else getattr(batches, "sampler", batches)).__name__


def _record_order_of_workers(iterator):
    orders = getattr(iterator, "_repro_check_orders", None)
    if orders:
        _record_order(iterator, orders.pop(iterator._rcvd_idx - 1, None))


def _record_order(iterator, samples):
    epoch = getattr(iterator, "_repro_check_epoch", None)
    if epoch is None:  # of a loader that was there before the recording
        return
    samples = list(samples) if isinstance(samples, (list, tuple)) else [samples]
    samples = guarded(_of_whole)(iterator._dataset, samples) or samples
    c = hooks.recording.ctypes
    told = all(type(sample) is int for sample in samples)
    numbers = (c.c_int64 * len(samples))(*samples) if told else None
    hooks.recording.probe.repro_check_order(c.byref(epoch), c.c_size_t(len(samples)), numbers)


def _of_whole(dataset, samples):
    """The numbers that samples of a subset have in the dataset that it is taken of."""
    subset = sys.modules["torch.utils.data"].Subset
    while type(dataset) is subset and all(type(sample) is int for sample in samples):
        samples = [int(dataset.indices[sample]) for sample in samples]
        dataset = dataset.dataset
    return samples


def _worker_directory(process):
    return os.path.join(hooks.plan["directory"], f"worker-{process}")


def _become_worker(recording, batches):
    """Of this process, whether it was forked or began by itself: the queue of its batches."""
    if not recording.begin_worker():
        return None
    settings = json.dumps({**hooks.plan, "seed": None}).encode()
    tell_failure(recording.probe.repro_check_begin_worker(os.fsencode(_worker_directory(os.getpid())), settings))
    return _Sent(batches, recording)


def _end_batch(recording, name):
    tell_failure(recording.probe.repro_check_end_batch(name.encode()))


def _take_batch(iterator, number, maker, missing):
    recording = hooks.recording
    directory = os.path.join(_worker_directory(iterator._workers[maker].pid),
                             f"{iterator._repro_check_pass}.{number}")
    worker = recording.Worker(maker, iterator._repro_check_first + maker, missing)
    tell_failure(recording.probe.repro_check_take_batch(os.fsencode(directory), recording.ctypes.byref(worker)))
