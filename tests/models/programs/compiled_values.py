# SPDX-License-Identifier: Apache-2.0
"""Saves what code of torch.compile returned, and a gradient that it gave, of a block whose kernels write in place what
a recorded operator had written before: kept.npz."""
import numpy
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


torch.manual_seed(0)
blocks = [torch.compile(Block()), torch.compile(Block())]
optimizer = torch.optim.SGD([parameter for block in blocks for parameter in block.parameters()], lr=0.1)
between = blocks[0](torch.randn(8, 16))
blocks[1](between).square().sum().backward()
weight = blocks[0].up.weight
optimizer.step()
numpy.savez("kept.npz", output=between.detach().numpy(), gradient=weight.grad.numpy())
