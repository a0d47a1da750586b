# SPDX-License-Identifier: Apache-2.0
"""Sharded training on gloo: `sharded.py [FAULT]`, each rank holds a part of every parameter; where FAULT begins
with `wrapped`, behind FullyShardedDataParallel and clipped by its own norm, `wrapped-max` on one rank to another."""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""


def clip(model):
    """By a norm that is put together by hand, unless it is DTensor's own."""
    parameters = list(model.parameters())
    if FAULT.startswith("wrapped"):
        odd = FAULT == "wrapped-max" and dist.get_rank() == 1
        model.clip_grad_norm_(1e-4 if odd else 1e-3)
    if FAULT == "clip":
        nn.utils.clip_grad_norm_(parameters, 1e-3)
    elif FAULT.startswith("clip-"):
        norm = nn.utils.get_total_norm([each.grad.to_local() for each in parameters])
        if FAULT == "clip-by-hand":
            squares = norm.square()
            dist.all_reduce(squares)
            norm = (squares / (dist.get_world_size() // 2)).sqrt()
        if FAULT == "clip-missing":  # all ranks agree, and the other shards are in no norm
            dist.broadcast(norm, 0)
        if FAULT == "clip-twice":
            squares = norm.square()
            dist.all_reduce(squares)
            norm = squares.sqrt()
        nn.utils.clip_grads_with_norm_(parameters, 1e-3, norm)


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    # Two replicas of a model that is split in two, where there are four ranks.
    shape, names = ((ranks,), ("shard",)) if ranks < 4 else ((ranks // 2, 2), ("replicate", "shard"))
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    if FAULT.startswith("wrapped"):
        model = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
    else:
        for layer in (model[0], model[2], model):
            fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    data = torch.Generator().manual_seed(rank)
    for step in range(3):
        if FAULT == "nudged" and step == 1 and rank == ranks - 1:
            with torch.no_grad():
                model[2].weight.to_local()[0, 0] += 1e-6
        optimizer.zero_grad()
        model(torch.randn(16, 8, generator=data)).square().mean().backward()
        clip(model)
        optimizer.step()
    total = sum(getattr(p, "full_tensor", lambda p=p: p)().double().sum().item() for p in model.parameters()).hex()
    os.write(1, f"{rank} {total}\n".encode())
    dist.barrier()
    del model, optimizer
    time.sleep(0.3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
