# SPDX-License-Identifier: Apache-2.0
"""Blocks: modules of which a recording says what goes in and what comes out, and nothing in between.

Nothing is put on a module: hooks of an instance are copied, pickled and scripted with it. Calls of modules that are
neither a block nor a root are let through by calls.c, at the price of a look into a table."""
import fnmatch
import weakref

from . import borders, calls, hooks
from .hooks import guarded, watch
from .modules import Modules, unwrapped

_FEW = 20  # blocks, where nobody says how many


class _Told:
    """A module whose calls the probe is told of: a root, or of a block the first or the last one, or both.

    number: of the path that it has as a block; begins, ends: what a call of it is of a call of the block; is_replica:
    a root, or what a wrapper of replicas calls."""

    __slots__ = ("begins", "ends", "is_replica", "number", "root", "seen", "path")

    def __init__(self):
        self.number, self.path, self.begins, self.ends, self.is_replica = 0, "", False, False, False
        self.root, self.seen = None, False


class _Root:
    """A module that the program calls itself, with what is below it."""

    def __init__(self, module, prefix):
        self.module = weakref.ref(module)
        self.prefix = prefix
        self.called = {id(module)}  # ids of what its first call has called
        self.is_first = True  # that call is still to end
        self.has_unknown = False  # it has called a module that was not below it when blocks were chosen
        self.vain, self.wait = 0, 0  # searches that found nothing, and calls until the next one
        self.chosen = []  # [(path, modules)], weak
        self.told = {}  # id of a module -> _Told, of its blocks


class Blocks(Modules):
    """The modules of a recording of blocks."""

    def forget(self):
        self._let_pass = calls.let_pass  # when Python ends, modules die when this one may be gone
        for key in vars(self).get("_passing", ()):
            self._let_pass(key, False)
        calls.set_in_root(False)
        super().forget()
        self._passing = {}  # id of a module whose calls are let through -> weak reference of one below no root
        self._told = {}  # id of a module -> _Told
        self._regions = 0  # of compiled code
        self._unopened = {}  # type -> how often

    def watch(self):
        recording = self._recording
        probe = recording.probe
        functions = (probe.repro_check_enter_block_module, probe.repro_check_leave_block_module,
                     probe.repro_check_begin_block, probe.repro_check_end_block)
        addresses = [recording.ctypes.cast(function, recording.ctypes.c_void_p).value for function in functions]
        calls.tell_borders(addresses, recording.torch.Tensor, recording.torch.nn.Parameter, guarded(borders.opened),
                           self._may_read, guarded(self._note))
        chosen = hooks.plan.get("blocks") or str(_FEW)
        self._most = int(chosen) if chosen.isdigit() else 0
        self._patterns = chosen.split(",")
        self._begin, self._end = guarded(self._begin_block), guarded(self._end_block)
        self._cuda = recording.torch.cuda
        self._modes = getattr(recording.torch._C, "_len_torch_function_stack", lambda: 1)

        def before(module, /, *args, **kwargs):  # any of which may have a name of ours
            if recording.ended or self._is_made_elsewhere():
                return None
            told = self._told.get(id(module)) or self._meet(module)
            return told and self._enter(told, module, args, kwargs)

        def after(call, result, /, *_args, **_kwargs):
            told, reads = call
            if reads and told.ends:
                call[1] = False
                self._end(told, result)

        def leave(call, error):
            told, reads = call
            self._leave(told, reads, error)

        cls = recording.torch.nn.Module
        watch(cls, "__call__", guarded(before), guarded(after), guarded(leave))
        calls.lets_pass(cls.__call__)

    def _is_made_elsewhere(self):
        """Whether what is called is compiled, or captured, and not run."""
        return self._recording.compiling() or self._cuda.is_initialized() and self._cuda.is_current_stream_capturing()

    def _may_read(self):
        """Without making sure that no mode of the program's is told of what is asked of tensors."""
        return not self._modes() and not self._is_made_elsewhere()

    def _inside(self):
        """What is told of and was called on this thread, the outermost first."""
        return vars(self._recording.thread).setdefault("told", [])

    def _enter(self, told, module, args, kwargs):
        inside = self._inside()
        if told.root is not None and not inside:
            number = self._numbers.get(id(module))
            if number in self._shared:
                self._call_root(number, module)
            if told.root.has_unknown:
                self._search_again(told.root)
            if module.training and not self._recording.optimizers.are_known():
                guarded(self._recording.parameters.at_call)(module)
        elif inside and inside[0].root is not None and inside[0].root.is_first:
            inside[0].root.called.add(id(module))
        if told.is_replica and self._recording.ranks.enters and not self._recording.is_unread():
            guarded(self._recording.ranks.enter_replica)(module, args)
        if not inside:
            calls.set_in_root(told.root is not None and not told.root.is_first)
        elif told.seen and not told.is_replica and inside[0].root is not None and not inside[0].root.is_first:
            self._pass(id(module), None, told.number, told.begins, told.ends)  # in C from now on
        told.seen = True
        inside.append(told)
        reads = calls.enter_block(told.number)
        if reads and told.begins:
            self._begin(told, module.training, args, kwargs)
        return [told, reads]

    def _leave(self, told, reads, error):
        if reads and told.ends:  # what comes out of it is an exception
            self._end(told, f"{type(error).__module__}.{type(error).__qualname__}")
        inside = self._inside()
        while inside and inside.pop() is not told:
            pass
        calls.leave_block()
        if not inside:
            calls.set_in_root(False)
            if told.root is not None and told.root.is_first:
                self._end_first_call(told.root)

    def region(self, compiled):
        """`compiled`, code that a compiler made of modules, which nothing calls any more: what goes in and comes out
        is that of a block. Parameters that go in are read as such."""
        told, training = _Told(), self._recording.torch.is_grad_enabled
        told.begins = told.ends = True
        told.number = self._define_path(f"compiled.{self._regions}", "region")
        self._regions += 1
        parameter = self._recording.torch.nn.Parameter

        @guarded
        def enter(args):
            self._inside().append(told)
            reads = calls.enter_block(told.number)
            if reads:
                self._begin(told, training(), [each for each in args if type(each) is not parameter], {})
            return [told, reads]

        leave = guarded(self._leave)

        def run(*args):
            call = enter(args)
            try:
                result = compiled(*args)
            except BaseException as error:
                if call:
                    leave(*call, error)
                raise
            if call:
                if call[1]:
                    self._end(told, result)
                leave(told, False, None)
            return result

        return run

    def _begin_block(self, told, training, args, kwargs):
        self._note(calls.begin_block(told.number, training, args, kwargs))

    def _end_block(self, told, result):
        self._note(calls.end_block(told.number, result))

    def _note(self, said, error=None):
        if error is not None:
            hooks.note("border", error)
        if said is None:
            return
        unopened, tensors = said
        if tensors is not None:
            unopened = unopened + borders.unread(tensors, self._recording.plain)
        for kind in unopened:
            self._unopened[kind] = self._unopened.get(kind, 0) + 1

    def _meet(self, module):
        """A module is called of which nothing is told.
        @return what is told of it from now on"""
        inside, key = self._inside(), id(module)
        if not inside:
            self._number(module)
            self._recording.ranks.expects()
            return self._told.get(key)
        root = inside[0].root
        if key not in self._numbers:
            if root is not None:
                root.has_unknown = True
            dies = self._dies
            self._pass(key, weakref.ref(module, lambda _reference: dies(key)))
        elif root is not None:
            root.called.add(key)
        return None

    def _pass(self, key, reference=None, *block):
        """@param block  what a call is of a block, see let_pass() of calls.c"""
        self._let_pass(key, True, *block)
        self._passing[key] = reference

    def _tell_again(self, key):
        if key in self._passing:
            self._let_pass(key, False)
            del self._passing[key]

    def _dies(self, key):
        super()._dies(key)
        self._tell_again(key)
        self._told.pop(key, None)

    def _name_root(self, called):
        module, prefix = super()._name_root(called)
        root = _Root(module, prefix)
        self._choose(root, module)
        for each in {id(called): called, id(module): module}.values():
            told = self._told.setdefault(id(each), _Told())
            told.number, told.is_replica = told.number or self._numbers[id(each)], True
        self._told[id(called)].root = root

    def _end_first_call(self, root):
        """What was to be a block and was not called has given way to what is below it; all others are let through."""
        root.is_first = False
        module = root.module()
        if module is not None:
            self._choose(root, module)
            for below in module.modules():
                if id(below) not in self._told:
                    self._pass(id(below))

    def _search_again(self, root):
        """For modules that were registered since. A program may also make modules as it goes along: after a search
        in vain the next one comes later."""
        if root.wait > 0:
            root.wait -= 1
            return
        module, known = root.module(), len(self._numbers)
        root.has_unknown = False
        self._name_below(module, root.prefix)
        if len(self._numbers) == known:
            root.vain += 1
            root.wait = 2 ** min(root.vain, 10)
            return
        root.vain, root.is_first, root.called = 0, True, {id(module)}
        for below in module.modules():
            self._tell_again(id(below))
        self._choose(root, module)

    def _choose(self, root, module):
        chosen = self._chosen(root, module)
        known = [(path, [reference() for reference in references]) for path, references in root.chosen]
        if len(known) == len(chosen) and all(
                of[0] == other[0] and all(each is another for each, another in zip(of[1], other[1]))
                for of, other in zip(known, chosen)):
            return
        root.chosen = [(path, [weakref.ref(each) for each in modules]) for path, modules in chosen]
        for key, told in root.told.items():
            self._tell_again(key)
            told.begins = told.ends = False
            if not told.is_replica and self._told.get(key) is told:
                del self._told[key]
        root.told = {}
        for path, modules in chosen:
            number = self._define_path(path, type(modules[0]).__name__)
            for each in {id(modules[0]): modules[0], id(modules[-1]): modules[-1]}.values():
                told = root.told[id(each)] = self._told.setdefault(id(each), _Told())
                told.number, told.path = number, path
                told.begins, told.ends = each is modules[0], each is modules[-1]
                self._tell_again(id(each))

    def _define_path(self, path, kind):
        """A number of its own: a group is no module."""
        number = len(self.kept) + 1
        self.kept[number] = lambda: None
        self._tell_path(number, path, kind)
        return number

    def _chosen(self, root, module):
        """[(path, modules)]: of a block the module, or those that follow each other in it."""
        prefix = f"{root.prefix}." if root.prefix else ""
        if not self._most:
            return self._matching(root, module, prefix)
        level = [("", module)]
        while True:
            found = {}  # a module that is there twice has its first name
            for name, each in level:
                for path, child in self._children(root, name, each) or [(name, each)]:
                    found.setdefault(id(child), (path, child))
            below = list(found.values())
            grouped = _in_groups(below, self._most)
            if grouped is None or len(below) == len(level) and all(a[1] is b[1] for a, b in zip(below, level)):
                grouped = [(name, [each]) for name, each in level]
            elif len(below) <= self._most:
                level = below
                continue
            return [(unwrapped(f"{prefix}{path}.").rstrip("."), modules) for path, modules in grouped]

    def _matching(self, root, module, prefix):
        """Of modules that a pattern names the outermost."""
        found = []
        for name, each in module.named_modules():
            path = unwrapped(f"{prefix}{name}.").rstrip(".")
            is_inside = any(path.startswith(f"{outer}.") for outer, _ in found)
            if not is_inside and self._is_called(root, each) and any(
                    fnmatch.fnmatchcase(path, pattern) for pattern in self._patterns):
                found.append((path, [each]))
        return found

    def _children(self, root, name, module):
        """What a module calls. A list of modules is called by nobody: what it holds is."""
        if not root.is_first and id(module) in root.called and not any(
                id(below) in root.called for below in module.modules() if below is not module):
            return []
        found = []
        for key, child in module.named_children():
            path = f"{name}.{key}" if name else key
            found += [(path, child)] if self._is_called(root, child) else self._children(root, path, child)
        return found

    def _is_called(self, root, module):
        """Whether it is, as far as is known: in the first call of the root it was, or nothing below it was."""
        # A class of TorchScript has none, and says so by an exception.
        if getattr(type(module), "forward", None) is self._recording.torch.nn.Module.forward:
            return False
        return root.is_first or id(module) in root.called or not any(
            id(below) in root.called for below in module.modules())

    def tell_summary(self):
        probe = self._recording.probe
        for kind, count in sorted(self._unopened.items()):
            probe.repro_check_unopened(kind.encode(errors="replace"), self._recording.ctypes.c_uint64(count))
        seen = {}
        for told in self._told.values():
            if told.begins or told.ends:
                seen[told.path] = seen.get(told.path, False) or told.seen
        for path in sorted(path for path, is_seen in seen.items() if not is_seen):
            probe.repro_check_not_seen(path.encode())


def _in_groups(level, most):
    """[(path, modules)], no more than `most`: lists of equal modules are cut into groups of ones that follow each
    other, all of one size; None where that is not enough."""
    lists = []
    for name, module in level:
        parent, _, place = name.rpartition(".")
        last = lists[-1] if lists else None
        if last and place.isdigit() and last[0] == (parent, type(module)):
            last[1].append((name, module))
        else:
            lists.append(((parent if place.isdigit() else None, type(module)), [(name, module)]))
    longest = max(len(entries) for _, entries in lists)
    for size in range(1, longest + 1):
        if sum(-(-len(entries) // size) for _, entries in lists) <= most:
            cut = [entries[begin:begin + size] for _, entries in lists for begin in range(0, len(entries), size)]
            return [(_path_of(group), [module for _, module in group]) for group in cut]
    return None


def _path_of(group):
    first, last = group[0][0], group[-1][0]
    return first if len(group) == 1 else f"{first}-{last.rpartition('.')[2]}"
