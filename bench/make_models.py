#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the models of the benchmark into a folder: `make_models.py FOLDER`. ResNet-50 and BERT-base
in their default sizes with random weights, and a loop of 2,000 tiny operators."""
import sys
from pathlib import Path

import torch
import transformers
from torch import Tensor, nn


class Tiny(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2000):
            x = torch.add(x, x)
        return x


def resnet50():
    """The model and its inputs."""
    torch.manual_seed(1)
    config = transformers.ResNetConfig(return_dict=False)
    return transformers.ResNetForImageClassification(config).eval(), (torch.randn(8, 3, 224, 224),)


def bert_base():
    torch.manual_seed(1)
    config = transformers.BertConfig(return_dict=False, attn_implementation="eager")
    tokens = torch.randint(0, config.vocab_size, (8, 128))
    return transformers.BertModel(config).eval(), (tokens, torch.ones_like(tokens))


def tiny():
    return Tiny(), (torch.randn(16),)


MODELS = {"resnet50": resnet50, "bert-base": bert_base, "tiny": tiny}


def main() -> None:
    folder = Path(sys.argv[1])
    for name, make in MODELS.items():
        model, inputs = make()
        module = (torch.jit.script(model) if name == "tiny" else
                  torch.jit.trace(model, inputs, check_trace=False))
        module.save(str(folder / f"{name}.pt"))


if __name__ == "__main__":
    main()
