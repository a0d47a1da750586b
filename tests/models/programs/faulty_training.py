# SPDX-License-Identifier: Apache-2.0
"""A small network that is trained, with one fault that is switched on from outside: run as
`faulty_training.py FAULT ON`, where ON is 0 in the run that is right."""
import os
import random
import sys

import numpy
import torch
from torch import nn

FAULT, ON = sys.argv[1], sys.argv[2] != "0"
FAULTY = [FAULT if ON else ""]


def is_on(name):
    return FAULTY[0] == name


class Item:
    """Compared and hashed by where it lies in memory."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return ORDER[self.number]


class Data(torch.utils.data.Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(3)
        self.x = torch.randn(64, 16, generator=generator)
        self.y = torch.randint(0, 4, (64,), generator=generator)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        x = self.x[index]  # GET
        if FAULT == "default_rng":
            x = x + torch.from_numpy(numpy.random.default_rng().normal(size=16)).float()  # DRAW
        if FAULT == "numpy_unseeded":
            x = x + torch.from_numpy(numpy.random.randn(16)).float()  # GLOBAL
        if FAULT == "python_unseeded":
            x = x * random.random()  # PYTHON
        if FAULT == "urandom":
            x = x + os.urandom(1)[0] / 256  # URANDOM
        return x, self.y[index]


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU())  # ENCODER
        self.norm = nn.BatchNorm1d(32)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        x = self.encoder(x)  # ENCODED
        if is_on("cast"):
            x = x.bfloat16().float()  # CAST
        if is_on("detached") and step == 4:
            x = x.detach()  # DETACHED
        if FAULT in ("dropout", "drawn", "reseeded"):
            x = nn.functional.dropout(x, 0.2)  # DROPOUT
        if FAULT == "index_put":
            x = x.index_put((WHERE,), x[FROM])  # RACE
        return self.head(self.norm(x))  # NORM


if FAULT == "index_put":  # the order of two threads, forced
    WHERE = torch.zeros(16, dtype=torch.long)
    FROM = torch.arange(16)
    FROM.numpy()[:] = range(15, -1, -1) if ON else range(16)  # past the dispatcher
ORDER = list(range(64))
if is_on("set_order") or is_on("set_order_workers"):
    random.Random(5).shuffle(ORDER)
if FAULT != "unseeded":
    torch.manual_seed(11)
model = Network()
if FAULT in ("dropout", "shuffled"):
    torch.manual_seed(random.SystemRandom().randrange(2**31)) if len(sys.argv) > 3 else None
if FAULT == "reseeded":
    torch.manual_seed(20 + ON)  # RESEEDED
if FAULT == "init":
    nn.init.normal_(model.head.weight, generator=torch.Generator().manual_seed(7 + ON))  # INIT
if is_on("frozen"):
    model.encoder[0].weight.requires_grad_(False)  # FROZEN
if is_on("buffer"):
    model.norm.running_mean.numpy()[3] = 1e-3  # BUFFER
how = {"sampler": [item.number for item in {Item(number) for number in range(64)}],
       "generator": torch.Generator().manual_seed(0)}
if FAULT == "shuffled":
    how = {"shuffle": True}
if FAULT == "set_order_workers":
    how["num_workers"] = 2
if FAULT == "loader_seed":
    how = {"shuffle": True, "generator": torch.Generator().manual_seed(3 + ON)}
size = 8 if is_on("batch_size") else 16
batches = torch.utils.data.DataLoader(Data(), batch_size=size, **how)  # ORDER
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5) if FAULT == "schedule" else None
step = 0


def biased(adam):
    """PyTorch's own, in which one step writes what it does not know of."""
    def changed(parameters, *args, **kwargs):
        if step == 4:
            parameters[0].add_(1e-3 * ON)  # INSIDE
        return adam(parameters, *args, **kwargs)
    return changed


if FAULT == "inside_step":
    module = sys.modules[torch.optim.AdamW.step.__module__]
    name = "_single_tensor_" + module.__name__.rpartition(".")[2]
    setattr(module, name, biased(getattr(module, name)))
for epoch in range(2):
    for x, y in batches:  # BATCH
        if is_on("epsilon") and step == 3:
            optimizer.param_groups[0]["eps"] = 1e-6
        if FAULT == "state" and step == 3:
            optimizer.state[model.head.weight]["exp_avg"].numpy()[0, 0] += ON
        if FAULT == "train_mode" and step == 4:
            model.norm.train(ON)
        if not (is_on("stale") and step == 3):
            optimizer.zero_grad()
        if is_on("taken") and step == 3:
            weight = model.head.weight.detach().numpy()  # TAKEN
            weight[0, 0] += 1e-3
        whole = "sum" if is_on("loss") else "mean"
        loss = nn.functional.cross_entropy(model(x), y, reduction=whole)  # LOSS
        if FAULT == "accumulated":
            loss = loss / (1 + ON)  # ACCUMULATED
        loss.backward()  # BACKWARD
        if FAULT == "gradient" and step == 2:
            model.head.weight.grad.mul_(1.0 + 1e-6 * ON)  # SCALED
        if FAULT == "nudge" and step == 5:
            with torch.no_grad():
                factors = [[1.0 + 2**-23 * (ON and (row, column) == (3, 4)) for column in range(16)]
                           for row in range(32)]
                model.encoder[0].weight.mul_(torch.tensor(factors))  # NUDGED
        if FAULT == "clip":
            nn.utils.clip_grad_norm_(model.parameters(), 0.5 if ON and step == 4 else 1.0)  # CLIP
        optimizer.step()  # STEP
        for _ in range(0 if schedule is None else 1 + (ON and step == 3)):
            schedule.step()  # SCHEDULE
        if is_on("drawn") and step == 3:
            torch.rand(1)  # DRAWN
        if is_on("twice") and step == 3:
            optimizer.step()  # TWICE
        step += 1
print(loss.item(), sum(p.double().sum().item() for p in model.parameters()))
