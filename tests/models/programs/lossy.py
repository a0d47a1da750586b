# SPDX-License-Identifier: Apache-2.0
"""Programs whose result loses its digits at one line, which has the program's name behind it: `lossy.py NAME`."""
import sys

import torch
from torch import nn

torch.manual_seed(1)
KIND = sys.argv[1]


class Layer(nn.Module):
    def __init__(self, low=False):
        super().__init__()
        self.low, self.linear = low, nn.Linear(96, 96)

    def forward(self, x):
        if self.low:
            return nn.functional.linear(x.bfloat16(), self.linear.weight.bfloat16(), self.linear.bias.bfloat16()).float()  # linear
        return self.linear(x)


class Norm(nn.Module):
    def forward(self, x):
        x = x + (300.0 if KIND == "variance" else 3.0)
        if KIND == "variance":
            var = (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2  # variance
        else:
            var = (x - x.mean(-1, keepdim=True)).square().mean(-1, keepdim=True)
        return (x - x.mean(-1, keepdim=True)) / (var + 1e-3).sqrt()


class Rotary(nn.Module):
    def forward(self, x):
        positions = torch.arange(2000, 2064, dtype=torch.float32)
        inverse = 1.0 / 100 ** (torch.arange(0, 48, dtype=torch.float32) / 48)
        if KIND == "rotary":
            angle = positions.bfloat16()[:, None] * inverse.bfloat16()[None, :]  # rotary
        else:
            angle = positions[:, None] * inverse[None, :]
        sin, cos = angle.sin().float(), angle.cos().float()
        one, other = x.chunk(2, -1)
        return torch.cat([one * cos - other * sin, other * cos + one * sin], -1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = Layer(), Layer(KIND == "linear"), Layer()
        self.norm, self.rotary = Norm(), Rotary()

    def forward(self, x):
        x = torch.tanh(self.second(torch.tanh(self.first(x))))
        if KIND.startswith("rotary"):
            x = self.rotary(x)
        else:
            x = self.norm(x)
        return torch.tanh(self.third(x))


net, x = Net(), torch.randn(64, 96)
if KIND == "update":
    weight = torch.ones(64, 96, dtype=torch.bfloat16)
    with torch.no_grad():
        weight += (net(x) * 1e-3).bfloat16()  # update
        loss = (weight.float() - 1).square().mean()
elif KIND == "accumulated":
    total = torch.zeros((), dtype=torch.bfloat16)
    with torch.no_grad():
        for part in net(x).square().mean(-1):
            total = total + part.bfloat16()  # accumulated
        loss = total.float() / 64
else:
    with torch.no_grad():
        y = net(x)
        if KIND == "sum":
            y = (y.half() * 8).sum(0, dtype=torch.float16).float()  # sum
        if KIND == "softmax":
            y = torch.softmax(y + 3e5, -1)  # softmax
        if KIND == "log":
            y = torch.log(1 + y.abs() * 1e-6) * 1e6  # log
        loss = (y * y).mean()
print(loss.item())
