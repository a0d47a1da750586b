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


def join(model):
    """Two epochs, of which rank 1 has a batch less each."""
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(2):
        with model.join():
            for _ in range(3 - dist.get_rank()):
                optimizer.zero_grad()
                model(torch.randn(4, 8, generator=data)).square().mean().backward()
                optimizer.step()


def local_sgd(model):
    """Each rank trains by itself, and every third step all have the same parameters again."""
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

    averager = PeriodicModelAverager(period=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        train(model, optimizer, lambda _: averager.average_parameters(model.parameters()))


def averaged(model):
    """The same by hand."""
    def average(step):
        for parameter in model.parameters() if step == 1 else ():
            dist.all_reduce(parameter.data)
            parameter.data /= dist.get_world_size()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        train(model, optimizer, average)


class Exchange(torch.autograd.Function):
    """Half of the rows to each of two ranks."""
    @staticmethod
    def forward(ctx, x):
        brought = torch.empty_like(x)
        dist.all_to_all_single(brought, x.contiguous())
        return brought

    @staticmethod
    def backward(ctx, gradient):
        return Exchange.forward(ctx, gradient)


class Experts(nn.Module):
    def __init__(self, cut=False):
        super().__init__()
        self.dense, self.expert, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.cut = cut

    def forward(self, x):
        x = self.dense(x)
        worked = self.expert(Exchange.apply(x))
        return self.head(x + Exchange.apply(worked.detach() if self.cut else worked))


def train_experts(model, parameters):
    optimizer = torch.optim.AdamW(parameters, lr=0.01)
    data = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(4, 8, generator=data)).square().mean().backward()
        for name, parameter in model.named_parameters():
            if not name.startswith("expert"):
                dist.all_reduce(parameter.grad)
        optimizer.step()


def experts(_):
    """They begin alike on all ranks, and are none the less each rank's own."""
    model = Experts()
    train_experts(model, model.parameters())


def experts_in_no_optimizer(_):
    model = Experts()
    train_experts(model, [each for name, each in model.named_parameters() if not name.startswith("expert")])


def experts_that_are_cut_off(_):
    model = Experts(cut=True)
    train_experts(model, model.parameters())


def head_alone(model):
    """A fault: the optimizer lacks what should train too."""
    head = model[2]
    train(DistributedDataParallel(model), torch.optim.SGD(head.parameters(), lr=0.01))


def sharded_stages(_):
    """Two stages of a pipeline, each a module of its own, which lies on two ranks in parts."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
    number = mesh["pp"].get_local_rank()
    torch.manual_seed(number)
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))
    fully_shard(model, mesh=mesh["dp"])
    stage = PipelineStage(model, number, 2, torch.device("cpu"), group=mesh["pp"].get_group())
    schedule = Schedule1F1B(stage, 2, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(mesh["dp"].get_local_rank())
    for _ in range(3):
        batch, target = torch.randn(4, 8, generator=data), torch.randn(4, 8, generator=data)
        if number == 0:
            schedule.step(batch)
        else:
            schedule.step(target=target)
        optimizer.step()
        optimizer.zero_grad()


def logged(_):
    """One rank looks at what lies on all of them."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    parallelize_module(model, init_device_mesh("cpu", (dist.get_world_size(),)),
                       {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.Generator().manual_seed(1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 8, generator=data)).square().mean().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            model[2].bias.to_local().sum().item()


def partial(_):
    """A fault: nobody sums the gradients of the norm, and then all are clipped by what each rank has."""
    torch.manual_seed(1)
    norm, head = nn.LayerNorm(8), nn.Linear(8, 2)
    part = nn.Parameter(torch.randn(8, 8)[4 * dist.get_rank():][:4].clone())
    parameters = [*norm.parameters(), *head.parameters(), part]
    optimizer = torch.optim.AdamW(parameters, lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        x = torch.randn(8, 8, generator=torch.Generator().manual_seed(step)).chunk(2)[dist.get_rank()]
        (head(norm(x)).square().mean() + (norm(x) @ part.t()).square().mean()).backward()
        for parameter in head.parameters():
            dist.all_reduce(parameter.grad)
        nn.utils.clip_grad_norm_(parameters, 0.1)
        optimizer.step()


def own_norm(_):
    """A fault: gradients that are alike are clipped by the norm of what each rank holds."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    part = nn.Parameter(torch.randn(4) + dist.get_rank())
    optimizer = torch.optim.SGD([*model.parameters(), part], lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        x = torch.randn(8, 8, generator=torch.Generator().manual_seed(step))
        (model(x).square().mean() + part.square().mean()).backward()
        gradients = [each.grad for each in (*model.parameters(), part)]
        factor = 0.01 / torch.stack([each.norm() for each in gradients]).norm()
        for gradient in gradients:
            gradient.mul_(factor)
        optimizer.step()


def overwritten(model):
    """A fault: a tensor is written again while it is sent."""
    train(DistributedDataParallel(model), torch.optim.SGD(model.parameters(), lr=0.01))
    message = torch.full((4,), 1.0)
    if dist.get_rank() == 0:
        dist.barrier()
        work = dist.isend(message, 1)
        message.zero_()  # gloo has not sent it until the other asks for it
        dist.barrier()
        work.wait()
    else:
        dist.barrier()
        dist.barrier()
        dist.recv(message, 0)
        message + 1


def split_by_rank(model):
    """A fault: each rank draws a split of its own."""
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split

    data = TensorDataset(torch.randn(48, 8, generator=torch.Generator().manual_seed(1)))
    training, validation = random_split(data, [32, 16], generator=torch.Generator().manual_seed(9 + dist.get_rank()))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, in DataLoader(training, 4, sampler=DistributedSampler(training)):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        for x, in DataLoader(validation, 4):
            model.module(x)


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
