# SPDX-License-Identifier: Apache-2.0
"""Tensor and sequence parallel training by hand: `sequence_parallel.py [FAULT]`, on gloo. Each rank has a part
of the sequence, where a norm works whose weight is the same everywhere, and a part of the weights, where the
whole sequence is worked on. What the norm's weight gets on one rank is of that part of the sequence alone: the
gradients are summed, unless FAULT is `partial`. Biases begin as zeros, those that are split too.

With four ranks two pairs do this, on data of their own; DistributedDataParallel keeps the same parts of each pair
alike, but where FAULT is `bare`, which does that by hand, or `unsynchronised`, where the second pair begins with
other weights and DistributedDataParallel hands out none; `experts` wraps another layer, which all ranks have alike."""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""


GROUP = None  # the ranks that work on one sequence


def place():
    return dist.get_rank(GROUP), dist.get_world_size(GROUP)


class Gather(torch.autograd.Function):
    """Of parts of the sequence the whole; backwards the sum of the gradients, of which each takes its part."""

    @staticmethod
    def forward(_context, part):
        parts = [torch.empty_like(part) for _ in range(place()[1])]
        dist.all_gather(parts, part, group=GROUP)
        return torch.cat(parts)

    @staticmethod
    def backward(_context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=GROUP)
        return gradient.chunk(place()[1])[place()[0]]


class Scatter(torch.autograd.Function):
    """The inverse: the sum of what each rank has of the whole."""

    @staticmethod
    def forward(_context, whole):
        whole = whole.clone()
        dist.all_reduce(whole, group=GROUP)
        return whole.chunk(place()[1])[place()[0]]

    @staticmethod
    def backward(_context, gradient):
        parts = [torch.empty_like(gradient) for _ in range(place()[1])]
        dist.all_gather(parts, gradient.contiguous(), group=GROUP)
        return torch.cat(parts)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 4)
        self.down = nn.Linear(4, 8, bias=False)

    def forward(self, x):
        return x + Scatter.apply(self.down(self.up(Gather.apply(self.norm(x))).relu()))


def groups():
    """Of this rank: the pair that works on one sequence, and the ranks that have the same parts."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pairs = [dist.new_group([first, first + 1]) for first in range(0, ranks, 2)]
    replicas = [dist.new_group(list(range(first, ranks, 2))) for first in range(2)]
    return pairs[rank // 2], replicas[rank % 2]


def main():
    global GROUP
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    GROUP, replicas = groups()
    part, pair = rank % 2, rank // 2
    # Of weights that are split each rank has its own.
    torch.manual_seed(1 + (rank if FAULT == "unsynchronised" else part))
    model = Block()
    nn.init.zeros_(model.up.bias)
    wrapped = model
    if ranks > 2 and FAULT != "bare":
        wrapped = nn.parallel.DistributedDataParallel(
            model, process_group=replicas, init_sync=FAULT != "unsynchronised")
    dense = nn.Linear(8, 8)
    torch.manual_seed(1)
    nn.init.normal_(dense.weight, std=0.1)
    nn.init.zeros_(dense.bias)
    parameters = [*model.parameters(), *(dense.parameters() if FAULT == "experts" else [])]
    if FAULT == "experts":
        dense = nn.parallel.DistributedDataParallel(dense)
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    data = torch.Generator().manual_seed(pair)
    for _step in range(3):
        optimizer.zero_grad()
        sequence = torch.randn(16, 8, generator=data)
        own = sequence.chunk(2)[part]
        wrapped(dense(own) if FAULT == "experts" else own).square().mean().backward()
        for parameter in model.norm.parameters():
            if FAULT != "partial":
                dist.all_reduce(parameter.grad, group=GROUP)
        if ranks > 2 and FAULT == "bare":
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad, group=replicas)
        optimizer.step()
    os.write(1, f"{rank} {model.norm.weight.sum().item().hex()}\n".encode())
    dist.barrier()
    del wrapped, dense, parameters, model, optimizer
    time.sleep(0.3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
