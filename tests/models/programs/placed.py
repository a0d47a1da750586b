# SPDX-License-Identifier: Apache-2.0
"""DTensors on gloo: a product of a tensor that is split over the ranks with one that is on all of them."""
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(1)
    rows = distribute_tensor(torch.randn(8, 6), mesh, [Shard(0)])
    whole = distribute_tensor(torch.randn(6, 6), mesh, [Replicate()])
    for _ in range(3):  # again, past the caches of the first time
        result = torch.mm(rows, whole) + 1
        total = result.redistribute(mesh, [Replicate()]).to_local().double().sum().item().hex()
    os.write(1, f"{dist.get_rank()} {total}\n".encode())
    dist.barrier()
    time.sleep(0.3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
