# SPDX-License-Identifier: Apache-2.0
"""Two replicas of a model in two stages, on four gloo ranks: `groups.py [FAULT]`. Ranks 0, 1 and 2, 3 are
a pipeline each, which sends activations forward and gradients back; 0, 2 and 1, 3 reduce the gradients
of their stage, and in every step all ranks agree on the loss. What each FAULT plants is at its place."""
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as functional

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
STEPS, BATCH, HIDDEN = 3, 4, 6


def reduce_gradients(model, step, rank, group):
    if FAULT == "operator" and step == 1 and rank == 2:
        dist.broadcast(torch.zeros(HIDDEN), 0, group=group)
    if FAULT == "skipped" and step == 1 and rank == 2:
        return
    for parameter in model.parameters():
        gradient = parameter.grad
        if FAULT == "dtype" and step == 1 and rank == 3:
            gradient = gradient.double()
        if FAULT == "size" and step == 1 and rank == 3:
            gradient = gradient.flatten()[1:]
        if FAULT == "root" and step == 1:
            dist.broadcast(gradient, rank, group=group)
        else:
            dist.all_reduce(gradient, group=group)


def first_stage(model, x, rank, peer, step, pipeline):
    hidden = model(x)
    if FAULT == "no-recv" and step == 1 and rank == 0:
        dist.send(torch.ones(2), peer, group=pipeline, tag=7)
    dist.send(hidden.detach(), peer, group=pipeline)
    gradient = torch.empty_like(hidden)
    dist.irecv(gradient, peer, group=pipeline).wait()
    hidden.backward(gradient)


def second_stage(model, peer, pipeline):
    hidden = torch.empty(BATCH, HIDDEN)
    dist.recv(hidden, peer, group=pipeline)
    hidden.requires_grad_()
    loss = model(hidden).square().mean()
    loss.backward()
    dist.send(hidden.grad, peer, group=pipeline)
    return loss.detach()


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    rank = dist.get_rank()
    pipelines = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    stages = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    pipeline, stage = pipelines[rank // 2], stages[rank % 2]
    peer = rank ^ 1
    torch.manual_seed(1)
    model = nn.Linear(8, HIDDEN) if rank % 2 == 0 else nn.Linear(HIDDEN, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.Generator().manual_seed(rank // 2)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = torch.zeros(())
        if rank % 2 == 0:
            first_stage(model, torch.randn(BATCH, 8, generator=data), rank, peer, step, pipeline)
        else:
            loss = second_stage(model, peer, pipeline)
        reduce_gradients(model, step, rank, stage)
        # As DTensor and compiled programs do it: the group is a name there.
        loss = functional.all_reduce(loss, "sum", dist.group.WORLD) / 2
        optimizer.step()
    os.write(1, f"{rank} {float(loss).hex()}\n".encode())
    dist.barrier()
    time.sleep(0.3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
