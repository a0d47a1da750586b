# SPDX-License-Identifier: Apache-2.0
"""A class of tensors of the program's own, each around another tensor: `tensor_class.py [WHAT]`."""
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

WHAT = sys.argv[1] if len(sys.argv) > 1 else ""


class Around(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device,
                                                   requires_grad=inner.requires_grad)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def unwrapped(value):
            return value.inner if isinstance(value, Around) else value

        def wrapped(value):
            return Around(value) if isinstance(value, torch.Tensor) else value

        if func is torch.ops.aten.relu.default and WHAT == "raises":
            raise KeyError("no relu here")
        # Shapes are found out on tensors without content, as DTensor does it.
        torch.empty(2, 2, device="meta").add(1)
        return tree_map(wrapped, func(*tree_map(unwrapped, args), **tree_map(unwrapped, kwargs or {})))


class Nothing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def compute():
    torch.manual_seed(1)
    weight = Around(torch.randn(4, 4)).requires_grad_()
    masked = torch.nn.functional.dropout(torch.nn.functional.linear(Around(torch.randn(3, 4)), weight), 0.5)
    (masked + 1).relu().sum().backward()
    # Behind it nothing is as it was inside.
    return weight.grad.inner.double().sum() + (torch.ones(2) * 2).sum()


if WHAT == "mode":
    with Nothing():
        print(compute().item().hex())
elif WHAT == "fake":
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        shape = (torch.ones(2, 3) @ torch.ones(3, 4)).relu()
    print((shape + 1).shape)
else:
    try:
        print(compute().item().hex())
    except KeyError as error:
        print(type(error).__name__, error, (torch.ones(2) * 3).sum().item())
