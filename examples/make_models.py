#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the TorchScript models of this folder, wherever it is called from.

The committed files were made with PyTorch 1.13.1, the oldest release that the tool supports: a file
loads in newer releases, not always in older ones.
"""
import importlib.util
import os
import sys
import threading
from importlib.machinery import SourceFileLoader
from typing import Tuple

import torch
from torch import Tensor, nn

SLOTS = 1000


class Attention(nn.Module):
    """Multi-head self-attention in plain operators, so that each of them is one record."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def split(self, x: Tensor) -> Tensor:
        batch, length, width = x.size()
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        query = self.split(self.query(x))
        key = self.split(self.key(x))
        value = self.split(self.value(x))
        scores = torch.matmul(query, key.transpose(-2, -1)) * self.scale
        weights = self.dropout(torch.softmax(scores, dim=-1))
        mixed = torch.matmul(weights, value).transpose(1, 2).reshape(x.size())
        return self.output(mixed)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.norms[0](x + self.attention(x))
        return self.norms[1](x + self.feed(x))


class Encoder(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, dropout: float):
        super().__init__()
        self.layer = nn.ModuleList([Block(width, heads, dropout) for _ in range(layers)])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.layer:
            x = block(x)
        return x


class Transformer(nn.Module):
    """Token ids [batch, length] to scores; dropout in every place where people put it."""

    def __init__(self, tokens: int = 100, width: int = 16, heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.encoder = Encoder(2, width, heads, dropout)
        self.memory = nn.LSTM(width, width, num_layers=2, dropout=dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens: Tensor) -> Tuple[Tensor, Tensor]:
        x = self.encoder(self.embedding(tokens))
        x, (hidden, _) = self.memory(x)
        return self.head(self.dropout(x)), hidden


class ConvNet(nn.Module):
    """A small image classifier with a residual connection."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.block = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8), nn.ReLU(inplace=True)
        )
        self.pool = nn.AdaptiveAvgPool2d(4)
        self.head = nn.Linear(8 * 16, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.stem(image)
        x = torch.relu(x + self.block(x))
        x = self.pool(torch.nn.functional.max_pool2d(x, 2))
        return torch.log_softmax(self.head(torch.flatten(x, 1)), dim=-1)


class Scale(nn.Module):
    """Not tanh: where it comes from MKL, two threads that are the first to call it may get different
    kernels, one time in hundreds, and the histogram is to be the first to differ."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor([1.7]))

    def forward(self, values: Tensor) -> Tensor:
        return torch.clamp(values * self.gain, -1.0, 1.0)


class Histogram(nn.Module):
    """Adds every value to its slot. With two threads the order of the additions is a race, and in
    float32 the order decides the last bits: the sums differ from run to run."""

    def forward(self, values: Tensor, index: Tensor) -> Tensor:
        sums = torch.zeros(1000, dtype=values.dtype, device=values.device)
        return sums.index_put_([index], values, accumulate=True)


class Nondeterministic(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = Scale()
        self.histogram = Histogram()
        self.head = nn.Linear(SLOTS, 4)

    def forward(self, values: Tensor, index: Tensor) -> Tensor:
        sums = self.histogram(self.scale(values), index)
        return torch.softmax(self.head(sums), dim=0)


def save_all() -> None:
    torch.manual_seed(20240229)
    torch.jit.script(Transformer()).save("transformer.pt")

    convnet = ConvNet().train()
    convnet(torch.randn(16, 3, 32, 32))  # gives the batch norms statistics that are not 0 and 1
    torch.jit.trace(convnet.eval(), torch.randn(2, 3, 32, 32)).save("convnet.pt")

    torch.jit.script(Nondeterministic().eval()).save("nondeterministic.pt")


def main() -> None:
    """TorchScript keeps the file name of every frame on the stack, and Python names its main program
    by an absolute path. So this file is loaded again under its bare name, and run on a thread of its
    own: nobody's home directory ends up in a model."""
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    loader = SourceFileLoader("make_models", os.path.basename(__file__))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module
    loader.exec_module(module)
    maker = threading.Thread(target=module.save_all)
    maker.start()
    maker.join()


if __name__ == "__main__":
    main()
