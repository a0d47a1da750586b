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


def main() -> None:
    folder = Path(sys.argv[1])
    torch.manual_seed(1)
    resnet = transformers.ResNetForImageClassification(transformers.ResNetConfig(return_dict=False))
    image = torch.randn(8, 3, 224, 224)
    torch.jit.trace(resnet.eval(), image, check_trace=False).save(str(folder / "resnet50.pt"))

    config = transformers.BertConfig(return_dict=False, attn_implementation="eager")
    bert = transformers.BertModel(config).eval()
    tokens = torch.randint(0, config.vocab_size, (8, 128))
    torch.jit.trace(bert, (tokens, torch.ones_like(tokens)), check_trace=False).save(
        str(folder / "bert-base.pt"))

    torch.jit.script(Tiny()).save(str(folder / "tiny.pt"))


if __name__ == "__main__":
    main()
