# SPDX-License-Identifier: Apache-2.0
"""A small network that is trained for two epochs of four steps, and saves a checkpoint behind the fifth
step. Run as `resumed_training.py FILE whole` it goes on to the end; as `resumed_training.py FILE FAULT` it
resumes, and FAULT is what it does not restore: one of the names below, or `nothing`. As
`resumed_training.py FILE half` it is the first, and saves no more than weights and where it was."""
import copy
import random
import sys

import numpy
import torch
from torch import nn

FILE, FAULT = sys.argv[1:3]
RESUMES = FAULT not in ("whole", "half")
STEPS, SAVED_AFTER, BATCHES = 8, 5, 4


class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.x = torch.randn(16, 8, generator=torch.Generator().manual_seed(3))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index] + numpy.random.rand()


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(nn.functional.dropout(self.norm(self.fc(x)).relu(), 0.25))


torch.manual_seed(12 if RESUMES else 11)
numpy.random.seed(12 if RESUMES else 11)
random.seed(12 if RESUMES else 11)
model = Network()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=3)
order = torch.Generator().manual_seed(7)
step = skipped = 0


def save(order_of_epoch):
    state = {"parameters": model.state_dict(), "step": step, "order": order_of_epoch,
             "position": step % BATCHES}
    if FAULT == "whole":
        state.update(optimizer=optimizer.state_dict(), schedule=schedule.state_dict(),
                     scaler=scaler.state_dict(), torch=torch.get_rng_state(),
                     numpy=numpy.random.get_state(), random=random.getstate())
    torch.save(state, FILE)  # SAVED


def load():
    state = torch.load(FILE, weights_only=False)  # LOADED
    state.pop(FAULT, None)
    if FAULT == "count":
        state["optimizer"] = copy.deepcopy(state["optimizer"])
        for values in state["optimizer"]["state"].values():
            values["step"] = torch.zeros(())
    for name, part in (("parameters", model), ("optimizer", optimizer), ("schedule", schedule),
                       ("scaler", scaler)):
        if name in state:
            part.load_state_dict(state[name])
    if "order" in state:
        order.set_state(state["order"])
    return state


def restore_generators(early):
    """Behind the batches that are skipped, but for one that FAULT restores too early."""
    for name, setter, too_early in (("torch", torch.set_rng_state, "iterator"),
                                    ("numpy", numpy.random.set_state, "skip"),
                                    ("random", random.setstate, None)):
        if name in state and early == (FAULT == too_early or not state.get("position")):
            setter(state[name])  # RESTORED


if RESUMES:
    state = load()
    step, skipped = state["step"], state.get("position", 0)
    restore_generators(True)
while step < STEPS:
    order_of_epoch = order.get_state()
    data = Data()
    batches = torch.utils.data.DataLoader(
        data, batch_size=4, sampler=torch.utils.data.RandomSampler(data, generator=order))
    for x in batches:  # BATCH
        if skipped:
            skipped -= 1
            if not skipped:
                restore_generators(False)
            continue
        optimizer.zero_grad()
        loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        step += 1
        if step == SAVED_AFTER and not RESUMES:
            save(order_of_epoch)
        if step == STEPS:
            break
print(loss.item(), sum(p.double().sum().item() for p in model.parameters()))
