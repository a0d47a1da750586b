# SPDX-License-Identifier: Apache-2.0
"""Waits for modules that the program imports, and has what watches each called once it is there."""
import sys

from .hooks import guarded

TYPE_CHECKING = False  # the module typing is not loaded into programs
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Mapping, Set

    Watcher = Callable[[Any], Any]

_waiting: "Dict[str, Watcher]" = {}  # by name of a module: what watches it
_pending: "Set[str]" = set()  # names of those that were not called yet


def wait(watchers: "Mapping[str, Watcher]") -> None:
    """Has each of the functions called with its module, now where that is there already.

    watchers: by name of the module."""
    _waiting.update(watchers)
    _pending.update(_waiting)
    for name in [name for name in _waiting if name in sys.modules]:
        _call_watcher(name, sys.modules[name])
    sys.meta_path.insert(0, _Finder())


def wait_again(name: str) -> None:
    """That was another module of that name."""
    _pending.add(name)


class _Finder:
    """Finds a watched module as the finders behind it do, and has what watches it called each time it has been
    executed."""

    @staticmethod
    def find_spec(name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        _call_late()
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            if isinstance(finder, _Finder) or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _watch_loader(spec.loader)
                return spec
        return None


def _watch_loader(loader: "Any") -> None:
    """The loader itself stays the one that the program gets: it may ask for it without an import, or wrap it. A class
    that keeps its attributes elsewhere wraps a loader that is watched already."""
    kind: Any = type(loader)
    if (isinstance(loader, type) or kind.__setattr__ is not object.__setattr__
            or "exec_module" in getattr(loader, "__dict__", "exec_module")):
        return
    execute = getattr(loader, "exec_module", None)
    if execute is not None:
        loader.exec_module = _watching(execute)


def _watching(execute: "Watcher") -> "Watcher":
    def exec_module(module: "Any") -> None:
        name = module.__name__
        waits = name in _pending
        _pending.discard(name)  # else each import below would ask whether it is executed still
        try:
            execute(module)
        except BaseException:
            if waits:
                _pending.add(name)
            raise
        _call_watcher(name, module)

    # Python leaves this frame out of the tracebacks of failed imports, as its own.
    exec_module.__code__ = exec_module.__code__.replace(co_filename="<frozen importlib._bootstrap>")
    return exec_module


def _call_watcher(name: str, module: "Any") -> None:
    if name in _waiting:
        _pending.discard(name)
        guarded(_waiting[name])(module)


def _call_late() -> None:
    """For modules that were loaded past the finders of Python, or by a loader that cannot be watched."""
    for name in list(_pending):
        module: Any = sys.modules.get(name)
        # A module that is loaded when it is first used is not loaded here.
        kind: Any = type(module)
        if (kind.__getattribute__ is type(sys).__getattribute__ and not _is_executing(module)
                and name in _pending):
            _call_watcher(name, module)


def _is_executing(module: "Any") -> bool:
    for innermost in sys._current_frames().values():
        frame: Any = innermost
        while frame is not None:
            if frame.f_globals is module.__dict__ and frame.f_code.co_name == "<module>":
                return True
            frame = frame.f_back
    return False
