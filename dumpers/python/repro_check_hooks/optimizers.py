# SPDX-License-Identifier: Apache-2.0
"""Losses, and steps of optimizers: what each leaves, and what stands between a gradient and the step: clipping and loss
scales."""
import _thread
import weakref

from . import calls, record_names
from .hooks import Instead, guarded, tell, unseen, watch, within
from .values import axes_of, held_here, is_tensor, leaves, placed_name

# As the probe numbers phases.
_BACKWARD, _OPTIMIZER = 1, 2
# Optimizers of which each rank keeps the state of other parameters.
_SHARDING = ("ZeroRedundancyOptimizer",)


def _read_again(parameters):
    """What a function may be given in place of `parameters`, and what holds the same: an iterator can be read
    once. One that was a generator is one again, since functions tell them apart."""
    if not hasattr(parameters, "__next__"):
        return parameters, parameters
    read = list(parameters)
    return (each for each in read), read


def _argument(args, kwargs, place, name, default=None):
    return args[place] if place < len(args) else kwargs.get(name, default)


def grad_scaler(torch):
    """Its class, of automatic mixed precision."""
    return getattr(getattr(torch, "amp", None), "GradScaler", None) or torch.cuda.amp.GradScaler


class Optimizers:
    """What a recording knows of optimizers."""

    def __init__(self, recording):
        self._recording = recording
        self._steps = set()  # functions that are watched
        self.begin()

    def begin(self):
        self._stepping = _thread._local()  # on each thread, optimizers that make a step, the outer ones first
        self._placed = {}  # by id, parameters that it has named by their place, as no module had named them
        self._inner_state = {}  # id of an optimizer -> what the step of another one inside of its own left
        self.steps = 0  # that were made of the program
        self._known = weakref.WeakSet()  # optimizers
        # Parameters that have a gradient and are in no optimizer: id -> weak reference, name, sum of its elements, how
        # often it had one.
        self._untrained = {}
        self._trained = set()  # ids of those that were thought to be such, and are not
        self._leaders = {}  # by lane: the optimizer that has the most parameters there (weak), and how many

    def watch(self):
        for watch_kind in (self._watch_steps, self._watch_losses, self._watch_clipping, self._watch_scaler):
            guarded(watch_kind)()

    def _watch_losses(self):
        recording = self._recording

        def begin(tensors, *_args, **_kwargs):
            if not recording.compiling():
                if recording.checkpoints is not None:
                    guarded(recording.checkpoints.at_backward)()
                recording.record(record_names.LOSS_RECORD, guarded(leaves)(record_names.LOSS_VALUES, tensors) or [])
            # After it, and until the step, gradients are what is worked on.
            return recording.phase(_BACKWARD, _OPTIMIZER)

        within(recording.torch.autograd, "backward", guarded(begin))

    def _watch_steps(self):
        from torch.optim import optimizer

        tell(optimizer.Optimizer, "__init__", lambda _, made, *_args, **_kwargs: self._lead(made))
        # What PyTorch calls to hook the step of a class, when that first makes an optimizer.
        name = "_patch_step_function" if hasattr(optimizer.Optimizer, "_patch_step_function") else "_hook_for_profile"
        watch(optimizer.Optimizer, name, None,
              guarded(lambda _token, _result, made, *_args, **_kwargs: self._watch_step(type(made))))
        kinds = [optimizer.Optimizer]
        for kind in kinds:
            kinds += kind.__subclasses__()
            if getattr(kind.__dict__.get("step"), "hooked", False):
                self._watch_step(kind)

    def _watch_step(self, kind):
        if kind.step in self._steps:
            return
        self._steps.add(kind.step)
        watch(kind, "step", *(guarded(each) for each in (self._before_step, self._after_step, self._leave_step)))

    def _lead(self, optimizer):
        """Whether this one counts the steps of the lane that it is in: those that are there before it are asked first.
        @return the lane, or nothing"""
        self._known.add(optimizer)
        lane = self._recording.probe.repro_check_lane().decode()
        leader, size = self._leaders.get(lane, (lambda: None, 0))
        if leader() is not optimizer:
            own = sum(1 for _ in self.parameters(optimizer))
            if leader() is not None and own <= size:
                return ""
            self._leaders[lane] = (weakref.ref(optimizer), own)
        return lane

    def are_known(self):
        """Whether the program has any of PyTorch."""
        return bool(self._known)

    def _leads_all_of(self, lane, optimizer):
        """Whether no lane that this one was forked from counts steps by another optimizer."""
        above = lane.rpartition(".")[0]
        leader = self._leaders[above][0]() if above in self._leaders else None
        return leader in (None, optimizer) and (not above or self._leads_all_of(above, optimizer))

    def _before_step(self, optimizer, *args, **kwargs):
        """@return the optimizer, and the one whose step this one's is a part of, as one that shards its state has it,
        and what the step is to be given instead; None where nothing more is to be told of it"""
        stepping = vars(self._stepping).setdefault("all", [])
        if self._recording.ended or any(each is optimizer for each in stepping):
            return None  # a class that calls the step of the one it is derived from
        if stepping:
            return optimizer, stepping[-1]
        stepping.append(optimizer)
        given = guarded(self._enter_step)(optimizer, args, kwargs)
        token = optimizer, None
        return token if given is None else Instead(((optimizer, *given[0]), given[1], token))

    def _enter_step(self, optimizer, args, kwargs):
        """@return what the step is to be given instead; None: what it was given"""
        closure = args[0] if args else kwargs.get("closure")
        has_closure = callable(closure)
        is_plain = self._recording.of_blocks or self._is_plain_step(optimizer)
        at_step = guarded(getattr(self._recording.checkpoints, "at_step", lambda _optimizer: None))
        if not has_closure:
            at_step(optimizer)
        is_recorded = self._recording.probe.repro_check_enter_step(is_plain and not has_closure)
        for name, tensor in () if self._recording.of_blocks else self.named(optimizer):
            # Once all the same, for what is said of the whole program.
            is_placed = self._placed.get(id(tensor), lambda: None)() is tensor
            if is_recorded or not (is_placed or id(tensor) in self._recording.modules.names):
                self._placed[id(tensor)] = weakref.ref(tensor)
                self._recording.name(tensor, name, 1)
        self._recording.ranks.tell_unwrapped(optimizer)
        if not has_closure:
            return None
        closure = self._outside_of_step(closure, is_plain, lambda: at_step(optimizer))
        return ((closure, *args[1:]), kwargs) if args else (args, {**kwargs, "closure": closure})

    def _outside_of_step(self, closure, is_plain, after):
        """What a step calls for its loss is no part of it. PyTorch's own call it before anything else, and then have
        all gradients: `after` is told."""
        probe = self._recording.probe

        def enter(raised):
            if raised is None:
                after()
            probe.repro_check_enter_step(is_plain)

        return calls.between(closure, guarded(lambda: probe.repro_check_leave_step()), guarded(enter))

    def _is_plain_step(self, optimizer):
        """Whether what it leaves tells all of the step: PyTorch's own, and nothing of the program's runs in it."""
        from torch.optim import optimizer as module

        own, kind = "torch.optim.", type(optimizer)
        if not (kind.__module__.startswith(own) and kind.step.__module__.startswith(own)) or kind.__name__ == "LBFGS":
            return False
        hooks = [getattr(owner, name, None) for owner, name in (
            (optimizer, "_optimizer_step_pre_hooks"), (optimizer, "_optimizer_step_post_hooks"),
            (module, "_global_optimizer_pre_hooks"), (module, "_global_optimizer_post_hooks"))]
        if any(hooks) or any(group.get("differentiable") for group in optimizer.param_groups):
            return False
        plain = (self._recording.torch.Tensor, self._recording.torch.nn.Parameter)
        return all(type(tensor) in plain for _, tensor in self.parameters(optimizer))

    def _after_step(self, token, _result, *_args, **_kwargs):
        if self._recording.ended:
            return
        optimizer, outer = token
        if self._recording.of_blocks:
            self._after_step_of_blocks(optimizer, token)
            return
        if outer is not None:
            rank = self._recording.ranks.rank
            parts = [("rank", rank[0], 0)] if rank and type(outer).__name__ in _SHARDING else ()
            self._inner_state[id(outer)] = [(placed_name(name, parts), value) for name, value in self._state(optimizer)
                                            if name.startswith(record_names.STATE_PREFIX)]
            return
        self._recording.record(record_names.STEP_RECORD,
                               self._state(optimizer) + self._inner_state.pop(id(optimizer), []))
        self._leave_step(token)
        self._count_step(optimizer)

    def _after_step_of_blocks(self, optimizer, token):
        """What it was told is a record; parameters are rows of their own."""
        if token[1] is not None:
            return  # the outer one has them all
        self._recording.record(record_names.STEP_RECORD, self._options(optimizer))
        guarded(self._recording.parameters.after_step)(optimizer)
        self._leave_step(token)
        self._count_step(optimizer)

    def _leave_step(self, token, _error=None):
        """However it ended."""
        if self._stepping.all and self._stepping.all[-1] is token[0]:
            self._stepping.all.pop()
            self._recording.probe.repro_check_leave_step()

    def _count_step(self, optimizer):
        lane = self._lead(optimizer)
        if lane:
            self.steps += 1
            if self.steps & (self.steps - 1) == 0:  # ever more seldom
                guarded(self._look_for_untrained)()
            self._recording.ranks.expects()
            self._recording.probe.repro_check_step(self._leads_all_of(lane, optimizer))

    def _look_for_untrained(self):
        """Parameters of modules that train which have gradients, and which no optimizer has and nobody else moves."""
        cuda = self._recording.torch.cuda
        if cuda.is_initialized() and cuda.is_current_stream_capturing():
            return
        owned = {id(tensor) for optimizer in list(self._known) for _, tensor in self.parameters(optimizer)}
        self._trained.update(owned)
        for reference in list(self._recording.modules.kept.values()):
            module = reference()
            tensors = module._parameters.values() if module is not None and module.training else ()
            for tensor in tensors:
                key = id(tensor)
                is_named = tensor is not None and key in self._recording.modules.names and key not in self._trained
                if is_named and tensor.requires_grad and tensor.grad is not None:
                    self._look_at(key, tensor)
        for key in self._trained.intersection(self._untrained):
            del self._untrained[key]

    def _look_at(self, key, tensor):
        with unseen():
            _, value = held_here("", tensor.detach())
            _, gradient = held_here("", tensor.grad.detach())
            value = float(value.sum(dtype=self._recording.torch.float64))
            has_gradient = bool(gradient.any())
        known = self._untrained.setdefault(key, [weakref.ref(tensor), self._recording.modules.names[key], value, 0])
        if known[0]() is not tensor or known[2] != value:
            self._trained.add(key)
        known[3] += has_gradient

    def tell_untrained(self):
        """Those that had a gradient more than once, and are as they were."""
        guarded(self._look_for_untrained)()
        for _, name, _, times in self._untrained.values():
            if times > 1:
                self._recording.probe.repro_check_fact(f"{record_names.UNTRAINED}{name}".encode(), b"")

    @staticmethod
    def parameters(optimizer):
        for number, group in enumerate(optimizer.param_groups):
            for place, tensor in enumerate(group["params"]):
                yield f"group{number}.{place}", tensor

    def named(self, optimizer):
        for fallback, parameter in self.parameters(optimizer):
            yield self._recording.modules.names.get(id(parameter), fallback), parameter

    @staticmethod
    def _options(optimizer):
        """Numbers that a step was told."""
        values = []
        for number, group in enumerate(optimizer.param_groups):
            for key, value in group.items():  # lists are of what it works on, and of names
                if not isinstance(value, (bool, list)):
                    values += leaves(f"{'' if key == 'lr' else record_names.OPTION_PREFIX}{key}[{number}]", value)
        return values

    def _state(self, optimizer):
        """What the step leaves: parameters, gradients, the optimizer's own tensors, and numbers that it was told."""
        values = self._options(optimizer)
        plain = self._recording.torch.Tensor
        for name, parameter in self.named(optimizer):
            gradient = parameter.grad
            if gradient is not None:
                values.append((f"{record_names.GRADIENT_PREFIX}{name}", gradient))
            for key, value in optimizer.state.get(parameter, {}).items():
                if type(value) is plain:
                    values.append((f"{record_names.STATE_PREFIX}{name}.{key}", value))
                else:
                    values += leaves(f"{record_names.STATE_PREFIX}{name}.{key}", value)
            values.append((f"{record_names.PARAMETER_PREFIX}{name}", parameter))
        return values

    def _watch_clipping(self):
        utils = self._recording.torch.nn.utils

        def begin(*args, **kwargs):
            self._stepping.clips = True
            norm_type = _argument(args, kwargs, 2, "norm_type", 2.0)
            return self._clips(args, kwargs, (_argument(args, kwargs, 1, "max_norm"), norm_type))

        def leave(_token, _error):
            self._stepping.clips = False

        watch(utils, "clip_grad_norm_", begin,
              guarded(lambda token, norm, *_args, **_kwargs: self.record_clipping(norm, *token)), leave)
        if hasattr(utils, "clip_grads_with_norm_"):
            self._watch_clipping_in_two(utils)

    def _watch_clipping_in_two(self, utils):
        """By a norm that the program has made more of than get_total_norm() knew. clip_grad_norm_() is made of
        the same two."""
        known = [None]  # type of the norm that was asked for last

        def remember(*args, **kwargs):
            known[0] = _argument(args, kwargs, 1, "norm_type", 2.0)

        def begin(*args, **kwargs):
            if getattr(self._stepping, "clips", False):
                return None
            total_norm, max_norm = (_argument(args, kwargs, *each) for each in ((2, "total_norm"), (1, "max_norm")))
            return self._clips(args, kwargs, (total_norm, max_norm, known[0]))

        tell(utils, "get_total_norm", before=remember)
        watch(utils, "clip_grads_with_norm_", begin,
              guarded(lambda token, _result, *_args, **_kwargs: self.record_clipping(*token)))

    def record_clipping(self, norm, max_norm, norm_type, held):
        self._recording.record(record_names.CLIP_RECORD, guarded(lambda: (
            leaves(record_names.CLIPPED_NORM, norm) + leaves(record_names.CLIPPED_MAX_NORM, max_norm)
            + ([] if norm_type is None else [(record_names.CLIPPED_NORM_TYPE, float(norm_type))])
            + (held or [])))() or [])

    def _clips(self, args, kwargs, told):
        """@return what is told of a call that clips, and where they can be read once, the parameters in another form"""
        parameters = _argument(args, kwargs, 0, "parameters")
        again, given = _read_again(parameters)
        token = *told, guarded(self._held_norms)(given)
        if again is parameters:
            return token
        return Instead(((again, *args[1:]), kwargs, token) if args else ((), {**kwargs, "parameters": again}, token))

    def _held_norms(self, parameters):
        """Of each gradient, before it is clipped, the L2 norm of what this rank holds of it; behind the name of a
        part the axes of the mesh that it is a part along. How many elements these are, and how exact."""
        recording = self._recording
        if recording.ended or not recording.ranks.joins or recording.compiling() or recording.is_unread():
            return []
        given = [parameters] if is_tensor(parameters) else parameters
        names, tensors = [], []
        for number, parameter in enumerate(given):
            if parameter.grad is not None:
                name, tensor = held_here(recording.modules.names.get(id(parameter), f"[{number}]"), parameter.grad,
                                         axes_of(parameter.grad))
                names.append(record_names.LOCAL_NORM_PREFIX + name)
                tensors.append(tensor)
        if not tensors:
            return []
        c, count = recording.ctypes, len(tensors)
        norms = (c.c_double * count)()
        given = (c.c_void_p * count)(*[tensor._cdata for tensor in tensors])
        recording.probe.repro_check_norms(c.c_size_t(count), given, norms)
        finfo = recording.torch.finfo
        return [*zip(names, norms), (record_names.LOCAL_ELEMENTS, float(sum(t.numel() for t in tensors))),
                (record_names.LOCAL_EPSILON, max(finfo(t.dtype).eps for t in tensors))]

    def _watch_scaler(self):
        """Of automatic mixed precision: the scale, and where found_inf is not 0 the step was skipped."""
        def updated(found, _result, scaler, *_args, **_kwargs):
            if scaler.is_enabled():
                self._recording.record(record_names.SCALER_RECORD,
                                       found + leaves(record_names.GRAD_SCALE, scaler._scale))

        watch(grad_scaler(self._recording.torch), "update", guarded(self._found_inf), guarded(updated))

    @staticmethod
    def _found_inf(scaler, *_args, **_kwargs):
        """Of each optimizer, in the order in which the program unscaled them."""
        return [(f"{record_names.FOUND_INF_PREFIX}[{number}].{device}", tensor)
                for number, state in enumerate(getattr(scaler, "_per_optimizer_states", {}).values())
                for device, tensor in state["found_inf_per_device"].items()]
