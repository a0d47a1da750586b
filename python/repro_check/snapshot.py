# SPDX-License-Identifier: Apache-2.0
"""What models, optimizers and their like hold, to be put back: a function that trains can be called twice from one
state. Objects keep their identity, and tensors their memory, so that what refers to them goes on to do so."""

from __future__ import annotations

import collections
import random
import sys
import types
import typing

_Restore = typing.Callable[[], object]

# What an object keeps of these is no state: a module of Python, a class, a function.
_NO_STATE = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


class Snapshot:
    """Everything that is reached from `state` through containers, modules, and objects with a `state_dict`."""

    def __init__(self, state: object) -> None:
        import torch

        self._torch = torch
        self._known: dict[int, object] = {}  # by id; held, so that no other object can have it
        self._restores: list[_Restore] = []
        self._take(state, named=True)

    def restore(self) -> None:
        """Puts back contents of tensors, gradients, and what containers and attributes refer to."""
        for restore in self._restores:
            restore()

    def _take(self, value: object, named: bool = False) -> None:
        """
        named: by the caller, so that it is state whatever it is
        """
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, *_NO_STATE)):
            return
        if id(value) in self._known:
            return
        self._known[id(value)] = value
        if isinstance(value, self._torch.Tensor):
            self._take_tensor(value)
        elif not (self._take_generator(value) or self._take_container(value)):
            if hasattr(value, "state_dict") and hasattr(value, "__dict__"):
                self._take_dict(vars(value))
            elif named:
                raise TypeError(f"a {type(value).__name__} is no state that can be put back")
        if isinstance(value, self._torch.nn.Module):  # one of TorchScript has them nowhere in Python
            self._take_all([*value.parameters(), *value.buffers()])

    def _take_container(self, value: typing.Any) -> bool:
        if isinstance(value, dict):
            self._take_dict(value)
        elif isinstance(value, (list, collections.deque)):
            self._take_items(value, lambda: list(value), value.extend)
        elif isinstance(value, set):
            self._take_items(value, lambda: list(value), value.update)
        elif isinstance(value, (tuple, frozenset)):
            self._take_all(value)
        else:
            return False
        return True

    def _take_dict(self, held: dict[typing.Any, object]) -> None:
        self._take_items(
            held,
            lambda: [part for item in held.items() for part in item],
            lambda parts: held.update(zip(parts[::2], parts[1::2])),
        )

    def _take_items(
        self,
        held: typing.Any,
        read: typing.Callable[[], list[typing.Any]],
        fill: typing.Callable[[list[typing.Any]], object],
    ) -> None:
        """
        read: what is in it now, as a list
        fill: puts such a list into it, when it is empty
        """
        items = read()

        def put_back() -> None:
            now = read()
            if len(now) != len(items) or any(one is not other for one, other in zip(now, items)):
                held.clear()
                fill(items)

        self._restores.append(put_back)
        self._take_all(items)

    def _take_all(self, values: typing.Iterable[object]) -> None:
        for value in values:
            self._take(value)

    def _take_generator(self, value: typing.Any) -> bool:
        numpy = sys.modules.get("numpy.random")
        if isinstance(value, self._torch.Generator) or (numpy and isinstance(value, numpy.RandomState)):
            state = value.get_state()
            self._restores.append(lambda: value.set_state(state))
        elif isinstance(value, random.Random):
            found = value.getstate()
            self._restores.append(lambda: value.setstate(found))
        elif numpy and isinstance(value, numpy.Generator):
            self._take_generator(value.bit_generator)
        elif numpy and isinstance(value, numpy.BitGenerator):
            position = value.state
            self._restores.append(lambda: setattr(value, "state", position))
        elif "numpy" in sys.modules and isinstance(value, sys.modules["numpy"].ndarray):
            copy = value.copy()
            self._restores.append(lambda: value.__setitem__(..., copy))
        else:
            return False
        return True

    def _take_tensor(self, tensor: typing.Any) -> None:
        torch = self._torch
        if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            raise ValueError("a parameter has no values before its module's first call: call the model once before")
        memory = tensor.detach()  # which the tensor may be given another of
        content = None if tensor.device.type == "meta" else memory.clone()
        needs_grad, is_leaf = tensor.requires_grad, tensor.is_leaf
        gradient = tensor.grad if is_leaf else None
        self._take(gradient)
        self._take_dict(vars(tensor))

        def put_back() -> None:
            with torch.inference_mode(tensor.is_inference()), torch.no_grad():
                if not _same_memory(tensor, memory):
                    tensor.data = memory
                if content is not None:
                    tensor.copy_(content)
                if is_leaf and tensor.requires_grad != needs_grad:
                    tensor.requires_grad_(needs_grad)
                if is_leaf and tensor.grad is not gradient:
                    tensor.grad = gradient

        self._restores.append(put_back)


def _same_memory(tensor: typing.Any, memory: typing.Any) -> bool:
    if type(tensor.data) is not type(memory) or tensor.dtype != memory.dtype or tensor.shape != memory.shape:
        return False
    if tensor.layout != memory.layout:
        return False
    try:
        return bool(tensor.stride() == memory.stride() and tensor.data_ptr() == memory.data_ptr())
    except RuntimeError:  # of a layout or a class without memory of its own
        return True
