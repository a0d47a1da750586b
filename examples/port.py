# SPDX-License-Identifier: Apache-2.0
"""A small transformer as its authors wrote it, and a port of it with fused layers of other names.

usage: port.py original|port|mended
"""
import sys

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, WORDS = 64, 4, 128


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.norm_1(x)
        q, k, v = (layer(y).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        scores = scores.masked_fill(torch.ones_like(scores).tril() == 0, -torch.inf)
        x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class FusedBlock(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.before, self.between = block.norm_1, block.norm_2
        self.qkv, self.out, self.wide, self.narrow = nn.Linear(WIDTH, 3 * WIDTH), block.o, block.up, block.down
        for name in ("weight", "bias"):
            parts = [getattr(layer, name) for layer in (block.q, block.k, block.v)]
            getattr(self.qkv, name).copy_(torch.cat(parts))

    def forward(self, x):
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3 * HEADS, -1)).transpose(1, 2).chunk(3, 1)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        gelu = "tanh" if sys.argv[1] == "mended" else "none"
        return x + self.narrow(F.gelu(self.wide(self.between(x)), approximate=gelu))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(WORDS, WIDTH), nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


if __name__ == "__main__":
    torch.manual_seed(0)
    with torch.no_grad():
        model, tokens = Model(), torch.randint(WORDS, (2, 12))
        if sys.argv[1] != "original":
            model.blocks = nn.ModuleList(map(FusedBlock, model.blocks))
        model(tokens).log_softmax(-1)
