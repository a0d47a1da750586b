# SPDX-License-Identifier: Apache-2.0
"""Tensor and sequence parallel training by hand: `sequence_parallel.py [FAULT]`, on gloo. Each rank has a part
of the sequence, where a norm works whose weight is the same everywhere, and a part of the weights, where the
whole sequence is worked on. What the norm's weight gets on one rank is of that part of the sequence alone: the
gradients are summed, unless FAULT is `partial`."""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""


class Gather(torch.autograd.Function):
    """Of parts of the sequence the whole; backwards the sum of the gradients, of which each takes its part."""

    @staticmethod
    def forward(_context, part):
        parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, part)
        return torch.cat(parts)

    @staticmethod
    def backward(_context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size())[dist.get_rank()]


class Scatter(torch.autograd.Function):
    """The inverse: the sum of what each rank has of the whole."""

    @staticmethod
    def forward(_context, whole):
        whole = whole.clone()
        dist.all_reduce(whole)
        return whole.chunk(dist.get_world_size())[dist.get_rank()]

    @staticmethod
    def backward(_context, gradient):
        parts = [torch.empty_like(gradient) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, gradient.contiguous())
        return torch.cat(parts)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 4)
        self.down = nn.Linear(4, 8, bias=False)

    def forward(self, x):
        return x + Scatter.apply(self.down(self.up(Gather.apply(self.norm(x))).relu()))


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1 + rank)  # of weights that are split each rank has its own
    model = Block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(1)
    for _step in range(3):
        optimizer.zero_grad()
        sequence = torch.randn(16, 8, generator=data)
        model(sequence.chunk(ranks)[rank]).square().sum().backward()
        for parameter in model.norm.parameters():
            if FAULT != "partial":
                dist.all_reduce(parameter.grad)
        optimizer.step()
    os.write(1, f"{rank} {model.norm.weight.sum().item().hex()}\n".encode())
    dist.barrier()
    del model, optimizer
    time.sleep(0.3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
