# SPDX-License-Identifier: Apache-2.0
"""Data parallel training as people write it: `replicas.py [FAULT]`, started by torchrun or with a rank
in the environment. A small network with batch norm and dropout, four steps of Adam with two
micro-batches each, on gloo. Without a FAULT the replicas agree wherever they must; what each of them
plants is at its place."""
import contextlib
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
BY_HAND = ("by-hand", "skipped", "skipped-late", "clip-skipped", "maximum")
STEPS, MICRO_BATCHES = int(os.environ.get("STEPS", "4")), 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 16)
        self.bn = nn.BatchNorm1d(16)
        self.dropout = nn.Dropout(0.1)
        self.b = nn.Linear(16, 4)

    def forward(self, x):
        return self.b(self.dropout(self.bn(self.a(x)).relu()))


def all_reduce(model, step):
    """Without a wrapper: every gradient is averaged by hand."""
    for name, parameter in model.named_parameters():
        late = FAULT == "skipped-late" and step >= 2
        if (FAULT, name) in (("skipped", "a.bias"), ("clip-skipped", "b.bias")) or late and name == "a.bias":
            continue
        largest = FAULT == "maximum" and dist.get_rank() == 1
        dist.all_reduce(parameter.grad, dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM)
        parameter.grad /= dist.get_world_size()


def wrapped(model):
    if FAULT in BY_HAND:
        return model
    options = {}
    if FAULT == "no-broadcast":
        options["init_sync"] = False
    if FAULT == "buffers":
        options["broadcast_buffers"] = False
    if FAULT == "unused":
        options["find_unused_parameters"] = True
    if FAULT == "static":
        options["static_graph"] = True
    return DistributedDataParallel(model, **options)


def accumulates(run, micro_batch):
    """The last micro-batch reduces what all have gathered."""
    if isinstance(run, nn.Module) and not hasattr(run, "no_sync"):
        return contextlib.nullcontext()
    if FAULT == "static":  # which PyTorch cannot combine with no_sync()
        return contextlib.nullcontext()
    last = micro_batch == MICRO_BATCHES - 1
    return run.no_sync() if last == (FAULT == "no-sync") else contextlib.nullcontext()


def plant(step, rank, model, optimizer):
    """Between two steps, on one rank."""
    if FAULT == "other-collective" and step == 2:
        dist.all_reduce(torch.ones(8 if rank == 1 else 4))
    if FAULT == "subgroups":
        own = None
        for other in range(dist.get_world_size()):
            group = dist.new_group([other])
            own = group if other == rank else own
        for _ in range(rank):
            dist.all_reduce(torch.ones(4), group=own)
    if FAULT == "restored" and step == 2:
        # As a resume does that has saved the generator of one rank alone.
        state = torch.get_rng_state()
        dist.broadcast(state, 0)
        torch.set_rng_state(state)
    if rank != 1 or step != 2:
        return
    if FAULT == "lost-state":
        optimizer.state[model.a.weight]["exp_avg"].zero_()
    if FAULT == "nudged":
        with torch.no_grad():
            model.b.weight[0, 0] += 1e-6
    if FAULT == "rate":
        optimizer.param_groups[0]["lr"] *= 2
    if FAULT == "decay":
        optimizer.param_groups[0]["weight_decay"] = 0.1
    if FAULT == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if FAULT == "hang":
        time.sleep(600)


def clip(model, step, rank):
    if not FAULT.startswith("clip"):
        return
    late = step == 2 and rank == 1
    if FAULT == "clip-alone" and not late:
        return
    parameters = list(model.parameters())[1 if FAULT == "clip-part" and late else 0:]
    norm = nn.utils.clip_grad_norm_((each for each in parameters), 2e-3 if FAULT == "clip-max" and late else 1e-3)
    assert norm > 0


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    # Every rank starts with the same weights by its wrapper, which hands out those of rank 0.
    torch.manual_seed(1 if FAULT in BY_HAND else 1 + rank)
    model = Net()
    run = wrapped(model)
    torch.manual_seed(5 if FAULT == "same-masks" else 5 + rank)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0 if FAULT == "frozen" else 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0) if FAULT in ("scaled", "found-inf", "scale") else None
    data = torch.Generator().manual_seed(0 if FAULT == "same-data" else rank)
    for step in range(STEPS):
        plant(step, rank, model, optimizer)
        optimizer.zero_grad()
        for micro_batch in range(MICRO_BATCHES):
            with accumulates(run, micro_batch):
                x = torch.randn(16, 8, generator=data)
                if (FAULT, step, rank) == ("nan", 2, 1):
                    x[0, 0] = float("nan")
                # The module itself is what the wrapper was made of.
                loss = (model if FAULT == "past-wrapper" else run)(x).square().mean() / MICRO_BATCHES
                (loss if scaler is None else scaler.scale(loss)).backward()
        if run is model:
            all_reduce(model, step)
        if scaler is not None and FAULT == "found-inf" and step == 2 and rank == 1:
            model.a.bias.grad[0] = float("inf")
        clip(model, step, rank)
        if (FAULT, step, rank) == ("halved", 2, 1):
            for parameter in model.parameters():
                parameter.grad.mul_(0.5)
        if (FAULT, step, rank) == ("eval", 1, 1):
            run.eval()
        if (FAULT, step, rank) == ("no-step", 2, 1):
            continue
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update(4.0 if FAULT == "scale" and step == 1 and rank == 1 else None)
    total = sum(p.double().sum().item() for p in model.parameters()).hex()
    os.write(1, f"{rank} {total}\n".encode())  # at once: the ranks share the place
    # Without these gloo's threads abort the program now and then, recorded or not.
    dist.barrier()
    del run, model, optimizer
    time.sleep(0.3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
