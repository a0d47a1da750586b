# SPDX-License-Identifier: Apache-2.0
"""Data parallel training by hand, with a fault that is easily made: every rank has a seed of its own, so that
its batches differ, and begins with weights of its own too. Gradients are averaged, weights never are.

    repro-check exec -o run -- torchrun --standalone --nproc-per-node 2 examples/replicas.py
    repro-check ranks run
"""
import argparse

import torch
import torch.distributed as dist
from torch import nn


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--broadcast", action="store_true", help="begin with the weights of rank 0 everywhere")
    options = options.parse_args()

    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(7 + dist.get_rank())
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    if options.broadcast:
        for parameter in model.parameters():
            dist.broadcast(parameter.data, src=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(4):
        x, y = torch.randn(16, 16), torch.randint(0, 4, (16,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        optimizer.step()
    if dist.get_rank() == 0:
        print("loss", loss.item())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
