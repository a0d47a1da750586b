# SPDX-License-Identifier: Apache-2.0
"""Writes TorchScript models as Python makes them, and what their modules are called.

Usage: make_python_models.py DIRECTORY. For each model NAME.pt, with NAME.json:
{"shape": input shape, "dtype": input dtype, "modules": names of named_modules(),
 "linear": names of the Linear modules, in the order they run,
 "items": lines at which a tensor becomes a number, where they are marked}.
"""
import inspect
import json
import pathlib
import sys

import torch
from torch import nn


def scale(x):
    return x * 0.5


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)

    def tail(self, x):
        return scale(x) + 1

    def forward(self, x):
        return self.tail(self.drop(self.lin(x)))


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block() for _ in range(2)])
        self.head = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 4)))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Counting(nn.Module):
    def forward(self, x):
        rows = x.sum().to(torch.int64) * 0 + 1

        y = torch.tanh(x)
        z = y[rows]  # becomes a number
        w = torch.neg(y)
        return w.view(-1, rows).sum() + z  # becomes a number


class Forked(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return torch.jit.wait(torch.jit.fork(self.block, x))


def items_of(module):
    lines, first = inspect.getsourcelines(type(module))
    return [first + n for n, line in enumerate(lines) if "# becomes a number" in line]


def write(directory, name, module, scripted, example):
    linear = []
    hooks = [
        child.register_forward_hook(lambda *_, path=path: linear.append(path))
        for path, child in module.named_modules()
        if isinstance(child, nn.Linear)
    ]
    module(example)
    for hook in hooks:
        hook.remove()
    scripted(module).save(str(directory / f"{name}.pt"))
    facts = {
        "shape": list(example.shape),
        "dtype": str(example.dtype),
        "modules": [path for path, _ in module.named_modules()],
        "linear": linear,
        "items": items_of(module),
    }
    (directory / f"{name}.json").write_text(json.dumps(facts))


def write_bert(directory):
    try:
        from transformers import BertConfig, BertModel
    except ImportError:
        return
    config = BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        vocab_size=100, max_position_embeddings=64, return_dict=False,
        attn_implementation="eager")
    module = BertModel(config).eval()
    tokens = torch.zeros(2, 8, dtype=torch.long)
    write(directory, "bert", module, lambda m: torch.jit.trace(m, tokens), tokens)


def main():
    directory = pathlib.Path(sys.argv[1])
    torch.manual_seed(0)
    example = torch.ones(2, 4)
    write(directory, "scripted", Nested().eval(), torch.jit.script, example)
    write(directory, "traced", Nested().eval(), lambda m: torch.jit.trace(m, example), example)
    write(directory, "forked", Forked().eval(), torch.jit.script, example)
    write(directory, "counting", Counting(), lambda m: torch.jit.trace(m, example), example)
    write_bert(directory)


main()
