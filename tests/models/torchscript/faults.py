# SPDX-License-Identifier: Apache-2.0
"""Faults to plant into a model. A module keeps its place in the model and its weights, and gets
another class, so that its path stays what it was."""
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ManualLinear(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return torch.matmul(input, self.weight.t()) + self.bias


class ManualLayerNorm(nn.LayerNorm):
    def forward(self, input: Tensor) -> Tensor:
        mean = input.mean(-1, keepdim=True)
        spread = (input - mean).pow(2).mean(-1, keepdim=True)
        return (input - mean) / torch.sqrt(spread + self.eps) * self.weight + self.bias


class ManualBatchNorm(nn.BatchNorm2d):
    def forward(self, input: Tensor) -> Tensor:
        scale = self.weight / torch.sqrt(self.running_var + self.eps)
        shift = self.bias - self.running_mean * scale
        return input * scale.view(1, -1, 1, 1) + shift.view(1, -1, 1, 1)


class ManualConv(nn.Conv2d):
    """A 1x1 convolution as a product of matrices."""

    def forward(self, input: Tensor) -> Tensor:
        thinned = input[:, :, ::self.stride[0], ::self.stride[1]]
        return torch.einsum("nchw,oc->nohw", thinned, self.weight[:, :, 0, 0])


class NoisyLinear(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias) + self.noise


class NoisyLayerNorm(nn.LayerNorm):
    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias,
                            self.eps) + self.noise


class NoisyConv(nn.Conv2d):
    def forward(self, input: Tensor) -> Tensor:
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding) + self.noise


class Bf16Linear(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        out = F.linear(input, self.weight, self.bias)
        return out.to(torch.bfloat16).to(torch.float32)


class Bf16LayerNorm(nn.LayerNorm):
    def forward(self, input: Tensor) -> Tensor:
        out = F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
        return out.to(torch.bfloat16).to(torch.float32)


class Bf16Conv(nn.Conv2d):
    def forward(self, input: Tensor) -> Tensor:
        out = F.conv2d(input, self.weight, self.bias, self.stride, self.padding)
        return out.to(torch.bfloat16).to(torch.float32)


class DrawingLinear(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias) + torch.rand(3).sum() * 0


class DrawingLayerNorm(nn.LayerNorm):
    def forward(self, input: Tensor) -> Tensor:
        out = F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
        return out + torch.rand(3).sum() * 0


class DrawingConv(nn.Conv2d):
    def forward(self, input: Tensor) -> Tensor:
        out = F.conv2d(input, self.weight, self.bias, self.stride, self.padding)
        return out + torch.rand(3).sum() * 0


BASES = (nn.Linear, nn.LayerNorm, nn.Conv2d, nn.BatchNorm2d)
SLOWER = {nn.Linear: ManualLinear, nn.LayerNorm: ManualLayerNorm, nn.Conv2d: ManualConv,
          nn.BatchNorm2d: ManualBatchNorm}
NOISY = {nn.Linear: NoisyLinear, nn.LayerNorm: NoisyLayerNorm, nn.Conv2d: NoisyConv}
BF16 = {nn.Linear: Bf16Linear, nn.LayerNorm: Bf16LayerNorm, nn.Conv2d: Bf16Conv}
DRAWING = {nn.Linear: DrawingLinear, nn.LayerNorm: DrawingLayerNorm, nn.Conv2d: DrawingConv}
OWN_OPERATOR = {nn.Linear: r"aten::(linear|addmm)", nn.LayerNorm: r"aten::layer_norm",
                nn.Conv2d: r"aten::(_convolution|conv2d|convolution)",
                nn.BatchNorm2d: r"aten::batch_norm"}


def base_of(module: nn.Module) -> type:
    return next(base for base in BASES if isinstance(module, base))


def replace(module: nn.Module, table: dict):
    module.__class__ = table[base_of(module)]


def nudge_weight(model, place: str, element: int):
    """One element of the weight by one ULP: the `element`-th largest."""
    flat = model.get_submodule(place).weight.detach().view(-1)
    at = flat.abs().argsort(descending=True)[element]
    flat[at] = torch.nextafter(flat[at], torch.tensor(math.inf))


def tiny_weight(model, place: str):
    """One ULP of the smallest number there is, where the weight was 0: absorbed by every sum."""
    flat = model.get_submodule(place).weight.detach().view(-1)
    flat[0] = 1e-45


def zero_weight(model, place: str):
    model.get_submodule(place).weight.detach().view(-1)[0] = 0


def noisy_weight(model, place: str):
    generator = torch.Generator().manual_seed(7)
    weight = model.get_submodule(place).weight.detach()
    weight.add_(1e-5 * torch.randn(weight.shape, generator=generator))


def noisy_output(model, place: str):
    module = model.get_submodule(place)
    module.register_buffer("noise", torch.tensor(1e-4))
    replace(module, NOISY)


def swap(model, left: str, right: str):
    def put(place: str, module):
        parent, _, name = place.rpartition(".")
        setattr(model.get_submodule(parent), name, module)

    one, other = model.get_submodule(left), model.get_submodule(right)
    put(left, other)
    put(right, one)


def drop_attention_mask(model, place: str):
    module = model.get_submodule(place)
    whole = type(module)

    def forward(self, hidden_states, attention_mask=None, **more):
        return whole.forward(self, hidden_states, attention_mask=None, **more)

    module.__class__ = type("Unmasked", (whole,), {"forward": forward})
