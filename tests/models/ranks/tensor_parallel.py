# SPDX-License-Identifier: Apache-2.0
"""Tensor parallel training on gloo, of DTensors: `tensor_parallel.py [FAULT]`. Two ranks hold the parts of two
linear layers, four do it twice over, each pair with batches of its own. Outside of these layers both ranks of a pair
compute the same, dropout too. FAULT is `data` or `dropout` (from step 1 on other batches, or masks, within a pair),
`copies` (each rank makes its part of the weights by the same seed) or `written` (a norm's weight on one rank)."""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.drop = nn.Dropout(0.5)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(self.up(self.drop(self.norm(x))).relu())


def copied(model, mesh):
    """Each rank's part of the weights is made as if it were the only one."""
    for layer in model:
        for linear, axis in ((layer.up, 0), (layer.down, 1)):
            placements = linear.weight.placements
            part = torch.randn(linear.weight.to_local().shape) * 0.1
            linear.weight = nn.Parameter(DTensor.from_local(part, mesh, placements))
        nn.init.zeros_(layer.up.bias)


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("dp", "tp"))
    tp, replica = mesh["tp"], rank // 2
    torch.manual_seed(1)
    model = nn.Sequential(Block(), Block())
    for layer in model:
        parallelize_module(layer, tp, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    if FAULT == "copies":
        copied(model, tp)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(replica)
    torch.manual_seed(100 + replica)
    for step in range(3):
        if step == 1 and rank == 1:
            if FAULT == "data":
                data.manual_seed(9)
            if FAULT == "dropout":
                torch.manual_seed(9)
            if FAULT == "written":
                with torch.no_grad():
                    model[1].norm.weight[0] += 1e-6
        optimizer.zero_grad()
        model(torch.randn(4, 8, generator=data)).square().mean().backward()
        if ranks > 2:
            for parameter in model.parameters():
                gradient = parameter.grad
                dist.all_reduce(gradient.to_local() if isinstance(gradient, DTensor) else gradient,
                                group=mesh.get_group("dp"))
        optimizer.step()
    total = sum(p.detach().to_local().double().sum().item() if isinstance(p, DTensor) else p.double().sum().item()
                for p in model.parameters())
    os.write(1, f"{rank} {total.hex()}\n".encode())
    dist.barrier()
    del model, optimizer
    time.sleep(0.3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
