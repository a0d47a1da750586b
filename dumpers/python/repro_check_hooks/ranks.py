# SPDX-License-Identifier: Apache-2.0
"""Which of several ranks a process is, what they exchange, what they hold alike, and which part of what lies on all
of them each one holds."""
import json
import os
import sys
import weakref

from . import hooks, record_names
from .hooks import guarded, tell, unread, unseen
from .values import held_here, leaves, spec_of

# By launchers: the variables that hold a process's rank, and how many there are.
_LAUNCHED = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"),
             ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))
# What replicates a module over ranks, and reduces its gradients.
_WRAPPERS = ("DistributedDataParallel",)


def _launched_as():
    """Rank and number of ranks that a launcher gave this process; None where it is no one of several."""
    for names in _LAUNCHED:
        rank, size = (os.environ.get(name, "") for name in names)
        if rank.isdigit() and size.isdigit() and int(size) > 1:
            return int(rank), int(size)
    return None


def on_distributed(module):
    tell(module, "init_process_group", lambda *_args, **_kwargs: hooks.recording.ranks.joined(module))
    for name in ("new_group", "_new_group_with_tag", "split_group"):
        if hasattr(module, name):  # what ranks exchange is of a group: which there are is told when they have been made
            tell(module, name, lambda *_args, **_kwargs: hooks.recording.ranks.tell_groups(module))
    if hooks.plan.get("depth") == "blocks":
        tell(module, "recv", lambda _sender, tensor, *_args, **_kwargs: hooks.recording.ranks.received(tensor))
    for name in ("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
                 "send_object_list", "recv_object_list"):
        # They travel pickled, in memory of which nobody writes the end: bytes that say nothing of what is computed.
        if hasattr(module, name):
            unread(module, name)


def on_pipeline(module):
    """A stage finds out shapes by passes over memory that nobody has written."""
    for cls in (module._PipelineStageBase, module.PipelineStage):
        for name in ("_shape_inference", "_forward_metadata_inference", "_backward_metadata_inference"):
            if name in vars(cls):
                unread(cls, name)


def on_wrapper(module):
    """That there are replicas is known where the wrapper is made: it may be that nobody calls it."""
    tell(module.DistributedDataParallel, "__init__",
         lambda _, wrapper, *_args, **_kwargs: hooks.recording.ranks.wraps(wrapper))


_watched_tensors = []  # classes


def on_dtensor(module):
    """Where tensors become parts of one that lies on several ranks, and where they are plain ones again."""
    cls = module.DTensor
    if cls in _watched_tensors:  # under the module's other name
        return
    _watched_tensors.append(cls)
    tell(cls, "to_local",
         lambda _, tensor, *_args, **_kwargs: hooks.recording.ranks.crosses(record_names.LEAVES_RANKS, tensor))
    tell(cls, "from_local", lambda made, *_args, **_kwargs: hooks.recording.ranks.crosses(record_names.ENTERS, made))


def on_fsdp(module):
    """Its own way to clip: by a norm that is put together of what the ranks hold."""

    def clipped(norm, _wrapper, max_norm, norm_type=2.0):
        hooks.recording.optimizers.record_clipping(norm, max_norm, norm_type, [(record_names.CLIPPED_BY_ALL, 1.0)])

    tell(module.FullyShardedDataParallel, "clip_grad_norm_", clipped)


def on_join(module):
    """Behind a context of join() the ranks may have made other numbers of steps."""
    tell(module.Join, "__exit__",
         before=lambda _join, kind, *_error: kind is None and hooks.recording.ranks.leaves_join())


def on_averagers(module):
    """Parameters are averaged now and then, and gradients need not be reduced."""
    tell(module.ModelAverager, "__init__",
         lambda _, averager, *_args, **_kwargs: hooks.recording.ranks.averages(averager))


def _place_of(tensor):
    """Where in the whole lies what this rank holds of a DTensor, as JSON; None of another tensor, or where it holds
    nothing."""
    spec = spec_of(tensor)
    if spec is None or spec.mesh.get_coordinate() is None:
        return None
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    _, offset = compute_local_shape_and_global_offset(tensor.shape, spec.mesh, spec.placements)
    axes = spec.mesh.mesh_dim_names or range(spec.mesh.ndim)
    return json.dumps({"shape": list(tensor.shape), "offset": list(offset), "placements": [
        f"{axis} of {spec.mesh.size(number)}: {placement}"
        for number, (axis, placement) in enumerate(zip(axes, spec.placements))]})


def _holders_of(spec):
    """The ranks that hold the same of a DTensor: those along the axes of its mesh that it is replicated over."""
    place = spec.mesh.get_coordinate()
    with unseen():
        ranks = spec.mesh.mesh[tuple(slice(None) if placement.is_replicate() else place[axis]
                                     for axis, placement in enumerate(spec.placements))]
        return ranks.flatten().tolist()


class Ranks:
    """What a recording knows of its process as one of several."""

    def __init__(self, recording):
        self._recording = recording
        self.begin()

    def begin(self):
        self.rank = _launched_as()
        restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
        self.attempt = int(restarts) if restarts.isdigit() else 0
        self.joins = False  # a process group, not just launched as one of several
        self.enters = False  # the first forward pass of a step, or of a model, is to come, of one of several replicas
        self._groups = {}  # of ranks: address -> name
        self._meshes = {}  # ranks of a mesh, as text
        self._holders = {}  # of a DTensor: mesh, placements -> ranks that hold the same
        self._wrapped = []  # weak references to modules that are replicated
        self._replicas = None  # the ranks on which they are, where all wrappers have the same
        self._replicated = set()  # ids of parameters that a wrapper keeps alike
        self._told_of = weakref.WeakSet()  # optimizers, of whose others has been told
        self._joined = 0  # contexts of join() that were left
        self._averages = False
        self._through = False  # the forward pass that begins came through its wrapper
        self._begun = {}  # id of a module, of which has been told what it begins with -> weak reference

    def expects(self):
        """A forward pass, of which nobody knows how it begins: of one more model, or of the next step."""
        self.enters = self.joins

    def joined(self, distributed):
        """The process is one of several: which, is told at once, since it may be killed."""
        ranks = distributed.get_world_size()
        if ranks < 2 or self._recording.failure is not None:
            return
        if distributed.get_backend() == "fake":  # one process stands for all: there are no others to wait for
            self._tell(record_names.SIMULATED_RANKS, str(ranks))
            return
        self.rank = distributed.get_rank(), ranks
        self.joins = self.enters = True
        for name, value in ((record_names.RANK, self.rank[0]), (record_names.RANKS, ranks),
                            (record_names.BACKEND, distributed.get_backend())):
            self._tell(name, str(value))
        self._recording.write_state()
        self.tell_groups(distributed)

    def leaves_join(self):
        if self.joins and not self._recording.ended:
            self._tell(f"{record_names.JOINED}{self._joined}", str(self._recording.optimizers.steps))
            self._joined += 1

    def averages(self, averager):
        if not (self._averages or self._recording.ended):
            self._averages = True
            self._tell(record_names.AVERAGER, type(averager).__name__)

    def tell_groups(self, distributed):
        """Those that are not known yet, by name and ranks."""
        if not self.joins or self._recording.ended:
            return
        c = self._recording.ctypes
        world = getattr(distributed, "_world", None)  # in 1.13 a variable each
        names = distributed._pg_names if world is None else world.pg_names
        members = distributed._pg_group_ranks if world is None else world.pg_group_ranks
        for group, name in list(names.items()):
            # The first that pybind11 keeps of an object is where that is. It is held against what operators are
            # given, and never followed.
            address = c.c_void_p.from_address(id(group) + object.__basicsize__).value
            if self._groups.get(address) == name or group not in members:
                continue
            self._groups[address] = name
            ranks = sorted(members[group], key=members[group].get)
            self._recording.probe.repro_check_group(
                c.c_void_p(address), name.encode(), c.c_size_t(len(ranks)), (c.c_int64 * len(ranks))(*ranks))

    def enter_replica(self, module, args):
        """What a replica has when its forward pass begins: behind the wrapper, which may hand out buffers."""
        if self.is_wrapper(module):
            self._through = True
            return
        wrapped = any(wrapped() is module for wrapped in self._wrapped)
        if not self._trains(module, wrapped):
            self._through = False
            return
        self.enters = False
        values, names = leaves(record_names.INPUT_VALUES, args), self._recording.modules.names
        for prefix, tensors in self._held_by(module):
            values += [(f"{prefix}{names.get(id(tensor), name)}", tensor) for name, tensor in tensors]
        if wrapped:
            values.append((record_names.THROUGH_WRAPPER, float(self._through)))
        self._through = False
        self._recording.record(record_names.REPLICA_RECORD, values)

    def _held_by(self, module):
        """At depth blocks all parameters once, since they are read behind steps, and later on the smallest one, which
        shows that ranks average their parameters. Masks and tables are no statistics."""
        parameters, buffers = module.named_parameters(), module.named_buffers()
        if self._recording.of_blocks:
            if self._begun.get(id(module), lambda: None)() is module:
                trained = [each for each in parameters if each[1].requires_grad]
                parameters = [min(trained, key=lambda each: each[1].numel())] if trained else ()
            self._begun[id(module)] = weakref.ref(module)
            buffers = [(name, tensor) for name, tensor in buffers if tensor.is_floating_point()]
        return (record_names.PARAMETER_PREFIX, parameters), (record_names.BUFFER_PREFIX, buffers)

    def _trains(self, module, wrapped):
        """Whether the pass that begins is one of the training, for which all ranks must have the same. Some evaluate
        alone, another model or this one past its wrapper."""
        if not self._recording.torch.is_grad_enabled():
            return False
        return not self._wrapped or self._through or (wrapped and module.training)

    @staticmethod
    def is_wrapper(module):
        return type(module).__name__ in _WRAPPERS

    def received(self, tensor):
        """What a message holds: no operator is recorded that reads it."""
        if self.joins:
            self._recording.record(record_names.READ_RECORD, [(record_names.ONLY_TENSOR, tensor)])

    def tell_place(self, name, tensor):
        place = guarded(_place_of)(tensor)
        if place:
            self._recording.probe.repro_check_fact(f"{record_names.PLACEMENT}{name}".encode(), place.encode())
            ranks = self._mesh_of(tensor)
            if self.rank and ranks.count(",") + 1 < self.rank[1]:
                self._tell(f"{record_names.MESH}{name}", ranks)

    def _mesh_of(self, tensor):
        """The ranks that share a DTensor, in order."""
        mesh = tensor._spec.mesh
        if mesh not in self._meshes:
            with unseen():
                self._meshes[mesh] = ",".join(map(str, sorted(mesh.mesh.flatten().tolist())))
        return self._meshes[mesh]

    def wraps(self, wrapper):
        if self._recording.ended or any(wrapped() is wrapper.module for wrapped in self._wrapped):
            return
        if not self._wrapped:
            self._tell(record_names.REPLICA_WRAPPER, type(wrapper).__name__)
        self._tell_replicas(wrapper.process_group)
        self._wrapped.append(weakref.ref(wrapper.module))
        ignored = getattr(wrapper, "parameters_to_ignore", ())
        self._replicated.update(
            id(tensor) for name, tensor in wrapper.module.named_parameters() if name not in ignored)

    def tell_unwrapped(self, optimizer):
        """Its parameters that no wrapper replicates, by name."""
        if not self._wrapped or optimizer in self._told_of:
            return
        self._told_of.add(optimizer)
        for name, tensor in self._recording.optimizers.named(optimizer):
            if id(tensor) not in self._replicated:
                self._tell(f"{record_names.UNWRAPPED}{name}", "")

    def _tell_replicas(self, group):
        """The ranks that a wrapper keeps alike, where these are not all; or that another one keeps others alike."""
        distributed = sys.modules["torch.distributed"]
        ranks = [distributed.get_global_rank(group, each) for each in range(distributed.get_world_size(group))]
        told = "" if len(ranks) == distributed.get_world_size() else ",".join(map(str, ranks))
        if not self._wrapped:
            self._replicas = told
            if told:
                self._tell(record_names.REPLICAS, told)
        elif self._replicas not in (told, None):
            self._replicas = None
            self._tell(record_names.REPLICA_GROUPS, "of several groups")

    def crosses(self, way, tensor):
        """What of a DTensor this rank holds where it is made of a plain tensor, or made one again, and who holds the
        same."""
        local, spec = tensor._local_tensor, tensor._spec
        if type(local).__name__ == "AsyncCollectiveTensor":
            if hooks.plan.get("no_sync"):  # it is not there yet
                return
            local = local.elem
        if self._recording.ended or not self.joins or self._recording.compiling():
            return
        if spec.mesh.get_coordinate() is None or not self._recording.is_plain(local):
            return
        key = spec.mesh, spec.placements
        holders = self._holders.get(key)
        if holders is None:
            holders = self._holders[key] = _holders_of(spec)
        name, _ = held_here(way, tensor, holders)
        self._recording.record(record_names.PLACED_RECORD, [(name, local)])

    def _tell(self, name, value):
        self._recording.probe.repro_check_fact(name.encode(), value.encode())
