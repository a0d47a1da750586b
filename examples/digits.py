# SPDX-License-Identifier: Apache-2.0
"""A training step of a small language model in bfloat16: `digits.py`, or `digits.py mended`."""

import sys

import torch
from torch import nn
from torch.nn import functional

WORDS = 400


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.narrow(functional.gelu(self.wide(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width=64, depth=2):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.head = nn.Linear(width, WORDS)

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens)))


def loss_of(logits, targets):
    if sys.argv[1:] == ["mended"]:
        logits = logits.float()
    chosen = logits.gather(-1, targets[..., None])[..., 0]
    return (logits.logsumexp(-1) - chosen).mean()


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
tokens = torch.randint(WORDS, (4, 33))
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = loss_of(model(tokens[:, :-1]), tokens[:, 1:])
loss.backward()
optimizer.step()
print(f"loss {loss.item():.4f}")
