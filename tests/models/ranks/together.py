# SPDX-License-Identifier: Apache-2.0
"""What healthy programs of several ranks do besides: `together.py CASE`, on gloo ranks. Prints the sum of the
parameters."""
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(model, optimizer, behind=lambda step: None):
    data = torch.Generator().manual_seed(dist.get_rank())
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 8, generator=data)).square().mean().backward()
        optimizer.step()
        behind(step)


def zero(model):
    """Each rank makes the step of its own share of the parameters, and sends them to the others."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(model)
    train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01))


def objects(model):
    """Pickles of several lengths, which travel in memory of one."""
    def exchange(step):
        told = [None] * dist.get_world_size()
        dist.all_gather_object(told, "x" * 1000 * dist.get_rank())
        given = [{"step": step, "name": told[-1]}] if dist.get_rank() == 0 else [None]
        dist.broadcast_object_list(given)

    model = DistributedDataParallel(model)
    train(model, torch.optim.SGD(model.parameters(), lr=0.01), exchange)


def ensembles(model):
    """Two models, each on two of four ranks, that begin with the same weights."""
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    model = DistributedDataParallel(model, process_group=groups[dist.get_rank() // 2])
    train(model, torch.optim.SGD(model.parameters(), lr=0.01))


def pipeline(model):
    """Two stages, which find out by themselves what shapes they send to each other."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank = dist.get_rank()
    stage = PipelineStage(model[:2] if rank == 0 else model[2:], rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 2, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(1)
    for _ in range(3):
        batch, target = torch.randn(4, 8, generator=data), torch.randn(4, 2, generator=data)
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(batch)
        else:
            schedule.step(target=target)
        optimizer.step()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    globals()[sys.argv[1]](model)
    total = sum(parameter.detach().double().sum() for parameter in model.parameters())
    print(f"{dist.get_rank()}:{total.item().hex()}\n", end="", flush=True)


if __name__ == "__main__":
    main()
    # Without these gloo's threads abort the program now and then, recorded or not.
    dist.barrier()
    time.sleep(0.3)
    dist.destroy_process_group()
